//! Execution report: per operator, worker, task, stage and link.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use isochrony_runtime::{Latency, StageTime, WorkerReport};
use isochrony_store::Reading;
use isochrony_store::shard_cache::ShardCacheCounts;
use isochrony_tune::TuningReport;
use isochrony_workers::ProcessReport;
use serde_json::{Map, Value};

use super::cut_rule::CutOrigin;

/// Statistics of an operator.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OperatorReport {
    /// Operator name.
    pub name: &'static str,
    /// Input items.
    pub items: u64,
    /// Input samples; those of overlapping windows once.
    pub samples: u64,
    /// Gaps in its input.
    pub gaps: u64,
    /// Samples not read, excluded by stored extremes.
    pub skipped: u64,
    /// Time summed over threads, estimated from timed items.
    pub useful: Duration,
    /// Threads or replicas that executed it: its share of their time is at most 1.
    pub threads: usize,
}

impl OperatorReport {
    pub(crate) fn none(name: &'static str) -> Self {
        Self {
            name,
            items: 0,
            samples: 0,
            gaps: 0,
            skipped: 0,
            useful: Duration::ZERO,
            threads: 0,
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.items += other.items;
        self.samples += other.samples;
        self.gaps += other.gaps;
        self.skipped += other.skipped;
        self.useful += other.useful;
        self.threads += other.threads;
    }
}

/// Statistics of a worker.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PlanWorkerReport {
    /// Number from 0.
    pub number: usize,
    /// Work counters.
    pub work: WorkerReport,
    /// Samples read, overlaps of tasks twice.
    pub samples: u64,
    /// Host of a cluster worker.
    pub host: Option<String>,
    /// Bytes of tasks sent.
    pub sent_bytes: u64,
    /// Bytes of results received.
    pub received_bytes: u64,
    /// Lost; others repeated its last tasks.
    pub lost: bool,
    /// Sources of the signal bytes read, if its host has a cache; shared by a process's slots.
    pub cache: Option<ShardCacheCounts>,
}

/// Statistics of a task.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TaskReport {
    /// Portion, with gaps in and before it.
    pub range: Range<i64>,
    /// Worker number.
    pub worker: usize,
    /// Time taken.
    pub elapsed: Duration,
}

/// Statistics of a stage.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StageReport {
    /// Number from 0; the last ran in the caller's thread.
    pub number: usize,
    /// Replica number from 0, if replicated.
    pub replica: Option<usize>,
    /// Operator numbers in the plan.
    pub operators: Vec<usize>,
    /// Items from sources and earlier stages, overlaps of blocks twice. Of replicas that share keys, from 1 on: the parts
    /// of calls that they computed.
    pub items: u64,
    /// Bytes of these, mapped or not.
    pub bytes: u64,
    /// How its time was spent.
    pub time: StageTime,
    /// CPU time, estimated from every eighth burst; below `time.busy` when preempted.
    pub cpu: Duration,
}

/// Statistics of a link between stages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LinkReport {
    /// Upstream stage.
    pub from: usize,
    /// Downstream stage.
    pub to: usize,
    /// Bytes carried.
    pub bytes: u64,
    /// Final capacity in bytes.
    pub capacity: u64,
    /// Bytes carried per byte received upstream.
    pub gain: f64,
    /// Sends by occupancy in eighths; the last: full.
    pub occupancy: [u64; 9],
}

impl LinkReport {
    /// Mean occupancy at sends, from 0 to 1.
    #[must_use]
    pub fn mean_occupancy(&self) -> f64 {
        let sent: u64 = self.occupancy.iter().sum();
        let full = (0u64..)
            .zip(&self.occupancy)
            .map(|(eighths, count)| eighths * count);
        full.sum::<u64>() as f64 / (8 * sent).max(1) as f64
    }
}

/// Statistics of stages and links so far.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct StageMeasurement {
    /// Time since the start.
    pub elapsed: Duration,
    /// Executed in stages; else in tasks, which count as one stage.
    pub is_of_stages: bool,
    /// Stages and replicas in plan order.
    pub stages: Vec<StageReport>,
    /// Links in plan order.
    pub links: Vec<LinkReport>,
}

/// Statistics of one of several threads that executed stages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ThreadReport {
    /// CPU time; None if unknown.
    pub cpu: Option<Duration>,
    /// Involuntary context switches; None if unknown.
    pub involuntary_switches: Option<u64>,
    /// Time from start to end.
    pub elapsed: Duration,
}

/// A parameter change during execution.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChangeReport {
    /// Operator name.
    pub operator: &'static str,
    /// Number in the plan as written.
    pub node: usize,
    /// New values.
    pub params: Map<String, Value>,
    /// First input index under the change; None if nothing followed or items have no indices.
    pub from: Option<i64>,
}

