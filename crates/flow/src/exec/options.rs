//! How a plan is run, and how far it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::control::Control;

/// Most bytes of queued and escaped memory, unless the caller says otherwise.
pub const MEMORY: u64 = 1 << 30;

/// How a plan is run.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RunOptions<'a> {
    /// Most bytes that may wait in queues and in blocks that operators' results keep.
    pub memory: u64,
    /// Set by anybody to stop the run between operator calls.
    pub interrupt: Option<&'a Arc<AtomicBool>>,
    /// Whether the plan is rewritten first; results are the same.
    pub optimise: bool,
    /// Where the run says after each burst how far it is.
    pub progress: Option<&'a Progress>,
    /// By which parameters are changed between bursts.
    pub control: Option<&'a Control>,
}

/// How far a run is; read by another thread.
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
            optimise: true,
            progress: None,
            control: None,
        }
    }
}
