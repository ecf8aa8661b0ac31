//! The medium of this machine's file systems.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use isochrony_system::forks::UninheritedFile;
use isochrony_system::{machine, page_cache};

use super::rooted_paths::{Resolver, RootedPaths};
use super::{Access, Kind, Media, MediaFile, MediaLock, RootedDisk, Site, Volume, limits};

/// Follows links: for the folders above a store.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiskMedia;

/// A completed part is written back.
const PART: u64 = 8 << 20;

#[derive(Debug)]
pub(super) struct DiskFile(pub(super) File);

#[derive(Debug)]
struct DiskLock(UninheritedFile);

impl MediaFile for DiskFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        read_at(&self.0, offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)?;
        // Writes back completed parts of a sequential writer, so that the disk works not only at the sync.
        let (from, to) = (offset / PART, (offset + bytes.len() as u64) / PART);
        if from < to {
            let _ = page_cache::begin_writing_back(&self.0, from * PART, (to - from) * PART);
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

/// Open since before the first write, so that a sync reports all errors since.
#[derive(Debug)]
struct DiskVolume {
    folders: RootedPaths,
    folder: File,
    device: u64,
}

impl Volume for DiskVolume {
    fn break_even_syncs(&self) -> usize {
        // Some milliseconds per file; a volume sync also waits for writes of other programs.
        128
    }

    fn holds(&self, path: &Path) -> bool {
        let found = self.folders.stat(path).ok().flatten();
        found.is_some_and(|(_, found)| found.device == self.device)
    }

    fn sync(&self, _site: Site) -> io::Result<()> {
        isochrony_system::volume::sync(&self.folder)
    }
}

impl MediaLock for DiskLock {
    fn write(&self, text: &str) -> io::Result<()> {
        let file = self.0.file();
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(text.len() as u64)
    }

    fn release(&self) {
        // On failure there is no lock left.
        let _ = self.0.file().unlock();
    }
}

fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

pub(super) fn volume(root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
    if !isochrony_system::volume::syncs_reliably(root)? {
        return Ok(None);
    }
    let folder = File::open(root)?;
    let device = folder.metadata()?.dev();
    let folders = RootedPaths::new(root, Resolver::Kernel);
    Ok(Some(Box::new(DiskVolume {
        folders,
        folder,
        device,
    })))
}

pub(super) fn lock(file: File) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
    let held = UninheritedFile::new(file);
    let file = held.file();
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut text = vec![0; limits::LINE as usize];
    // Not by another descriptor, which a fork would leave to the child.
    let length = read_at(file, 0, &mut text)?;
    let text = String::from_utf8_lossy(&text[..length]).into_owned();
    Ok(Some((Box::new(DiskLock(held)), text)))
}

impl Media for DiskMedia {
    fn rooted(&self, root: &Path) -> Arc<dyn Media> {
        Arc::new(RootedDisk::new(root, Resolver::Kernel))
    }

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
                // Names that are not text are foreign; the lossy text matches no file.
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
        volume(root)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        lock(options.open(path)?)
    }

    fn network(&self, path: &Path) -> io::Result<Option<&'static str>> {
        isochrony_system::volume::network(path)
    }

    fn boot_id(&self) -> String {
        boot_id()
    }
}

pub(super) fn boot_id() -> String {
    // Unknown: never equals a stored one, so recovery does more than necessary.
    machine::boot_id().unwrap_or_else(|| uuid::Uuid::new_v4().to_string())
}

pub(super) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