/// A branch added during execution.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct BranchReport {
    /// Its last operator.
    pub operator: &'static str,
    /// Operator tapped.
    pub tap: &'static str,
    /// Its number in the plan as written.
    pub node: usize,
    /// First index received; None if nothing was, or items have no indices.
    pub from: Option<i64>,
    /// Received items begin before this index; None as for `from`.
    pub upto: Option<i64>,
    /// Items received.
    pub items: u64,
}

/// Report of an execution.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Report {
    /// Operators in execution order.
    pub operators: Vec<OperatorReport>,
    /// How signals were read, by scan.
    pub reads: Vec<Reading>,
    /// Source bursts.
    pub bursts: u64,
    /// Time from start to end.
    pub elapsed: Duration,
    /// Time that the caller's thread waited for input or for results of tasks; unknown in stages.
    pub idle: Duration,
    /// Of bursts with items, until all operators are done: from their arrival at a listener, or the request to another
    /// source, which in tasks is the begin of the task. None if not measured.
    pub latency: Option<Latency>,
    /// Peak bytes in blocks and queues.
    pub peak_bytes: u64,
    /// Workers; empty with one thread.
    pub workers: Vec<PlanWorkerReport>,
    /// Tasks in read order.
    pub tasks: Vec<TaskReport>,
    /// Stages and replicas in plan order, if the plan was cut.
    pub stages: Vec<StageReport>,
    /// Links in plan order.
    pub links: Vec<LinkReport>,
    /// Threads that executed stages, the caller's first; empty if it was alone.
    pub threads: Vec<ThreadReport>,
    /// Parameter changes in request order.
    pub changes: Vec<ChangeReport>,
    /// Branches in the order added.
    pub branches: Vec<BranchReport>,
    /// CPU of each thread with [`RunOptions::pin`](crate::RunOptions): the caller's first; None where refused.
    pub pinned_cpus: Vec<Option<usize>>,
    /// Where factory operators were called, and why.
    pub places: Vec<String>,
    /// Worker processes in the order they ended.
    pub processes: Vec<ProcessReport>,
    /// Tuning results, if tuned.
    pub tuning: Option<TuningReport>,
    /// Why there is no result, if nothing was read or no window fits.
    pub notes: Vec<String>,
    /// What decided about cuts between stages.
    pub(crate) cut_origin: CutOrigin,
}

