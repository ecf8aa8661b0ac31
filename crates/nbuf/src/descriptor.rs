//! Kind and polling of file descriptors, so that an execution can be stopped while it waits.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileTypeExt;
use std::time::Duration;

use isochrony_runtime::POLL_INTERVAL;
use isochrony_system::descriptor;

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
    let timeout = if wait { POLL_INTERVAL } else { Duration::ZERO };
    descriptor::poll_readable(files, timeout)
}

/// Whether it can be written without blocking, or never again. Waits up to [`POLL_INTERVAL`].
pub(crate) fn poll_writable(file: BorrowedFd<'_>) -> io::Result<bool> {
    descriptor::poll_writable(file, POLL_INTERVAL)
}
