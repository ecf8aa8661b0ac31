//! The machine's disk as a network file system, in another boot, without permission to lock, or without space.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use isochrony_store::media::{self, Access, Kind, Media, MediaFile, MediaLock, Site, Volume};

#[derive(Debug)]
pub(crate) struct Medium {
    disk: Arc<dyn Media>,
    network: Option<&'static str>,
    boot: &'static str,
    refuses_locks: bool,
    room: Arc<Room>,
    opened: Arc<AtomicU64>,
    hook: Arc<Mutex<Option<Hook>>>,
    refuses_replacements: Arc<AtomicBool>,
    unreadable: Arc<Mutex<Option<PathBuf>>>,
    unseen: Arc<Mutex<Option<PathBuf>>>,
}

/// Runs before the first opening of a file whose path has a suffix.
struct Hook(&'static str, Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Hook").field(&self.0).finish()
    }
}

/// Calls that still get space to create or extend. A full disk can be overwritten.
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
            opened: Arc::default(),
            hook: Arc::default(),
            refuses_replacements: Arc::default(),
            unreadable: Arc::default(),
            unseen: Arc::default(),
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

    pub(crate) fn fill_after(&self, calls: i64) {
        self.room.0.store(calls, Ordering::Relaxed);
    }

    pub(crate) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }

    /// Runs `act` once, just before a file is opened whose path ends in `suffix`.
    pub(crate) fn before_open(&self, suffix: &'static str, act: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Hook(suffix, Box::new(act)));
    }

    pub(crate) fn refuse_replacements(&self) {
        self.refuses_replacements.store(true, Ordering::Relaxed);
    }

    /// As with a bad sector; `None`: no file.
    pub(crate) fn set_unreadable(&self, path: Option<PathBuf>) {
        *self.unreadable.lock().unwrap() = path;
    }

    /// `stat` fails; `None`: no file.
    pub(crate) fn set_unseen(&self, path: Option<PathBuf>) {
        *self.unseen.lock().unwrap() = path;
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
    fn rooted(&self, root: &Path) -> Arc<dyn Media> {
        Arc::new(Self {
            disk: self.disk.rooted(root),
            room: self.room.clone(),
            opened: self.opened.clone(),
            hook: self.hook.clone(),
            refuses_replacements: self.refuses_replacements.clone(),
            unreadable: self.unreadable.clone(),
            unseen: self.unseen.clone(),
            ..*self
        })
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn MediaFile>> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let hook = {
            let mut hook = self.hook.lock().unwrap();
            hook.take_if(|Hook(suffix, _)| path.ends_with(suffix))
        };
        if let Some(Hook(_, act)) = hook {
            act();
        }
        if access == Access::Read && self.unreadable.lock().unwrap().as_deref() == Some(path) {
            return Err(io::Error::from_raw_os_error(5));
        }
        if matches!(access, Access::Create | Access::CreateNew) && !path.exists() {
            self.room.take()?;
        }
        Ok(Arc::new(MediumFile {
            file: self.disk.open(path, access)?,
            room: self.room.clone(),
        }))
    }

    fn stat(&self, path: &Path) -> io::Result<Option<Kind>> {
        if self.unseen.lock().unwrap().as_deref() == Some(path) {
            return Err(io::Error::from_raw_os_error(5));
        }
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
        let is_shard = to.parent().is_some_and(|folder| folder.ends_with("data/c"));
        if is_shard && self.refuses_replacements.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        self.disk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_folder(path)
    }

    /// On a full disk the copy is incomplete.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<Arc<dyn MediaFile>> {
        let file = self.disk.copy(from, to)?;
        self.room.take()?;
        Ok(file)
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

    fn network_of(&self, _file: &dyn MediaFile) -> io::Result<Option<&'static str>> {
        Ok(self.network)
    }

    fn boot_id(&self) -> String {
        self.boot.into()
    }

    fn has_background(&self) -> bool {
        false
    }
}