impl Report {
    /// Share of the working time of all threads outside operators and sources, from 0 to 1: choosing sources, marks,
    /// links, preparing tasks, merging their results. None if not measured.
    #[must_use]
    pub fn engine_share(&self) -> Option<f64> {
        let useful: Duration = self.operators.iter().map(|one| one.useful).sum();
        if useful.is_zero() {
            return None;
        }
        let own = match self.stages.is_empty() {
            true => self.elapsed.saturating_sub(self.idle),
            false => self.stages.iter().map(|stage| stage.time.busy).sum(),
        };
        let workers = self.workers.iter().map(|worker| worker.work.busy);
        let worked = own + workers.sum::<Duration>();
        let engine = worked.saturating_sub(useful);
        Some(engine.as_secs_f64() / worked.as_secs_f64().max(1e-9))
    }
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
            let own = seconds * one.threads.max(1) as f64;
            let share = 100.0 * one.useful.as_secs_f64() / own.max(1e-9);
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
            let StageTime {
                busy,
                core,
                input,
                output,
            } = one.time;
            let replica = one.replica.map(|replica| format!(", replica {replica}"));
            writeln!(
                f,
                "stage {}{}: worked {:.1}%, waited {:.1}% for input, {:.1}% for room, {:.1}% for a core: {}",
                one.number,
                replica.unwrap_or_default(),
                share(busy),
                share(input),
                share(output),
                share(core),
                names.join(" -> ")
            )?;
        }
        for one in &self.links {
            writeln!(
                f,
                "link {} to {}: {} bytes, {:.3} of what stage {} got, {:.0}% full on average",
                one.from,
                one.to,
                one.bytes,
                one.gain,
                one.from,
                100.0 * one.mean_occupancy()
            )?;
        }
        for (number, one) in self.threads.iter().enumerate() {
            let Some(cpu) = one.cpu else {
                continue;
            };
            let share = 100.0 * cpu.as_secs_f64() / one.elapsed.as_secs_f64().max(1e-9);
            writeln!(f, "thread {number}: {share:.1}% of its time on a processor")?;
        }
        for one in &self.changes {
            let from = one.from.map_or("never in effect".into(), |from| {
                format!("from index {from}")
            });
            let params = Value::Object(one.params.clone());
            writeln!(f, "changed {} {params}, {from}", one.operator)?;
        }
        for one in &self.branches {
            let index = |index: Option<i64>| index.map_or("none".into(), |index| index.to_string());
            writeln!(
                f,
                "branch that ends in {}: {} items of {}, from index {} to {}",
                one.operator,
                one.items,
                one.tap,
                index(one.from),
                index(one.upto)
            )?;
        }
        if !self.pinned_cpus.is_empty() {
            let cpus = self.pinned_cpus.iter();
            let cpus = cpus.map(|cpu| cpu.map_or("none".to_owned(), |cpu| cpu.to_string()));
            let cpus: Vec<String> = cpus.collect();
            writeln!(f, "threads pinned to CPU {}", cpus.join(", "))?;
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
        if let Some(tuning) = &self.tuning {
            for one in &tuning.places {
                writeln!(f, "tuning {one}")?;
            }
            for one in &tuning.decisions {
                writeln!(f, "tuning {one}")?;
            }
            for one in &tuning.advice {
                writeln!(f, "tuning {one}")?;
            }
        }
        if let Some(bottleneck) = self.tuning.as_ref().and_then(|tuning| tuning.bottleneck) {
            writeln!(f, "bottleneck: {bottleneck}")?;
        }
        if let Some(model) = self.tuning.as_ref().and_then(|tuning| tuning.model) {
            writeln!(f, "candidates chosen by {}: {model}", model.name())?;
        }
        if let Some(share) = self.engine_share() {
            writeln!(f, "engine: {:.1}% of the time worked", 100.0 * share)?;
        }
        if let Some(latency) = self.latency.filter(|latency| latency.count > 0) {
            let ms = |time: Duration| 1e3 * time.as_secs_f64();
            writeln!(
                f,
                "latency: {:.3} ms, 99% at most {:.3} ms, all at most {:.3} ms",
                ms(latency.median),
                ms(latency.p99),
                ms(latency.max)
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn report(useful: &[Duration], elapsed: Duration, idle: Duration) -> Report {
        let operators = useful.iter().map(|useful| OperatorReport {
            useful: *useful,
            ..OperatorReport::none("map")
        });
        Report {
            operators: operators.collect(),
            elapsed,
            idle,
            ..Report::default()
        }
    }

    #[test]
    fn the_engines_share_is_what_operators_leave_of_the_time_worked() {
        // 6 s of 8 s were in operators.
        let one = report(&[4 * SECOND, 2 * SECOND], 10 * SECOND, 2 * SECOND);
        assert_eq!(one.engine_share(), Some(0.25));
        assert!(one.to_string().contains("engine: 25.0% of the time worked"));
        // Estimates may exceed the elapsed time.
        let more = report(&[3 * SECOND], 2 * SECOND, Duration::ZERO);
        assert_eq!(more.engine_share(), Some(0.0));
        let unmeasured = report(&[Duration::ZERO], SECOND, Duration::ZERO);
        assert_eq!(unmeasured.engine_share(), None);
        assert!(!unmeasured.to_string().contains("engine"));
    }

    #[test]
    fn of_stages_all_threads_count() {
        let stage = |number, busy| StageReport {
            number,
            replica: None,
            operators: vec![number],
            items: 1,
            bytes: 1,
            time: StageTime {
                busy,
                ..StageTime::default()
            },
            cpu: busy,
        };
        let mut staged = report(&[4 * SECOND, 5 * SECOND], 6 * SECOND, Duration::ZERO);
        staged.stages = vec![stage(0, 5 * SECOND), stage(1, 5 * SECOND)];
        assert_eq!(staged.engine_share(), Some(0.1));
        // 9 s of 12 s, two of them by a worker of a cluster.
        staged.workers = vec![worker(2 * SECOND)];
        assert_eq!(staged.engine_share(), Some(0.25));
    }

    fn worker(busy: Duration) -> PlanWorkerReport {
        PlanWorkerReport {
            number: 0,
            work: WorkerReport {
                busy,
                ..WorkerReport::default()
            },
            samples: 1,
            host: None,
            sent_bytes: 0,
            received_bytes: 0,
            lost: false,
            cache: None,
        }
    }

    #[test]
    fn of_tasks_workers_and_the_calling_thread_count_while_they_work() {
        // 9 s of 10 s: the calling thread waited for 5 s of 6 s.
        let mut tasks = report(&[4 * SECOND, 5 * SECOND], 6 * SECOND, 5 * SECOND);
        tasks.workers = vec![worker(5 * SECOND), worker(4 * SECOND)];
        assert_eq!(tasks.engine_share(), Some(0.1));
    }
}
