//! The machine's disk in another light: as a network file system, in another boot, without the right to lock, or full.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use isochrony_store::media::{self, Access, Kind, Media, MediaFile, MediaLock, Site, Volume};

/// Delegates to the disk.
#[derive(Debug)]
pub(crate) struct Medium {
    disk: Arc<dyn Media>,
    network: Option<&'static str>,
    boot: &'static str,
    refuses_locks: bool,
    room: Arc<Room>,
}

/// How many more calls get space: files that are made or get longer, and folders that are made. What lies within a file
/// can be overwritten on a full disk, too.
#[derive(Debug)]
struct Room(AtomicI64);

impl Room {
    fn take(&self) -> io::Result<()> {
        if self.0.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Ok(());
        }
        Err(io::Error::from(io::ErrorKind::StorageFull))
    }
}

impl Medium {
    pub(crate) fn new() -> Self {
        Self {
            disk: media::disk(),
            network: None,
            boot: "this boot",
            refuses_locks: false,
            room: Arc::new(Room(AtomicI64::new(i64::MAX))),
        }
    }

    pub(crate) fn on_network(network: Option<&'static str>) -> Self {
        Self {
            network,
            ..Self::new()
        }
    }

    pub(crate) fn in_boot(boot: &'static str, may_lock: bool) -> Self {
        Self {
            boot,
            refuses_locks: !may_lock,
            ..Self::new()
        }
    }

    /// From now on the disk is full after so many calls.
    pub(crate) fn fill_after(&self, calls: i64) {
        self.room.0.store(calls, Ordering::Relaxed);
    }

    pub(crate) fn make_room(&self) {
        self.fill_after(i64::MAX);
    }
}

#[derive(Debug)]
struct MediumFile {
    file: Arc<dyn MediaFile>,
    room: Arc<Room>,
}

impl MediaFile for MediumFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read_at(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if offset + bytes.len() as u64 > self.file.len()? {
            self.room.take()?;
        }
        self.file.write_at(offset, bytes)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > self.file.len()? {
            self.room.take()?;
        }
        self.file.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync(&self, site: Site) -> io::Result<()> {
        self.file.sync(site)
    }

    fn as_os_file(&self) -> Option<&File> {
        self.file.as_os_file()
    }
}

impl Media for Medium {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>> {
        if matches!(access, Access::Create | Access::CreateNew) && !path.exists() {
            self.room.take()?;
        }
        Ok(Arc::new(MediumFile {
            file: self.disk.open(path, access)?,
            room: self.room.clone(),
        }))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.disk.stat(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn make_folder(&self, path: &Path) -> io::Result<bool> {
        if !path.exists() {
            self.room.take()?;
        }
        self.disk.make_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_folder(path)
    }

    fn sync_folder(&self, path: &Path, site: Site) -> io::Result<()> {
        self.disk.sync_folder(path, site)
    }

    fn volume(&self, root: &Path) -> io::Result<Option<Box<dyn Volume>>> {
        self.disk.volume(root)
    }

    fn lock(&self, path: &Path) -> io::Result<Option<(Box<dyn MediaLock>, String)>> {
        if self.refuses_locks {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        self.disk.lock(path)
    }

    fn network(&self, _path: &Path) -> io::Result<Option<&'static str>> {
        Ok(self.network)
    }

    fn boot_id(&self) -> String {
        self.boot.into()
    }

    /// What is published is published in the call that did it.
    fn has_background(&self) -> bool {
        false
    }
}
