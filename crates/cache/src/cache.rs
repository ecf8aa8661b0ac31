use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::changes::{Change, Manifest, Sequence, manifest};
use crate::clear::ClearReport;
use crate::error::{CacheError, IoContext, is_full};
use crate::folder::remove;
use crate::index::PIECE_BYTES;
use crate::info::CacheInfo;
use crate::journal::{ObjectId, Op, Settings};
use crate::key::ObjectKey;
use crate::locks::lock_pinned;
use crate::object::{MAX_PIECES, Object};
use crate::piece_table::PieceTable;
use crate::pinned::PinnedObject;
use crate::ranges::Extent;
use crate::space::MIN_EVICTED_BYTES;
use crate::state::{CacheInner, StateGuard};
use isochrony_placement::EvictionPolicy;

/// Options of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheOptions {
    /// Maximum bytes on disk: present and reserved pieces, and a block per 256 pieces of each object.
    pub quota_bytes: u64,
    /// Eviction order.
    pub eviction: EvictionPolicy,
    /// Piece length of new objects: a power of two from 4 KiB to 1 GiB.
    pub piece_bytes: u64,
}

impl CacheOptions {
    /// Pieces of 1 MiB, eviction of the least recently used.
    #[must_use]
    pub fn new(quota_bytes: u64) -> Self {
        Self {
            quota_bytes,
            eviction: EvictionPolicy::default(),
            piece_bytes: 1 << 20,
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            quota_bytes: self.quota_bytes,
            piece_bytes: self.piece_bytes,
            eviction: self.eviction,
        }
    }

    fn check(&self) -> Result<(), CacheError> {
        let piece_bytes = self.piece_bytes;
        if !PIECE_BYTES.contains(&piece_bytes) || !piece_bytes.is_power_of_two() {
            return Err(CacheError::InvalidPieceBytes {
                piece_bytes,
                min: PIECE_BYTES.start,
                max: PIECE_BYTES.end - 1,
            });
        }
        let needed_bytes = piece_bytes
            + Object::overhead(&Extent {
                bytes: piece_bytes,
                piece_bytes,
            });
        if self.quota_bytes < needed_bytes {
            return Err(CacheError::QuotaTooSmall {
                quota_bytes: self.quota_bytes,
                piece_bytes,
                needed_bytes,
            });
        }
        Ok(())
    }
}

/// An open cache, shared by its clones. A folder may be open several times, in any process.
#[derive(Debug, Clone)]
pub struct Cache {
    inner: Arc<CacheInner>,
}

impl Cache {
    /// Opens the cache in a folder, or creates one.
    ///
    /// Takes over from dead processes, removes files unknown to the journal, and evicts down to the quota. A damaged
    /// journal starts an empty cache; see [`CacheInfo::resets`].
    ///
    /// # Errors
    /// Options out of range, a folder with other files or on a network file system, a cache of a later format, and
    /// errors of the system.
    pub fn open(folder: impl AsRef<Path>, options: CacheOptions) -> Result<Self, CacheError> {
        options.check()?;
        Ok(Self {
            inner: Arc::new(CacheInner::open(folder.as_ref(), Some(options.settings()))?),
        })
    }

    /// Opens an existing cache for inspection: neither this nor [`Self::info`] evicts anything or empties a damaged
    /// cache.
    ///
    /// # Errors
    /// As [`Self::open`], [`CacheError::NoSuchCache`], and [`CacheError::DamagedJournal`].
    pub fn open_existing(folder: impl AsRef<Path>) -> Result<Self, CacheError> {
        Ok(Self {
            inner: Arc::new(CacheInner::open(folder.as_ref(), None)?),
        })
    }

    /// The cache's folder.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.inner.folder.root.clone()
    }

    /// Finds or creates an object, and pins it until the result and everything derived from it is dropped or the
    /// process ends.
    ///
    /// A greater length makes the object grow. A smaller one has no effect: another process knows a longer version.
    ///
    /// # Errors
    /// An invalid key or length, [`CacheError::CacheFull`], [`CacheError::DiskFull`], and errors of the system.
    pub fn pin(&self, key: &ObjectKey, bytes: u64) -> Result<PinnedObject, CacheError> {
        let digest = key.digest();
        if let Some(object) = self.pinned(&digest, bytes)? {
            return Ok(object);
        }
        key.check()?;
        let mut locked = self.inner.lock()?;
        let table = match locked.pin_known(&digest, bytes)? {
            Some(table) => table,
            None => locked.create(key, &digest, bytes)?,
        };
        Ok(self.share(locked, table))
    }

    /// Pins an existing object of at least `bytes` bytes. Creates and grows nothing.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn pin_existing(
        &self,
        key: &ObjectKey,
        bytes: u64,
    ) -> Result<Option<PinnedObject>, CacheError> {
        let digest = key.digest();
        if let Some(object) = self.pinned(&digest, bytes)? {
            return Ok(Some(object));
        }
        let mut locked = self.inner.lock()?;
        let id = locked.index.find(&digest);
        if id.is_none_or(|id| locked.index.objects[&id].extent.bytes < bytes) {
            return Ok(None);
        }
        let table = locked.pin_known(&digest, bytes)?;
        Ok(table.map(|table| self.share(locked, table)))
    }

    fn pinned(&self, digest: &[u8; 32], bytes: u64) -> Result<Option<PinnedObject>, CacheError> {
        let mut state = self.inner.peek()?;
        let Some(id) = state.index.find(digest) else {
            return Ok(None);
        };
        let table = state.tables.get(&id).and_then(Weak::upgrade);
        let Some(table) = table.filter(|table| table.extent.bytes >= bytes) else {
            return Ok(None);
        };
        state.used.insert(id);
        Ok(Some(PinnedObject::new(Arc::clone(&self.inner), table)))
    }

    fn share(&self, mut locked: StateGuard<'_>, table: PieceTable) -> PinnedObject {
        let table = Arc::new(table);
        if locked.tables.len() > 64 && locked.tables.len().is_power_of_two() {
            locked.tables.retain(|_, table| table.strong_count() > 0);
        }
        locked.tables.insert(table.id, Arc::downgrade(&table));
        (locked.piece_states).insert(table.id, Arc::clone(table.states()));
        PinnedObject::new(Arc::clone(&self.inner), table)
    }

    /// State and counters.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn info(&self) -> Result<CacheInfo, CacheError> {
        let mut locked = self.inner.lock()?;
        locked.commit_if_room(Vec::new())?;
        locked.info()
    }

    /// Deletes every unpinned object.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn clear(&self) -> Result<ClearReport, CacheError> {
        self.inner.lock()?.clear()
    }

    /// All present pieces.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn manifest(&self) -> Result<Manifest, CacheError> {
        let locked = self.inner.lock()?;
        Ok(manifest(&locked.index, locked.sequence()))
    }

    /// Changes since a sequence, and the present sequence. `None` if this process does not know all of them: take a
    /// manifest.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn changes_since(
        &self,
        sequence: Sequence,
    ) -> Result<Option<(Vec<Change>, Sequence)>, CacheError> {
        let locked = self.inner.lock()?;
        let now = locked.sequence();
        if sequence.epoch != now.epoch || sequence.number > now.number {
            return Ok(None);
        }
        let changes = locked.changes.since(sequence.number);
        Ok(changes.map(|changes| (changes, now)))
    }
}

