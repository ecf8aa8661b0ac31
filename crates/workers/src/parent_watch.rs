//! Ends a worker process whose parent has died, whatever its interpreter does.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, getpgrp, getpid, kill_current_process_group, kill_process};

/// Starts a native thread, independent of the interpreter. When the other end of `socket` closes, it waits for `grace`,
/// then kills this process, and its group if it leads one.
///
/// # Errors
/// The thread cannot be started.
pub fn kill_group_when_closed(socket: OwnedFd, grace: Duration) -> io::Result<()> {
    std::thread::Builder::new()
        .name("isochrony-end".into())
        .spawn(move || watch(&socket, grace))?;
    Ok(())
}

fn watch(socket: &OwnedFd, grace: Duration) {
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    loop {
        let mut polled = [PollFd::new(socket, PollFlags::empty())];
        // A signal may interrupt it.
        if poll(&mut polled, None).is_ok() && polled[0].revents().intersects(closed) {
            break;
        }
    }
    // An idle process exits meanwhile.
    std::thread::sleep(grace);
    // Another group may contain foreign processes.
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
    let _ = kill_process(getpid(), Signal::KILL);
}
