//! Ends a worker process whose parent has died, whatever its interpreter does.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use isochrony_system::{descriptor, process};

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
    descriptor::wait_until_closed(socket);
    // An idle process exits meanwhile.
    std::thread::sleep(grace);
    process::kill_own_group();
}
