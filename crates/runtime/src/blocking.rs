//! Interruptible waits.
//!
//! A thread may wait for another machine for seconds, deep below the code that handles Ctrl-C. Whoever runs work sets
//! its thread's [`WaitCheck`], and every long wait [asks](is_stop_requested) each
//! [`POLL_INTERVAL`](crate::POLL_INTERVAL). A wait without locks [polls](poll_stop), which also runs the execution's
//! callback: that may need what a thread holds while it waits for such a lock.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use crate::poll::Watch;

/// Tells whether a thread's work shall stop. Clones are the same check.
#[derive(Clone)]
pub struct WaitCheck {
    is_stopped: Arc<dyn Fn() -> bool + Send + Sync>,
    watch: Option<Watch>,
}

impl fmt::Debug for WaitCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WaitCheck(..)")
    }
}

thread_local! {
    /// Innermost last.
    static CHECKS: RefCell<Vec<WaitCheck>> = const { RefCell::new(Vec::new()) };
}

/// Also when the work panics.
struct Remove;

impl Drop for Remove {
    fn drop(&mut self) {
        CHECKS.with(|checks| checks.borrow_mut().pop());
    }
}

impl WaitCheck {
    /// The waiting thread calls `is_stopped` every [`POLL_INTERVAL`](crate::POLL_INTERVAL), perhaps with locks held.
    #[must_use]
    pub fn new(is_stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            is_stopped: Arc::new(is_stopped),
            watch: None,
        }
    }

    /// Adds a callback for waits without locks.
    #[must_use]
    pub fn with_watch(self, watch: Option<Watch>) -> Self {
        Self { watch, ..self }
    }

    /// Does `work`, whose waits in this thread end once this or an enclosing check says so.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        CHECKS.with(|checks| checks.borrow_mut().push(self.clone()));
        let _remove = Remove;
        work()
    }
}

/// [`WaitCheck::during`] of a new check.
pub fn stoppable_waits<T>(
    is_stopped: impl Fn() -> bool + Send + Sync + 'static,
    work: impl FnOnce() -> T,
) -> T {
    WaitCheck::new(is_stopped).during(work)
}

/// Whether this thread's work shall stop.
#[must_use]
pub fn is_stop_requested() -> bool {
    CHECKS.with(|checks| checks.borrow().iter().any(|check| (check.is_stopped)()))
}

/// As [`is_stop_requested`], without locks held; runs callbacks, too.
#[must_use]
pub fn poll_stop() -> bool {
    // A callback may begin work of its own.
    let checks = CHECKS.with(|checks| checks.borrow().clone());
    let ends = |check: &WaitCheck| check.watch.as_ref().is_some_and(|watch| !watch.poll());
    checks
        .iter()
        .any(|check| (check.is_stopped)() || ends(check))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interrupt;

    #[test]
    fn waits_ask_the_inner_check_and_the_outer_one_and_only_inside() {
        let (outer, inner) = (Interrupt::default(), Interrupt::default());
        let check = |flag: &Interrupt| {
            let flag = flag.clone();
            WaitCheck::new(move || flag.is_requested())
        };
        assert!(!is_stop_requested());
        check(&outer).during(|| {
            check(&inner).during(|| {
                assert!(!is_stop_requested());
                inner.request();
                assert!(is_stop_requested());
            });
            assert!(!is_stop_requested(), "the inner one is gone");
            check(&Interrupt::default()).during(|| {
                outer.request();
                assert!(is_stop_requested());
            });
        });
        assert!(!is_stop_requested());
    }

    #[test]
    fn callbacks_run_only_where_no_lock_is_held() {
        let watch = Watch::new(|| false);
        WaitCheck::new(|| false).with_watch(Some(watch)).during(|| {
            assert!(!is_stop_requested());
            assert!(poll_stop());
        });
        assert!(!poll_stop());
    }

    #[test]
    fn a_panic_takes_the_check_along() {
        let outcome = std::panic::catch_unwind(|| stoppable_waits(|| true, || panic!("as a test")));
        assert!(outcome.is_err() && !is_stop_requested());
    }
}
