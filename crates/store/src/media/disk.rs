//! Files of the operating system.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use super::{Access, Kind, Media, MediaFile, MediaLock, Site, Volume, platform};

/// The machine's own file systems.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskMedia;

/// Bytes of a file that are sent to the disk together once they are written.
const PART: u64 = 8 << 20;

#[derive(Debug)]
struct DiskFile(File);

#[derive(Debug)]
struct DiskLock(File);

impl MediaFile for DiskFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.0.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)?;
        // Who fills a file from front to back leaves whole parts behind. They are on their way to the disk while more is
        // being computed, not only when a sync waits for them.
        let (from, to) = (offset / PART, (offset + bytes.len() as u64) / PART);
        if from < to {
            // Where the system cannot, it does so when it likes: nothing depends on it.
            let _ = platform::begin_writing_back(&self.0, from * PART, (to - from) * PART);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn sync(&self, _site: Site) -> io::Result<()> {
        self.0.sync_data()
    }

    fn as_os_file(&self) -> Option<&File> {
        Some(&self.0)
    }
}

/// The volume of a folder, held open from before the first write: then a sync tells of every error since.
#[derive(Debug)]
struct DiskVolume {
    folder: File,
    device: u64,
}

impl Volume for DiskVolume {
    fn pays_from(&self) -> usize {
        // Some milliseconds each on a disk, against waiting for what other programs have written, too.
        128
    }

    fn holds(&self, path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.dev() == self.device)
    }

    fn sync(&self, _site: Site) -> io::Result<()> {
        platform::sync_volume(&self.folder)
    }
}

impl MediaLock for DiskLock {
    fn write(&self, text: &str) -> io::Result<()> {
        self.0.write_all_at(text.as_bytes(), 0)?;
        self.0.set_len(text.len() as u64)
    }

    fn release(&self) {
        // Closing alone would leave the lock with a forked child that inherited the descriptor. Failure means that
        // there is no lock left to release.
        let _ = self.0.unlock();
    }
}

impl Media for DiskMedia {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match access {
            Access::Read => {}
            Access::Write => _ = options.write(true),
            Access::Create => _ = options.write(true).create(true).truncate(false),
            Access::CreateNew => _ = options.write(true).create_new(true),
        }
        Ok(Arc::new(DiskFile(options.open(path)?)))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Kind>> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => Ok(Some(Kind::Folder)),
            Ok(found) => Ok(Some(Kind::File(found.len()))),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        std::fs::read_dir(folder)?
            .map(|entry| {
                // A name that is no text is none of ours; its nearest text finds no file and does no harm.
                entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
            })
            .collect()
    }

    fn make_folder(&self, path: &Path) -> io::Result<bool> {
        match std::fs::create_dir(path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_dir(path)
    }

    fn sync_folder(&self, path: &Path, _site: Site) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn volume(&self, root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
        if !platform::syncs_volumes(root)? {
            return Ok(None);
        }
        let folder = File::open(root)?;
        let device = folder.metadata()?.dev();
        Ok(Some(Box::new(DiskVolume { folder, device })))
    }

    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let mut text = vec![0; 4096];
        let length = DiskFile(file.try_clone()?).read_at(0, &mut text)?;
        let text = String::from_utf8_lossy(&text[..length]).into_owned();
        Ok(Some((Box::new(DiskLock(file)), text)))
    }

    fn network(&self, path: &Path) -> io::Result<Option<&'static str>> {
        platform::network(path)
    }

    fn boot_id(&self) -> String {
        platform::boot_id()
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
