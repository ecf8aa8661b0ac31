//! State of an execution in one thread.

use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_runtime::Interrupt;

use super::branches::ExecutorTaps;
use super::burst_latency::BurstLatencies;
use super::context::ExecutionContext;
use super::cut_rule::CutOrigin;
use super::part_executor::PartExecutor;
use super::pool::OutputPool;
use super::ranked_error::RankedError;
use super::report::{OperatorReport, Report};
use super::slot::{self, Slot};
use super::source_order::{BurstSize, SourceOrder};
use super::time_axis::TimeAxis;
use crate::{Item, PlanOutput};

pub(crate) struct PlanExecutor {
    pub(super) slots: Vec<Slot>,
    pub(super) source_order: SourceOrder,
    pub(super) context: ExecutionContext,
    pub(super) plan_nodes: Vec<(&'static str, usize)>,
    pub(super) axes: Vec<TimeAxis>,
    /// The `done_count` up to which unused nodes have been ended.
    pub(super) done_seen: u64,
    pub(super) bursts: u64,
    /// Block by block: size of the shared burst; items left to time.
    pub(super) round: BurstSize,
    pub(super) timed_items_left: usize,
    pub(super) burst_bytes: u64,
    pub(super) measures: bool,
    /// When the burst began, if measured.
    pub(super) asked: Option<Instant>,
    pub(super) latencies: Option<Box<BurstLatencies>>,
    /// Longest time to hold results back; last flush.
    pub(super) flush_interval: Option<Duration>,
    pub(super) flushed: Instant,
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) timed_samples: u64,
    /// First error so far; sources are read up to it.
    pub(super) first_error: Option<RankedError>,
    /// Its time; later items are not needed.
    pub(super) error_time: Option<f64>,
    /// Slots of taps follow.
    pub(super) node_count: usize,
    pub(super) taps: Option<ExecutorTaps>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepOutcome {
    /// The source gave something, or has ended.
    Gave,
    /// The source has nothing now; another may have.
    Asked,
    /// No source has anything.
    Idle,
}

impl PlanExecutor {
    pub(crate) fn by_block(mut self, by_block: bool) -> Self {
        self.source_order.by_block = by_block;
        self
    }

    /// Waits for a lagging source if its items arrive by themselves.
    pub(crate) fn awaiting_sources(mut self) -> Self {
        self.source_order.awaits = true;
        self
    }

    /// Once requested, sources of nodes that `are_stopped` are not asked any more.
    pub(crate) fn stopping(
        mut self,
        stop: &Interrupt,
        are_stopped: impl Fn(usize) -> bool,
    ) -> Self {
        for source in &mut self.source_order.sources {
            source.stop = are_stopped(source.node).then(|| stop.clone());
        }
        self
    }

    pub(crate) fn with_bursts_of(mut self, bytes: u64) -> Self {
        self.burst_bytes = self.burst_bytes.min(bytes);
        self
    }

    /// Measures latencies: results are delivered by its operators.
    pub(crate) fn with_latencies(mut self) -> Self {
        self.latencies = self.measures.then(Box::default);
        self
    }

    /// For operators that divide their work.
    pub(crate) fn with_helpers(mut self, helpers: Option<Arc<dyn PartExecutor>>) -> Self {
        self.context.helpers = helpers;
        self
    }

    /// When the first item of the last burst arrived.
    pub(crate) fn arrived(&self) -> Option<Instant> {
        self.context.arrived
    }

    pub(crate) fn total(&self) -> Option<u64> {
        let sources = self.source_order.sources.iter();
        sources.map(|source| source.source.total()).sum()
    }

    /// Among equally far sources, asks that with the least `order` first.
    pub(crate) fn ordered_by(mut self, order: &[usize]) -> Self {
        self.source_order
            .sources
            .sort_by_key(|source| order[source.node]);
        self
    }

    pub(crate) fn given(&self) -> (u64, u64) {
        (self.items, self.bytes)
    }

    pub(crate) fn end_nodes(&mut self, nodes: impl Iterator<Item = usize>) {
        let mut any = false;
        for node in nodes {
            any |= !std::mem::replace(&mut self.slots[node].ended, true);
        }
        if any {
            slot::end_upstream(&mut self.slots, 0, &self.context.nodes);
        }
    }

    pub(crate) fn release_memory(&mut self) {
        self.context.pool.shrink(self.context.queued_bytes);
    }

    pub(crate) fn holds_memory(&self) -> bool {
        self.context.nodes.iter().any(|node| node.held_bytes > 0)
    }

    pub(crate) fn into_pool(self) -> OutputPool {
        self.context.pool
    }

    pub(crate) fn with_pool(mut self, pool: Option<OutputPool>) -> Self {
        if let Some(mut pool) = pool {
            pool.shrink(0);
            self.context.pool = pool;
        }
        self
    }

    pub(crate) fn partial(&mut self, node: usize) -> Option<Item> {
        self.slots[node].op.partial().map(Item::Partial)
    }

    pub(crate) fn result(&mut self, node: usize) -> Option<PlanOutput> {
        self.slots[node].op.result()
    }

    /// Scales times from the timed items to all, up to `elapsed`.
    pub(crate) fn report(&self, elapsed: Duration) -> Report {
        let counts = slot::input_counts(&self.slots, &self.context.nodes);
        let sources = &self.source_order.sources;
        let given: u64 = sources.iter().map(|source| counts[source.node].1).sum();
        let timed: u64 = self.context.useful_ns.iter().sum();
        let most = elapsed.as_nanos() as f64 / timed.max(1) as f64;
        let scale = (given as f64 / self.timed_samples.max(1) as f64).min(most);
        let each = self
            .context
            .nodes
            .iter()
            .zip(counts)
            .zip(&self.context.useful_ns);
        let operators = each.map(|((node, (items, samples)), &useful)| OperatorReport {
            name: node.name,
            items,
            samples,
            gaps: node.gaps,
            skipped: node.skipped,
            useful: Duration::from_nanos((useful as f64 * scale) as u64),
            threads: 1,
        });
        Report {
            operators: operators.take(self.node_count).collect(),
            reads: sources
                .iter()
                .filter_map(|source| source.source.reading())
                .collect(),
            bursts: self.bursts,
            elapsed,
            idle: Duration::ZERO,
            latency: self.latencies.as_ref().map(|latencies| latencies.read()),
            peak_bytes: self.context.pool.peak(),
            workers: Vec::new(),
            tasks: Vec::new(),
            stages: Vec::new(),
            links: Vec::new(),
            threads: Vec::new(),
            changes: Vec::new(),
            branches: Vec::new(),
            pinned_cpus: Vec::new(),
            places: Vec::new(),
            processes: Vec::new(),
            tuning: None,
            notes: Vec::new(),
            cut_origin: CutOrigin::default(),
        }
    }
}
