//! Ctrl-C inside one long call.
//!
//! A signal's Python handler runs only where the interpreter looks for it, which a call into Rust does not. Long work
//! of stores therefore runs in a thread of its own while the calling one looks ten times a second or more; plans look
//! themselves (`plan::running`). The worker never takes the interpreter's lock, so the two cannot wait for one another
//! whatever locks of the store it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::errors::Result;

/// Between two looks at Ctrl-C.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Work on fewer bytes than this takes milliseconds, to which a thread would add some tens of microseconds.
const LARGE: u64 = 8 << 20;

/// Does `work` on about `bytes` of samples, detached from the interpreter. What a signal handler raises meanwhile ends
/// it: at once, or if it was past its last look with the work done.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    bytes: u64,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    if bytes < LARGE {
        return crate::interpreter::detach(py, work);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    watched(py, &stop, move || {
        isochrony_store::interrupt::stoppable(&stopped, work)
    })
}

/// Does `work` in a thread of its own, detached from the interpreter, while this one looks for signals. What a handler
/// raises sets `stop`, which the work has to look at itself, and is returned once the work has ended.
fn watched<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    crate::interpreter::detach(py, || {
        let (done, finished) = channel::<()>();
        thread::scope(|scope| {
            let worker = scope.spawn(move || {
                // Dropped at the end, also of a panic, which wakes the other side.
                let _done = done;
                work()
            });
            let mut raised = None;
            while finished.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                if raised.is_none()
                    && let Err(error) = crate::interpreter::attach(|py| py.check_signals())
                {
                    stop.store(true, Ordering::Relaxed);
                    raised = Some(error);
                }
            }
            match (worker.join(), raised) {
                (Ok(_), Some(error)) => Err(error.into()),
                (Ok(outcome), None) => outcome,
                (Err(panic), _) => std::panic::resume_unwind(panic),
            }
        })
    })
}
