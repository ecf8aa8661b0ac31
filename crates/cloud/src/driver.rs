//! The request thread: one per process, started with the first request.
//!
//! Callers block on a channel, checking for interrupts every [`POLL_INTERVAL`]. One current-thread runtime suffices: it
//! only copies and decrypts, above a gigabyte per second.

use std::future::Future;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use isochrony_runtime::{POLL_INTERVAL, is_stop_requested, start_helper};
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinHandle;

use crate::error::CloudError;
use crate::per_process::PerProcess;

static DRIVER: PerProcess<Handle> = PerProcess::new();

fn start() -> Result<Handle, CloudError> {
    let no_thread = |error: std::io::Error| CloudError::NoThread {
        reason: error.to_string(),
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(no_thread)?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(std::future::pending::<()>());
    start_helper("cloud", run).map_err(no_thread)?;
    Ok(handle)
}

/// A task that is cancelled on drop.
#[derive(Debug)]
#[must_use = "a task that is dropped is cancelled"]
pub(crate) struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) -> Result<Task, CloudError> {
    Ok(Task(DRIVER.get(start)?.spawn(work)))
}

pub(crate) fn spawn_detached(
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<(), CloudError> {
    drop(DRIVER.get(start)?.spawn(work));
    Ok(())
}

/// An error if the task ends without a result.
pub(crate) fn receive<T>(from: &Receiver<T>) -> Result<T, CloudError> {
    receive_and_report(from, &mut || ())
}

/// The same; calls `report` every [`POLL_INTERVAL`].
fn receive_and_report<T>(from: &Receiver<T>, report: &mut dyn FnMut()) -> Result<T, CloudError> {
    loop {
        match from.recv_timeout(POLL_INTERVAL) {
            Ok(sent) => return Ok(sent),
            Err(RecvTimeoutError::Disconnected) => return Err(CloudError::unanswered()),
            Err(RecvTimeoutError::Timeout) if is_stop_requested() => {
                return Err(CloudError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => report(),
        }
    }
}

pub(crate) fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, CloudError>> + Send + 'static,
) -> Result<T, CloudError> {
    wait_and_report(work, &mut || ())
}

/// The same; calls `report` every [`POLL_INTERVAL`].
pub(crate) fn wait_and_report<T: Send + 'static>(
    work: impl Future<Output = Result<T, CloudError>> + Send + 'static,
    report: &mut dyn FnMut(),
) -> Result<T, CloudError> {
    let (send, from) = channel();
    let _task = spawn(async move {
        let _ = send.send(work.await);
    })?;
    receive_and_report(&from, report)?
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_wait_ends_soon_after_an_interrupt() {
        let begun = Instant::now();

        let stopped = isochrony_runtime::stoppable_waits(
            move || begun.elapsed() > Duration::from_millis(50),
            || {
                wait(async move {
                    tokio::time::sleep(Duration::from_secs(60)).await;
                    Ok(())
                })
            },
        );
        assert_eq!(stopped, Err(CloudError::Interrupted));
        assert!(begun.elapsed() < Duration::from_secs(5));
        assert_eq!(wait(async { Ok(7) }), Ok(7));
    }

    #[test]
    fn a_dropped_task_is_cancelled() {
        let (send, from) = channel::<()>();
        let task = spawn(async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(send);
        });
        drop(task.unwrap());
        assert_eq!(receive(&from), Err(CloudError::unanswered()));
    }
}
