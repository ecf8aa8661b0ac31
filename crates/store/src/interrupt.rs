//! Interrupts long operations of this crate from another thread.
//!
//! [`stoppable`] sets a thread-local flag, which operations on many samples check every few MiB, before anything is
//! queued for a commit. An argument would have to pass every layer.

use isochrony_runtime::{Interrupt, stoppable_waits};
use std::cell::RefCell;

use crate::error::StoreError;

thread_local! {
    static INTERRUPT: RefCell<Option<Interrupt>> = const { RefCell::new(None) };
}

/// Samples' bytes between checks: a few milliseconds of work.
pub(crate) const CHECK_INTERVAL_BYTES: i64 = 4 << 20;

/// Restores the previous flag, even on a panic.
struct Restore(Option<Interrupt>);

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.0.take();
        INTERRUPT.with(|interrupt| *interrupt.borrow_mut() = before);
    }
}

/// Runs `work`, which `interrupt` ends with [`StoreError::Interrupted`].
///
/// Appends, backfills, values and counts of a selection, gathering, sealing, unsealing and verification check it. An
/// interrupted change has changed nothing; one past its last check completes.
///
/// ```
/// let interrupt = isochrony_runtime::Interrupt::default();
/// assert_eq!(isochrony_store::interrupt::stoppable(&interrupt, || 1 + 1), 2);
/// ```
pub fn stoppable<T>(interrupt: &Interrupt, work: impl FnOnce() -> T) -> T {
    let before = INTERRUPT.with(|own| own.borrow_mut().replace(interrupt.clone()));
    let _restore = Restore(before);
    let waits = interrupt.clone();
    stoppable_waits(move || waits.is_requested(), work)
}

/// Interrupts this thread's work, from a function that it calls; no effect outside [`stoppable`].
pub fn stop() {
    INTERRUPT.with(|interrupt| {
        if let Some(interrupt) = &*interrupt.borrow() {
            interrupt.request();
        }
    });
}

pub(crate) fn check(action: &'static str) -> Result<(), StoreError> {
    let asked = INTERRUPT.with(|interrupt| {
        let interrupt = interrupt.borrow();
        interrupt.as_ref().is_some_and(Interrupt::is_requested)
    });
    if asked {
        return Err(StoreError::Interrupted { action });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_use_the_innermost_flag_and_only_inside() {
        let (asked, other) = (Interrupt::default(), Interrupt::default());
        asked.request();
        stoppable(&asked, || {
            assert_eq!(check("read").unwrap_err().code(), "interrupted");
            stoppable(&other, || assert!(check("read").is_ok()));
            assert!(check("read").is_err());
        });
        assert!(check("read").is_ok());
    }

    #[test]
    fn work_can_interrupt_itself() {
        stop();
        assert!(check("read").is_ok());
        stoppable(&Interrupt::default(), || {
            stop();
            assert!(check("read").is_err());
        });
    }

    #[test]
    fn a_panic_restores_the_flag() {
        let asked = Interrupt::default();
        asked.request();
        let outcome = std::panic::catch_unwind(|| stoppable(&asked, || panic!("as a test")));
        assert!(outcome.is_err() && check("read").is_ok());
    }
}
