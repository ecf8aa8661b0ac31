//! Disk blocks of files: reserving, freeing, sparse copies, positions.
#![allow(unsafe_code)] // One call has no safe crate.

use std::fs::File;
use std::io;
use std::ops::Range;

/// Reserves disk blocks for a range, and lengthens the file to its end. If the file system cannot, a full disk shows at
/// a write.
///
/// # Errors
/// Of the system, such as a full disk.
#[cfg(target_os = "linux")]
pub fn reserve(file: &File, range: Range<u64>) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    let none = FallocateFlags::empty();
    loop {
        match fallocate(file, none, range.start, range.end - range.start) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
            result => return Ok(result?),
        }
    }
}

/// Does nothing on this system: a full disk shows at a write.
#[cfg(not(target_os = "linux"))]
pub fn reserve(_file: &File, _range: Range<u64>) -> io::Result<()> {
    Ok(())
}

/// Frees the disk blocks of a range, which then reads as zeros. `Ok(false)`: not supported.
///
/// # Errors
/// Of the system.
#[cfg(target_os = "linux")]
pub fn punch_hole(file: &File, range: Range<u64>) -> io::Result<bool> {
    use rustix::fs::FallocateFlags;
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, how, range.start, range.end - range.start) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(false),
        Err(other) => Err(other.into()),
    }
}

/// `Ok(false)`: not supported on this system.
#[cfg(not(target_os = "linux"))]
pub fn punch_hole(_file: &File, _range: Range<u64>) -> io::Result<bool> {
    Ok(false)
}

/// Copies a file to the empty `copy`. Keeps holes if the file system reports them.
///
/// # Errors
/// Of reading and writing.
#[cfg(target_os = "linux")]
pub fn copy_sparse(source: &File, copy: &File) -> io::Result<()> {
    use rustix::fs::{SeekFrom, seek};
    use rustix::io::Errno;
    use std::io::Read;

    let len = source.metadata()?.len();
    let mut at = 0;
    while at < len {
        let start = match seek(source, SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole remains.
            Err(Errno::NXIO) => break,
            // The file system does not report holes.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
            Err(error) => return Err(error.into()),
        };
        let end = match seek(source, SeekFrom::Hole(start)) {
            Ok(end) => end,
            Err(Errno::INVAL | Errno::OPNOTSUPP) => len,
            Err(error) => return Err(error.into()),
        };
        seek(source, SeekFrom::Start(start))?;
        seek(copy, SeekFrom::Start(start))?;
        let (mut part, mut to) = (source.take(end - start), copy);
        if io::copy(&mut part, &mut to)? < end - start {
            // Truncated meanwhile.
            break;
        }
        at = end;
    }
    copy.set_len(len)
}

/// Copies a file to the empty `copy`.
///
/// # Errors
/// Of reading and writing.
#[cfg(not(target_os = "linux"))]
pub fn copy_sparse(mut source: &File, mut copy: &File) -> io::Result<()> {
    io::copy(&mut source, &mut copy).map(drop)
}

/// A contiguous stretch of a file on its disk, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Offset in the file.
    pub logical: u64,
    /// Offset on the disk.
    pub physical: u64,
    /// Length.
    pub length: u64,
}

