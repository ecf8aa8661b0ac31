//! Waits that a thread can be called away from.
//!
//! A thread that waits for another machine may wait for seconds, deep below whoever knows of Ctrl-C. So whoever runs work
//! says for its thread [how to tell](stoppable_waits) that the work shall stop, and every long wait
//! [asks](is_stop_requested) each [`POLL_INTERVAL`](crate::POLL_INTERVAL).

use std::cell::RefCell;
use std::rc::Rc;

type Check = Rc<dyn Fn() -> bool>;

thread_local! {
    static CHECK: RefCell<Option<Check>> = const { RefCell::new(None) };
}

/// Puts back what was there before, also when the work panics.
struct Restore(Option<Check>);

impl Drop for Restore {
    fn drop(&mut self) {
        let before = self.0.take();
        CHECK.with(|check| *check.borrow_mut() = before);
    }
}

/// Does `work`, whose waits in this thread end once `is_stopped` says so. It is called in this thread, every
/// [`POLL_INTERVAL`](crate::POLL_INTERVAL) of a wait. A check that was given before counts, too.
pub fn stoppable_waits<T>(is_stopped: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    let outer = CHECK.with(|check| check.borrow().clone());
    let also = outer.clone();
    let check: Check = Rc::new(move || is_stopped() || also.as_ref().is_some_and(|also| also()));
    CHECK.with(|own| *own.borrow_mut() = Some(check));
    let _restore = Restore(outer);
    work()
}

/// Whether the work of this thread shall stop.
#[must_use]
pub fn is_stop_requested() -> bool {
    let check = CHECK.with(|check| check.borrow().clone());
    check.is_some_and(|check| check())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn waits_ask_the_inner_check_and_the_outer_one_and_only_inside() {
        let (outer, inner) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
        let (ask_outer, ask_inner) = (outer.clone(), inner.clone());
        assert!(!is_stop_requested());
        stoppable_waits(
            move || ask_outer.get(),
            || {
                stoppable_waits(
                    move || ask_inner.get(),
                    || {
                        assert!(!is_stop_requested());
                        outer.set(true);
                        assert!(is_stop_requested());
                        outer.set(false);
                        inner.set(true);
                        assert!(is_stop_requested());
                    },
                );
                assert!(!is_stop_requested(), "the inner one is gone");
                outer.set(true);
                assert!(is_stop_requested());
            },
        );
        assert!(!is_stop_requested());
    }

    #[test]
    fn a_panic_takes_the_check_along() {
        let outcome = std::panic::catch_unwind(|| stoppable_waits(|| true, || panic!("as a test")));
        assert!(outcome.is_err() && !is_stop_requested());
    }
}
