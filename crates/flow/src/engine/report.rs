//! Reports what an execution did, per operator, worker and task.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use isochrony_runtime::{CoreUse, WorkerReport};
use isochrony_store::Reading;
use isochrony_workers::ProcessReport;

/// What an operator did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorReport {
    /// Its name.
    pub name: &'static str,
    /// Input items.
    pub items: u64,
    /// Input samples; overlapping windows count each once.
    pub samples: u64,
    /// Gaps in its input.
    pub gaps: u64,
    /// Of a scan: samples that were not read, since stored extremes show that no window with them passes the filter behind.
    pub skipped: u64,
    /// Time spent in it, estimated from timed items.
    pub useful: Duration,
}

impl OperatorReport {
    /// The report of an operator without input.
    pub(crate) fn none(name: &'static str) -> Self {
        Self {
            name,
            items: 0,
            samples: 0,
            gaps: 0,
            skipped: 0,
            useful: Duration::ZERO,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.samples += other.samples;
        self.gaps += other.gaps;
        self.skipped += other.skipped;
        self.useful += other.useful;
    }
}

/// What a worker did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlanWorkerReport {
    /// Its number, from 0.
    pub number: usize,
    /// Its tasks.
    pub work: WorkerReport,
    /// Samples it read; overlaps of tasks count twice.
    pub samples: u64,
}

/// What a task did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskReport {
    /// The portion, with the gaps in and before it.
    pub range: Range<i64>,
    /// The worker.
    pub worker: usize,
    /// Time taken.
    pub elapsed: Duration,
}

/// What a stage did.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StageReport {
    /// Its number, from 0; the last was executed in the caller's thread.
    pub number: usize,
    /// Its operators, by their numbers in the plan.
    pub operators: Vec<usize>,
    /// How its thread spent its time.
    pub time: CoreUse,
}

/// What an execution did.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Report {
    /// Operators in execution order.
    pub operators: Vec<OperatorReport>,
    /// How signals were read, by scan.
    pub reads: Vec<Reading>,
    /// Bursts of the sources.
    pub bursts: u64,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Most bytes in pool blocks and queues at once.
    pub peak_bytes: u64,
    /// Workers; empty if only the caller's thread worked.
    pub workers: Vec<PlanWorkerReport>,
    /// Their tasks, in read order.
    pub tasks: Vec<TaskReport>,
    /// Stages, in the order of the plan; empty if the plan was not cut.
    pub stages: Vec<StageReport>,
    /// Where factory operators were called, and why.
    pub places: Vec<String>,
    /// Worker processes, by worker, in the order in which they ended.
    pub processes: Vec<ProcessReport>,
    /// Why there is no result, if nothing was read or no window fits: what a user would ask.
    pub notes: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "{:<16}{:>12}{:>16}{:>8}{:>10}",
            "operator", "items", "samples", "gaps", "time"
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
        for one in self.operators.iter().filter(|one| one.skipped > 0) {
            writeln!(
                f,
                "{} skipped {} samples, by their stored extremes",
                one.name, one.skipped
            )?;
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
        for one in &self.stages {
            let share = |time: Duration| 100.0 * time.as_secs_f64() / seconds.max(1e-9);
            let names = one
                .operators
                .iter()
                .filter_map(|&at| self.operators.get(at));
            let names: Vec<&str> = names.map(|one| one.name).collect();
            let CoreUse {
                busy,
                core,
                input,
                output,
            } = one.time;
            writeln!(
                f,
                "stage {}: worked {:.1}%, waited {:.1}% for input, {:.1}% for room, {:.1}% for a core: {}",
                one.number,
                share(busy),
                share(input),
                share(output),
                share(core),
                names.join(" -> ")
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
        for one in self.places.iter().chain(&self.notes) {
            writeln!(f, "{one}")?;
        }
        write!(
            f,
            "{seconds:.3} s, at most {} bytes in blocks and queues",
            self.peak_bytes
        )
    }
}