/// Where a file lies on its disk, in file order. None if the file system cannot tell, or has not allocated it yet, or
/// for very many extents.
///
/// # Errors
/// Of the system.
#[cfg(target_os = "linux")]
pub fn extents(file: &File) -> io::Result<Option<Vec<Extent>>> {
    use std::os::fd::AsRawFd;

    const MAX_EXTENTS: usize = 512;
    const FIEMAP: u32 = 0xc020_660b;
    /// Unknown, unallocated, or inline in the inode.
    const UNUSABLE_FLAGS: u32 = 0x2 | 0x4 | 0x200;
    /// Defined in `linux/fiemap.h`.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct FiemapExtent {
        logical: u64,
        physical: u64,
        length: u64,
        reserved: [u64; 2],
        flags: u32,
        more: [u32; 3],
    }
    #[repr(C)]
    struct ExtentRequest {
        start: u64,
        length: u64,
        flags: u32,
        mapped: u32,
        count: u32,
        reserved: u32,
        extents: [FiemapExtent; MAX_EXTENTS],
    }
    let none = FiemapExtent {
        logical: 0,
        physical: 0,
        length: 0,
        reserved: [0; 2],
        flags: 0,
        more: [0; 3],
    };
    let mut asked = Box::new(ExtentRequest {
        start: 0,
        length: u64::MAX,
        flags: 0,
        mapped: 0,
        count: MAX_EXTENTS as u32,
        reserved: 0,
        extents: [none; MAX_EXTENTS],
    });
    // SAFETY: `file` keeps the descriptor open. The request is a `struct fiemap` followed by `count` extents, as
    // `ExtentRequest` is; the kernel writes to nothing else.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut *asked) };
    if done != 0 {
        let error = io::Error::last_os_error();
        return match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOTTY | libc::EINVAL | libc::ENOSYS) => Ok(None),
            _ => Err(error),
        };
    }
    let found = &asked.extents[..(asked.mapped as usize).min(MAX_EXTENTS)];
    if found.len() == MAX_EXTENTS || found.iter().any(|one| one.flags & UNUSABLE_FLAGS != 0) {
        return Ok(None);
    }
    let extents = found.iter().map(|one| Extent {
        logical: one.logical,
        physical: one.physical,
        length: one.length,
    });
    Ok(Some(extents.collect()))
}

/// None: unknown on this system.
#[cfg(not(target_os = "linux"))]
pub fn extents(_file: &File) -> io::Result<Option<Vec<Extent>>> {
    Ok(None)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn extents_of_a_file_are_all_that_is_written_in_order_or_unknown() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 1 << 20], 0).unwrap();
        file.write_all_at(&[7; 1 << 20], 8 << 20).unwrap();
        file.sync_all().unwrap();
        // Some file systems, such as tmpfs, cannot tell.
        let Some(found) = extents(&file).unwrap() else {
            return;
        };
        let covered: u64 = found.iter().map(|one| one.length).sum();
        assert_eq!(covered, 2 << 20);
        assert!(found.iter().all(|one| {
            let end = one.logical + one.length;
            end <= 1 << 20 || (8 << 20) <= one.logical && end <= 9 << 20
        }));
        for pair in found.windows(2) {
            assert!(pair[0].logical + pair[0].length <= pair[1].logical);
        }
    }

    #[test]
    fn reserved_blocks_read_as_zeros_and_can_be_freed_again() {
        let file = tempfile::tempfile().unwrap();
        reserve(&file, 0..2 << 20).unwrap();
        file.write_all_at(&[7; 2 << 20], 0).unwrap();
        let before = file.metadata().unwrap().blocks();
        // Some file systems have no holes.
        if punch_hole(&file, 0..1 << 20).unwrap() {
            assert!(file.metadata().unwrap().blocks() < before);
            let mut bytes = vec![1; 2 << 20];
            file.read_exact_at(&mut bytes, 0).unwrap();
            let (freed, kept) = bytes.split_at(1 << 20);
            assert!(freed.iter().all(|&byte| byte == 0) && kept.iter().all(|&byte| byte == 7));
        }
        assert_eq!(file.metadata().unwrap().len(), 2 << 20);
    }

    #[test]
    fn copies_bytes_and_holes() {
        let folder = tempfile::tempdir().expect("a folder");
        let new = |name: &str| {
            let mut options = File::options();
            let options = options.read(true).write(true).create_new(true);
            options.open(folder.path().join(name)).expect("a file")
        };
        let source = new("a");
        source.write_all_at(&[7; 5000], 3000).expect("written");
        source.write_all_at(&[8; 100], 32 << 20).expect("written");
        source.set_len(64 << 20).expect("extended");
        let target = new("b");
        copy_sparse(&source, &target).expect("copied");
        let text = |name| std::fs::read(folder.path().join(name)).expect("read");
        assert!(text("a") == text("b"));
        let blocks = |file: &File| file.metadata().expect("metadata").blocks();
        assert!(blocks(&target) <= blocks(&source) + 64);
    }
}
