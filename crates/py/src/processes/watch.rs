//! What ends a worker process whose parent is gone, whatever its interpreter does.

use std::os::fd::OwnedFd;
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group, kill_process};

/// Starts a thread, of the system and not of the interpreter, that waits until the other end of a socket is closed and,
/// so many seconds later, kills this process and all others of its group.
#[pyfunction]
pub(crate) fn end_with(socket: i32, grace: f64) -> PyResult<()> {
    let socket = crate::descriptor::duplicate(socket)?;
    let grace = Duration::try_from_secs_f64(grace)
        .map_err(|error| PyValueError::new_err(format!("grace={grace}: {error}; give seconds")))?;
    std::thread::Builder::new()
        .name("isochrony-end".into())
        .spawn(move || watch(&socket, grace))?;
    Ok(())
}

fn watch(socket: &OwnedFd, grace: Duration) {
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    loop {
        let mut polled = [PollFd::new(socket, PollFlags::empty())];
        // A signal handler may have interrupted it.
        if poll(&mut polled, None).is_ok() && polled[0].revents().intersects(closed) {
            break;
        }
    }
    // One that has nothing to do ends by itself, in order.
    std::thread::sleep(grace);
    // Only a group that was made for this process is its own to kill.
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
    let _ = kill_process(getpid(), Signal::KILL);
}
