//! The thread that makes requests: one per process, started with the first request.
//!
//! Everything above is blocking, so a request is a task of a current-thread runtime, and who needs its answer waits on a
//! channel, asking every [`POLL_INTERVAL`] whether the work was called off. One thread is enough: it copies what arrives
//! and decrypts it, at more than a gigabyte a second, and computes nothing else.

use std::future::Future;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use isochrony_runtime::{POLL_INTERVAL, is_stop_requested, unpinned};
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
    let thread = std::thread::Builder::new().name("isochrony-cloud".into());
    let run = unpinned(move || runtime.block_on(std::future::pending::<()>()));
    thread.spawn(run).map_err(no_thread)?;
    Ok(handle)
}

/// Starts a task.
pub(crate) fn spawn<T: Send + 'static>(
    work: impl Future<Output = T> + Send + 'static,
) -> Result<JoinHandle<T>, CloudError> {
    Ok(DRIVER.get(start)?.spawn(work))
}

/// Waits for what a task sends. `None`: it ended without.
pub(crate) fn receive<T>(from: &Receiver<T>) -> Result<Option<T>, CloudError> {
    loop {
        match from.recv_timeout(POLL_INTERVAL) {
            Ok(sent) => return Ok(Some(sent)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if is_stop_requested() => {
                return Err(CloudError::Interrupted);
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Does a task and waits for its result.
pub(crate) fn wait<T: Send + 'static>(
    work: impl Future<Output = Result<T, CloudError>> + Send + 'static,
) -> Result<T, CloudError> {
    let (send, from) = channel();
    let task = spawn(async move {
        let _ = send.send(work.await);
    })?;
    match receive(&from) {
        Ok(Some(result)) => result,
        Ok(None) => Err(CloudError::Server {
            reason: "a request ended without an answer".into(),
        }),
        Err(error) => {
            task.abort();
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_wait_ends_soon_once_the_work_is_called_off() {
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
}
