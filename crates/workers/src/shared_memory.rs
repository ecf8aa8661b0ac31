//! Memory shared by parent and worker process: an anonymous file.
//!
//! The parent reads and writes it by position and never maps it. Whatever the process does to the file, at worst a
//! result is wrong; the parent's memory never changes. So neither locks nor unsafe code are needed.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;

use isochrony_system::{descriptor, shared_memory};

use crate::error::ProcessError;

/// Grows in powers of two.
const MIN_SIZE: u64 = 1 << 20;

pub(crate) struct SharedMemory {
    file: File,
    size: u64,
}

impl SharedMemory {
    pub(crate) fn create() -> io::Result<Self> {
        Ok(Self {
            file: shared_memory::create("isochrony-worker")?,
            size: 0,
        })
    }

    /// Sends the descriptor with one byte.
    pub(crate) fn send(&self, socket: &UnixStream) -> io::Result<()> {
        descriptor::send_file(socket, &self.file)
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Allocates all pages now, so that no later write fails.
    pub(crate) fn reserve(&mut self, bytes: u64) -> Result<(), ProcessError> {
        if self.size < bytes {
            let size = bytes.max(MIN_SIZE);
            let size = size.checked_next_power_of_two().unwrap_or(size);
            shared_memory::grow(&self.file, size)
                .map_err(|error| ProcessError::OutOfMemory { bytes: size, error })?;
            self.size = size;
        }
        Ok(())
    }

    pub(crate) fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    pub(crate) fn read(&self, into: &mut [u8], at: u64) -> io::Result<()> {
        self.file.read_exact_at(into, at)
    }
}
