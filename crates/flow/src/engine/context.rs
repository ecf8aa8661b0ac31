//! State shared by all operators of an execution.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use isochrony_runtime::{ActiveWatch, Interrupt, WaitCheck, Watch};

use super::part_executor::PartExecutor;
use super::pool::OutputPool;
use super::slot::{NO_EXPECTED_INDEX, NodeState};
use crate::{Item, OpError, OpErrorKind};

pub(crate) const NO_RANGE: (i64, i64) = (NO_EXPECTED_INDEX, NO_EXPECTED_INDEX);

pub(crate) struct NodeError {
    pub(crate) node: u32,
    pub(crate) range: (i64, i64),
    pub(crate) error: OpError,
}

pub(crate) struct ExecutionContext {
    pub(crate) pool: OutputPool,
    pub(crate) nodes: Vec<NodeState>,
    /// Bytes of items waiting at fan-ins, and those reported with `Out::holds`.
    pub(crate) queued_bytes: u64,
    /// Fed-back items and destinations, driven after the current item.
    pub(crate) feedback: VecDeque<(u32, Item)>,
    /// For errors: the operator being called, indices of its item.
    pub(crate) current_node: u32,
    pub(crate) item_range: (i64, i64),
    pub(crate) interrupt: Option<Interrupt>,
    /// Results have no room: the burst ends after this item.
    pub(crate) ends_burst: bool,
    /// When the first item of the burst arrived; between bursts, that of the last one. None if unknown or not
    /// measured.
    pub(crate) arrived: Option<Instant>,
    /// For sources that wait for another machine.
    pub(crate) wait_check: Option<WaitCheck>,
    pub(super) watch: Option<ActiveWatch>,
    /// Times this item: time since `since` belongs to `current_node`.
    pub(crate) timed: bool,
    pub(crate) since: Instant,
    pub(crate) useful_ns: Vec<u64>,
    /// Operators that answered [`Next::Done`](crate::Next::Done). When it rises, upstream nodes may be unused.
    pub(crate) done_count: u64,
    pub(crate) other_errors: Vec<NodeError>,
    pub(crate) helpers: Option<Arc<dyn PartExecutor>>,
}

pub(super) fn wait_check(
    interrupt: Option<&Interrupt>,
    watch: Option<&Watch>,
) -> Option<WaitCheck> {
    if interrupt.is_none() && watch.is_none() {
        return None;
    }
    let interrupt = interrupt.cloned();
    let is_stopped = move || interrupt.as_ref().is_some_and(Interrupt::is_requested);
    Some(WaitCheck::new(is_stopped).with_watch(watch.cloned()))
}

impl ExecutionContext {
    #[inline]
    pub(crate) fn check_interrupt(&mut self) -> Result<(), OpError> {
        if let Some(interrupt) = &self.interrupt
            && interrupt.is_requested()
        {
            return Err(OpErrorKind::Interrupted.into());
        }
        match &self.watch {
            Some(watch) if watch.is_due() => self.poll(),
            _ => Ok(()),
        }
    }

    /// Charged to no operator.
    #[cold]
    fn poll(&mut self) -> Result<(), OpError> {
        let begun = Instant::now();
        let continues = self.watch.as_mut().is_none_or(ActiveWatch::poll);
        self.since += begun.elapsed();
        match continues {
            true => Ok(()),
            false => Err(OpErrorKind::Interrupted.into()),
        }
    }

    #[inline]
    pub(crate) fn switch_to(&mut self, node: u32) {
        if self.timed {
            let now = Instant::now();
            let spent = now.duration_since(self.since).as_nanos() as u64;
            if let Some(useful) = self.useful_ns.get_mut(self.current_node as usize) {
                *useful += spent;
            }
            self.since = now;
        }
        self.current_node = node;
    }
}
