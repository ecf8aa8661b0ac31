//! How a plan is run, and how far it is.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::budget::{Budget, Share};
use super::ticks::{Ticking, ticks};
use crate::control::Control;

/// Most bytes of queued and escaped memory, unless the caller says otherwise.
pub const MEMORY: u64 = 1 << 30;

/// Bytes that a task reads, unless the caller says otherwise: milliseconds of work.
pub const TASK: u64 = 4 << 20;

/// How a plan is run. Bindings read the plain values by name from JSON; what borrows is set by them.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    /// Most bytes that may wait in queues and in blocks that operators' results keep, of all threads of the run together.
    pub memory: u64,
    /// Set by anybody to stop the run between operator calls.
    #[serde(skip)]
    pub interrupt: Option<&'a Arc<AtomicBool>>,
    /// Looks around now and then in the run's own thread, and may stop it.
    #[serde(skip)]
    pub watch: Option<&'a Watch>,
    /// Whether the plan is rewritten first; results are the same.
    pub optimise: bool,
    /// Where the run says after each burst how far it is.
    #[serde(skip)]
    pub progress: Option<&'a Progress>,
    /// By which parameters are changed between bursts.
    #[serde(skip)]
    pub control: Option<&'a Control>,
    /// Threads that do what can be done for a portion of a recording at a time, beside the caller's, which does the rest; 1:
    /// all is done in the caller's, unless where portions are cut shows in the results, as in those of sums
    /// ([`Contract::Reducible`](crate::Contract)). These are the same bits for any number.
    pub workers: usize,
    /// Bytes of samples that a task of a worker reads, about, beside what completes its windows; less where memory is short
    /// and it does not show where tasks are cut.
    pub task: u64,
    /// By how much results may differ from those of one pass, against the largest values that go into them, beside a rounding
    /// of their type: what operators that settle ([`Contract::Settling`](crate::Contract)) need so that tasks can do them.
    /// NaN and infinities then reach as far as the task that they are in, where they would have reached to the end of the
    /// stretch. 0: not at all. Whatever it is, results are the same bits for any number of workers, one included: where it lets
    /// such an operator into tasks, one worker works in tasks, too.
    pub tolerance: f64,
    /// Keeps each worker on a core of its own.
    pub pin: bool,
    /// Which worker it is, from 0 on; None in the caller's thread.
    #[serde(skip)]
    pub worker: Option<usize>,
    /// What operators that hold something of this process share for as long as the run lasts.
    #[serde(skip)]
    pub shared: Option<&'a Arc<dyn Any + Send + Sync>>,
    /// The memory that it shares with other threads; None: it has all for itself.
    #[serde(skip)]
    pub(crate) share: Option<&'a Share>,
}

impl RunOptions<'_> {
    /// What it may take of the run's memory.
    pub(crate) fn share(&self) -> Share {
        let all = || Share {
            budget: Arc::new(Budget::new(self.memory)),
            room: None,
        };
        self.share.cloned().unwrap_or_else(all)
    }
}

/// Something that a run does now and then in its own thread: look for signals, say how far it is.
#[derive(Clone)]
pub struct Watch {
    look: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Watch {
    /// `look` says whether the run goes on. It is called forty times a second as long as operator calls are shorter: before
    /// an item of a source, or where an operator emits one. A run that is over sooner never calls it; what it takes is not
    /// counted to an operator.
    #[must_use]
    pub fn new(look: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            look: Arc::new(look),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// How far a run is; read while it goes on.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) done: AtomicU64,
    pub(super) total: AtomicU64,
}

impl Progress {
    /// Samples that the sources have given so far.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Samples that they will give; 0 where one of them does not know.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }
}

impl Default for RunOptions<'_> {
    fn default() -> Self {
        Self {
            memory: MEMORY,
            interrupt: None,
            watch: None,
            optimise: true,
            progress: None,
            control: None,
            workers: 1,
            task: TASK,
            tolerance: 0.0,
            pin: false,
            worker: None,
            shared: None,
            share: None,
        }
    }
}

/// A run's watch, and when it looked last.
pub(super) struct Watching {
    watch: Watch,
    /// Not there where nobody counts: then it is always time to look.
    ticking: Option<Ticking>,
    seen: u64,
}

impl Watching {
    pub(super) fn begin(watch: &Watch) -> Self {
        Self {
            watch: watch.clone(),
            ticking: Ticking::begin(),
            seen: ticks(),
        }
    }

    #[inline]
    pub(super) fn is_due(&self) -> bool {
        self.seen != ticks() || self.ticking.is_none()
    }

    /// Whether the run goes on.
    pub(super) fn look(&mut self) -> bool {
        self.seen = ticks();
        (self.watch.look)()
    }
}
