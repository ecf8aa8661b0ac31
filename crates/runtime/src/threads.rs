//! Starts the threads of executions: workers, which compute, and helpers, which mostly wait.
//!
//! All executions start their threads here, for the same names and CPU rules.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use crate::{Pinning, unpinned};

/// Starts worker `number` of an execution, as thread `isochrony-{number}`; 0 is the caller's thread where that
/// computes, too. `pinning` keeps it on its CPU.
///
/// ```
/// let name = std::thread::scope(|scope| {
///     let name = || std::thread::current().name().map(str::to_owned);
///     isochrony_runtime::start_worker(scope, 1, None, name).unwrap().join().unwrap()
/// });
/// assert_eq!(name.as_deref(), Some("isochrony-1"));
/// ```
///
/// # Errors
/// The system refuses a thread.
pub fn start_worker<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    number: usize,
    pinning: Option<&'scope Pinning>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let thread = Builder::new().name(format!("isochrony-{number}"));
    thread.spawn_scoped(scope, move || {
        let _pinned = pinning.map(|pinning| pinning.pin(number));
        work()
    })
}

/// Starts a helper of an execution, as thread `isochrony-{role}`, on all CPUs that its starter could use before it was
/// pinned.
///
/// # Errors
/// The system refuses a thread.
pub fn start_scoped_helper<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    role: &str,
    work: impl FnOnce() -> T + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, T>> {
    let thread = Builder::new().name(format!("isochrony-{role}"));
    thread.spawn_scoped(scope, unpinned(work))
}

/// Like [`start_scoped_helper`], for a helper that may outlive the execution.
///
/// ```
/// let helper = isochrony_runtime::start_helper("ahead", || 7).unwrap();
/// assert_eq!(helper.thread().name(), Some("isochrony-ahead"));
/// assert_eq!(helper.join().unwrap(), 7);
/// ```
///
/// # Errors
/// The system refuses a thread.
pub fn start_helper<T: Send + 'static>(
    role: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let thread = Builder::new().name(format!("isochrony-{role}"));
    thread.spawn(unpinned(work))
}
