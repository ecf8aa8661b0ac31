//! What all operators of a run share: memory, where the run is, and whether it is to go on.

use std::collections::VecDeque;
use std::time::Instant;

use isochrony_runtime::{ActiveWatch, Interrupt};

use crate::engine::pool::Pool;
use crate::engine::slot::{Cold, FRESH};
use crate::{Item, OpError, OpErrorKind};

/// Not at an item.
pub(crate) const NOWHERE: (i64, i64) = (FRESH, FRESH);

/// An error, the operator that was at work and the indices of what it was given.
pub(crate) struct Met {
    pub(crate) node: u32,
    pub(crate) range: (i64, i64),
    pub(crate) error: OpError,
}

/// What all operators of a run share.
pub(crate) struct Shared {
    pub(crate) pool: Pool,
    /// What items seldom touch of every node.
    pub(crate) cold: Vec<Cold>,
    /// Bytes that wait at fan-ins.
    pub(crate) queued: u64,
    /// What is fed back, and to which node: driven there once what is under way has come to its end.
    pub(crate) back: VecDeque<(u32, Item)>,
    /// The operator at work, and the first index of what it was given: where an error happened.
    pub(crate) current: u32,
    pub(crate) range: (i64, i64),
    pub(crate) interrupt: Option<Interrupt>,
    pub(super) watch: Option<ActiveWatch>,
    /// Whether this burst is timed; time since `since` belongs to `current`.
    pub(crate) timed: bool,
    pub(crate) since: Instant,
    pub(crate) useful_ns: Vec<u64>,
    /// How many operators have said that they want no more: then it is looked who else is wanted no more.
    pub(crate) ends: u64,
    /// What failed beside what a run fails with, and where.
    pub(crate) failures: Vec<Met>,
}

impl Shared {
    /// An error if somebody asked the run to stop.
    #[inline]
    pub(crate) fn go_on(&mut self) -> Result<(), OpError> {
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

    /// Polls the watch; that time belongs to no operator.
    #[cold]
    fn poll(&mut self) -> Result<(), OpError> {
        let begun = Instant::now();
        let goes_on = self.watch.as_mut().is_none_or(ActiveWatch::poll);
        self.since += begun.elapsed();
        match goes_on {
            true => Ok(()),
            false => Err(OpErrorKind::Interrupted.into()),
        }
    }

    /// Time until now belonged to the operator at work; from now on it belongs to `node`.
    #[inline]
    pub(crate) fn switch(&mut self, node: u32) {
        if self.timed {
            let now = Instant::now();
            let spent = now.duration_since(self.since).as_nanos() as u64;
            if let Some(useful) = self.useful_ns.get_mut(self.current as usize) {
                *useful += spent;
            }
            self.since = now;
        }
        self.current = node;
    }
}
