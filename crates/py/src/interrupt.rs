//! Ctrl-C during a long call.
//!
//! Long work on stores gets its own thread while the calling one checks for signals every
//! [`POLL_INTERVAL`](isochrony_runtime::POLL_INTERVAL); plans check by themselves (`plan::running`). The worker never
//! attaches, so it cannot deadlock with the caller, whatever store locks it holds.

use std::thread;

use isochrony_runtime::{Interrupt, WaitGroup};
use isochrony_segment::SigSeg;
use isochrony_store::Selection;
use pyo3::prelude::*;

use crate::errors::Result;

/// Smaller work takes milliseconds; a thread adds tens of microseconds.
const MIN_THREAD_BYTES: u64 = 8 << 20;

/// For [`interruptible`]: requests to a server take any time.
pub(crate) fn bytes_to_wait_for(is_remote: bool, bytes: u64) -> u64 {
    if is_remote { u64::MAX } else { bytes }
}

/// May wait for a server.
pub(crate) fn segment_of(py: Python<'_>, selection: &Selection) -> Result<SigSeg> {
    match selection.signal().is_remote() {
        true => interruptible(py, u64::MAX, || Ok(selection.as_segment()?)),
        false => Ok(selection.as_segment()?),
    }
}

/// Runs `work` on about `bytes` of samples, detached. An exception of a signal handler ends it, unless it is past its
/// last check: then it is complete.
pub(crate) fn interruptible<T: Send>(
    py: Python<'_>,
    bytes: u64,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    if bytes < MIN_THREAD_BYTES {
        return crate::interpreter::detach(py, work);
    }
    let interrupt = Interrupt::default();
    let own = interrupt.clone();
    run_and_check_signals(py, &interrupt, move || {
        isochrony_store::interrupt::stoppable(&own, work)
    })
}

/// An exception of a signal handler requests the interrupt, and is returned once the work has ended.
fn run_and_check_signals<T: Send>(
    py: Python<'_>,
    interrupt: &Interrupt,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    crate::interpreter::detach(py, || {
        let group = WaitGroup::new();
        thread::scope(|scope| {
            let token = group.token();
            let worker = scope.spawn(move || {
                let _token = token;
                work()
            });
            let mut raised = None;
            group.wait(|| {
                if raised.is_none()
                    && let Err(error) = crate::interpreter::attach(|py| py.check_signals())
                {
                    interrupt.request();
                    raised = Some(error);
                }
            });
            match (worker.join(), raised) {
                (Ok(_), Some(error)) => Err(error.into()),
                (Ok(outcome), None) => outcome,
                (Err(panic), _) => std::panic::resume_unwind(panic),
            }
        })
    })
}
