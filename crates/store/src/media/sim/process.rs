//! One of several concurrent processes.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

type Interruption = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub(super) struct Process {
    ends_at: Option<u64>,
    calls: AtomicU64,
    interruption: Mutex<Option<(u64, Interruption)>>,
}

impl Process {
    pub(super) fn ending(ends_at: Option<u64>) -> Self {
        Self {
            ends_at,
            ..Self::default()
        }
    }

    pub(super) fn interrupted(call: u64, by: Interruption) -> Self {
        Self {
            interruption: Mutex::new(Some((call, by))),
            ..Self::default()
        }
    }

    pub(super) fn call(&self) {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut interruption = self
            .interruption
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let due = interruption.take_if(|(at, _)| *at <= call);
        drop(interruption);
        if let Some((_, by)) = due {
            by();
        }
    }

    pub(super) fn was_interrupted(&self) -> bool {
        let left = self.interruption.lock();
        left.unwrap_or_else(PoisonError::into_inner).is_none()
    }

    pub(super) fn check(&self, change: u64) -> io::Result<()> {
        match self.ends_at {
            Some(at) if change >= at => Err(io::Error::other("the process was killed")),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").finish_non_exhaustive()
    }
}
