//! Copies files with holes.

use std::fs::File;
use std::io;

/// Keeps holes if the file system reports them. `copy` must be empty.
#[cfg(target_os = "linux")]
pub(super) fn copy(source: &File, copy: &File) -> io::Result<()> {
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

/// `copy` must be empty.
#[cfg(not(target_os = "linux"))]
pub(super) fn copy(mut source: &File, mut copy: &File) -> io::Result<()> {
    io::copy(&mut source, &mut copy).map(drop)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

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
        copy(&source, &target).expect("copied");
        let text = |name| std::fs::read(folder.path().join(name)).expect("read");
        assert!(text("a") == text("b"));
        let blocks = |file: &File| file.metadata().expect("metadata").blocks();
        assert!(blocks(&target) <= blocks(&source) + 64);
    }
}
