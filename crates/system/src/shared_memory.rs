//! Memory that processes share: a file without a name.

use std::fs::File;
use std::io;

/// Creates an empty file in memory that nobody else can open. It can grow but not shrink, as another process may have
/// it mapped. `name` is for diagnostics only.
///
/// # Errors
/// Of the system.
#[cfg(target_os = "linux")]
pub fn create(name: &str) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    fcntl_add_seals(&file, SealFlags::SHRINK)?;
    Ok(File::from(file))
}

/// Not supported on this system.
///
/// # Errors
/// `Unsupported`.
#[cfg(not(target_os = "linux"))]
pub fn create(_name: &str) -> io::Result<File> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Grows a file to `bytes` and allocates all pages, so that no later write fails.
///
/// # Errors
/// Of the system, as without memory.
#[cfg(target_os = "linux")]
pub fn grow(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    Ok(fallocate(file, FallocateFlags::empty(), 0, bytes)?)
}

/// Grows a file to `bytes`. A later write may fail on this system.
///
/// # Errors
/// Of the system.
#[cfg(not(target_os = "linux"))]
pub fn grow(file: &File, bytes: u64) -> io::Result<()> {
    file.set_len(bytes)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn it_grows_with_zeros_and_is_never_cut() {
        let file = create("isochrony-test").unwrap();
        grow(&file, 1 << 20).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        file.write_all_at(b"here", 1000).unwrap();
        grow(&file, 2 << 20).unwrap();
        let mut text = [1; 8];
        file.read_exact_at(&mut text, 1000).unwrap();
        assert_eq!(&text, b"here\0\0\0\0");
        file.set_len(1000).unwrap_err();
    }
}
