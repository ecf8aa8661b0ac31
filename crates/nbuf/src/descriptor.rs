//! Files, pipes and sockets of the system: which they are, and waiting for them so that a run can be stopped meanwhile.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use isochrony_runtime::POLL_INTERVAL;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With a size; can be read at any place.
    Regular,
    Pipe,
    Socket,
    /// Terminals, devices, and files that the system makes up.
    Other,
}

pub(crate) fn kind(file: &File) -> io::Result<(Kind, u64)> {
    let about = file.metadata()?;
    let kind = about.file_type();
    let found = if kind.is_file() && about.len() > 0 {
        Kind::Regular
    } else if kind.is_fifo() {
        Kind::Pipe
    } else if kind.is_socket() {
        Kind::Socket
    } else {
        Kind::Other
    };
    Ok((found, about.len()))
}

/// Which of these can be read without waiting (or are at their end); waits up to a moment for the first if `wait`.
pub(crate) fn readable(files: &[BorrowedFd<'_>], wait: bool) -> io::Result<Vec<bool>> {
    ready(files, PollFlags::IN, wait)
}

/// Whether it takes bytes now (or never again); waits up to a moment.
pub(crate) fn writable(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(ready(&[file], PollFlags::OUT, true)?[0])
}

fn ready(files: &[BorrowedFd<'_>], what: PollFlags, wait: bool) -> io::Result<Vec<bool>> {
    let mut asked: Vec<_> = files
        .iter()
        .map(|file| PollFd::from_borrowed_fd(*file, what))
        .collect();
    let moment = Timespec {
        tv_sec: 0,
        tv_nsec: if wait {
            i64::from(POLL_INTERVAL.subsec_nanos())
        } else {
            0
        },
    };
    match poll(&mut asked, Some(&moment)) {
        // Hung up, invalid or failed: reading or writing says so at once.
        Ok(_) => Ok(asked.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; files.len()]),
        Err(why) => Err(why.into()),
    }
}

/// A pipe of its own description, which does not wait, so that a run can be stopped while nobody reads the other end.
/// (To make the given one not wait would do so for all who share it.) The given one where the system refuses.
pub(crate) fn impatient(pipe: File) -> File {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    opened.unwrap_or(pipe)
}

/// Tells the system that a file is read from front to back. Only a hint.
pub(crate) fn sequential(file: &File) {
    let _ = rustix::fs::fadvise(file.as_fd(), 0, None, rustix::fs::Advice::Sequential);
}
