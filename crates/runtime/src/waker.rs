//! A waker for code that blocks its thread instead of returning to an executor.

use std::sync::Arc;
use std::task::{Wake, Waker};
use std::thread::Thread;

struct ThreadWaker(Thread);

impl Wake for ThreadWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Unparks the current thread.
///
/// ```
/// let waker = isochrony_runtime::thread_waker();
/// std::thread::spawn(move || waker.wake());
/// std::thread::park();
/// ```
#[must_use]
pub fn thread_waker() -> Waker {
    Arc::new(ThreadWaker(std::thread::current())).into()
}
