//! File descriptors: their kind, and polling, so that an execution can be stopped while it waits.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};

use isochrony_runtime::POLL_INTERVAL;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DescriptorKind {
    /// Has a size and can be read at any offset.
    Regular,
    Pipe,
    Socket,
    /// Terminals, devices, and generated files.
    Other,
}

pub(crate) fn kind_and_size(file: &File) -> io::Result<(DescriptorKind, u64)> {
    let metadata = file.metadata()?;
    let file_type = metadata.file_type();
    let kind = if file_type.is_file() && metadata.len() > 0 {
        DescriptorKind::Regular
    } else if file_type.is_fifo() {
        DescriptorKind::Pipe
    } else if file_type.is_socket() {
        DescriptorKind::Socket
    } else {
        DescriptorKind::Other
    };
    Ok((kind, metadata.len()))
}

/// Which can be read without blocking, or are at their end. With `wait`, waits up to [`POLL_INTERVAL`] for the first.
pub(crate) fn poll_readable(files: &[BorrowedFd<'_>], wait: bool) -> io::Result<Vec<bool>> {
    poll_ready(files, PollFlags::IN, wait)
}

/// Whether it can be written without blocking, or never again. Waits up to [`POLL_INTERVAL`].
pub(crate) fn poll_writable(file: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(poll_ready(&[file], PollFlags::OUT, true)?[0])
}

fn poll_ready(files: &[BorrowedFd<'_>], events: PollFlags, wait: bool) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = files
        .iter()
        .map(|file| PollFd::from_borrowed_fd(*file, events))
        .collect();
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: if wait {
            i64::from(POLL_INTERVAL.subsec_nanos())
        } else {
            0
        },
    };
    match poll(&mut polled, Some(&timeout)) {
        // Hung up, invalid or failed is ready: reading or writing returns the error at once.
        Ok(_) => Ok(polled.iter().map(|one| !one.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; files.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Reopens a pipe without blocking, so that an execution can be stopped while nobody reads the other end. (Setting the
/// flag on the given description would set it for all who share it.) Returns the given one if the system refuses.
pub(crate) fn reopen_nonblocking(pipe: File) -> File {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let opened = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    opened.unwrap_or(pipe)
}

pub(crate) fn advise_sequential(file: &File) {
    let _ = rustix::fs::fadvise(file.as_fd(), 0, None, rustix::fs::Advice::Sequential);
}
