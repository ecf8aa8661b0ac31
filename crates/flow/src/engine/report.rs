//! What a run did: per operator and in all.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use isochrony_runtime::WorkerReport;
use isochrony_store::Reading;
use isochrony_workers::ProcessReport;

/// What an operator did in a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorReport {
    /// Its name.
    pub name: &'static str,
    /// Items that it was given.
    pub items: u64,
    /// Samples that it was given; of windows those that no other has.
    pub samples: u64,
    /// Gaps that it met.
    pub gaps: u64,
    /// Time spent in it, estimated from the first items of bursts.
    pub useful: Duration,
}

impl OperatorReport {
    /// Of an operator that was given nothing.
    pub(crate) fn none(name: &'static str) -> Self {
        Self {
            name,
            items: 0,
            samples: 0,
            gaps: 0,
            useful: Duration::ZERO,
        }
    }

    /// Adds what another of its kind did.
    pub(crate) fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.samples += other.samples;
        self.gaps += other.gaps;
        self.useful += other.useful;
    }
}

/// What a worker of a run on several cores did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlanWorkerReport {
    /// Its number, from 0 on.
    pub number: usize,
    /// Its tasks.
    pub work: WorkerReport,
    /// Samples that it read for them; those that complete windows of one task at the beginning of the next count twice.
    pub samples: u64,
}

/// A task of a run on several cores.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskReport {
    /// Indices of the portion of the recording, with the gaps in it and before it.
    pub range: Range<i64>,
    /// Number of the worker that did it.
    pub worker: usize,
    /// How long it took.
    pub elapsed: Duration,
}

/// What a run did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Operators in the order in which they ran.
    pub operators: Vec<OperatorReport>,
    /// How signals were read, in the order of their scans.
    pub reads: Vec<Reading>,
    /// Bursts that the sources gave.
    pub bursts: u64,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Most bytes in pooled blocks and queues at once.
    pub peak_bytes: u64,
    /// What workers did; none where all was done in the caller's thread.
    pub workers: Vec<PlanWorkerReport>,
    /// Their tasks, scan by scan in the order of reading.
    pub tasks: Vec<TaskReport>,
    /// Where operators worked that hold something of this process, and why.
    pub places: Vec<String>,
    /// Worker processes, by worker, in the order in which they ended.
    pub processes: Vec<ProcessReport>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "{:<16}{:>12}{:>16}{:>8}{:>10}",
            "operator", "items", "samples", "gaps", "useful"
        )?;
        for one in &self.operators {
            let share = 100.0 * one.useful.as_secs_f64() / seconds.max(1e-9);
            writeln!(
                f,
                "{:<16}{:>12}{:>16}{:>8}{share:>9.1}%",
                one.name, one.items, one.samples, one.gaps
            )?;
        }
        for one in &self.reads {
            writeln!(f, "read {one}")?;
        }
        for one in &self.workers {
            let share = 100.0 * one.work.busy.as_secs_f64() / seconds.max(1e-9);
            let name = format!("worker {}", one.number);
            writeln!(
                f,
                "{name:<16}{:>6} tasks{:>16}{share:>17.1}%",
                one.work.items, one.samples
            )?;
        }
        for one in &self.processes {
            let share = 100.0 * one.busy.as_secs_f64() / seconds.max(1e-9);
            let of = one
                .worker
                .map_or("caller".into(), |at| format!("worker {at}"));
            let ended = one
                .ended
                .as_deref()
                .map_or(String::new(), |how| format!(" {how}"));
            writeln!(
                f,
                "process {:<8}{:>6} blocks of {of:<20}{share:>9.1}%{ended}",
                one.pid, one.blocks
            )?;
        }
        for one in &self.places {
            writeln!(f, "{one}")?;
        }
        write!(
            f,
            "{seconds:.3} s, {} bursts, peak {} bytes",
            self.bursts, self.peak_bytes
        )
    }
}