impl StateGuard<'_> {
    /// Forgets the object if its file is gone or truncated.
    fn pin_known(
        &mut self,
        digest: &[u8; 32],
        bytes: u64,
    ) -> Result<Option<PieceTable>, CacheError> {
        let Some(id) = self.index.find(digest) else {
            return Ok(None);
        };
        let path = self.inner.folder.object(digest);
        let extent = self.index.objects[&id].extent;
        let file = match File::options().read(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return self.forget(id, &path).map(|()| None);
            }
            Err(error) => return Err(error).at("open", &path),
        };
        if file.metadata().at("look at", &path)?.len() < extent.bytes {
            return self.forget(id, &path).map(|()| None);
        }
        lock_pinned(&file, &path)?;
        if bytes > extent.bytes {
            let grown = Extent { bytes, ..extent };
            self.check_pieces(&self.index.objects[&id].key, &grown)?;
            let needed = self.index.objects[&id].growth(&grown);
            self.make_room(needed)?;
            file.set_len(bytes).at("extend", &path)?;
            self.commit_or_evict(vec![Op::Grown { object: id, bytes }], needed)?;
        }
        self.touch(id)?;
        let object = self.index.objects.get(&id);
        let known = self.piece_states.get(id);
        Ok(object.map(|object| PieceTable::new(id, object, file, known)))
    }

    fn forget(&mut self, id: ObjectId, path: &Path) -> Result<(), CacheError> {
        remove(path).at("remove", path)?;
        self.commit(vec![Op::Removed {
            object: id,
            evicted: false,
        }])
    }

    fn check_pieces(&self, key: &ObjectKey, extent: &Extent) -> Result<(), CacheError> {
        match extent.pieces() {
            pieces if pieces <= MAX_PIECES => Ok(()),
            pieces => Err(CacheError::TooManyPieces {
                key: key.to_string(),
                bytes: extent.bytes,
                piece_bytes: extent.piece_bytes,
                pieces,
                max_pieces: MAX_PIECES,
            }),
        }
    }

    fn create(
        &mut self,
        key: &ObjectKey,
        digest: &[u8; 32],
        bytes: u64,
    ) -> Result<PieceTable, CacheError> {
        let piece_bytes = self.inner.settings.piece_bytes;
        let extent = Extent { bytes, piece_bytes };
        self.check_pieces(key, &extent)?;
        let needed = Object::overhead(&extent);
        self.make_room(needed)?;
        let path = self.inner.folder.object(digest);
        let file = match create_file(&path, bytes) {
            Err(CacheError::Io { source, .. }) if is_full(&source) => {
                self.evict(needed.max(MIN_EVICTED_BYTES))?;
                create_file(&path, bytes).map_err(|error| self.disk_error(error, needed))?
            }
            result => result?,
        };
        let object = self.index.next_object;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let created = Op::Created {
            object,
            key: key.clone(),
            bytes,
            piece_bytes,
            created: since.map_or(0, |since| since.as_secs()),
        };
        if let Err(error) = self.commit_or_evict(vec![created], needed) {
            let _ = remove(&path);
            return Err(error);
        }
        match self.index.objects.get(&object) {
            Some(known) => Ok(PieceTable::new(object, known, file, None)),
            None => Err(CacheError::ObjectLost {
                path: self.inner.folder.root.clone(),
                key: key.to_string(),
            }),
        }
    }
}

fn create_file(path: &Path, bytes: u64) -> Result<File, CacheError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).at("create", folder)?;
    }
    // Left by a process that died before recording it. Another may have it mapped.
    remove(path).at("remove", path)?;
    let file = (File::options().read(true).write(true))
        .create_new(true)
        .open(path)
        .at("create", path)?;
    let made = file.set_len(bytes).at("extend", path);
    if let Err(error) = made.and_then(|()| lock_pinned(&file, path)) {
        let _ = remove(path);
        return Err(error);
    }
    Ok(file)
}
