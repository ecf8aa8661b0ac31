//! A live view of a store that another process may be writing.
//!
//! A reader takes in whole records only, so what it shows is always the state after some commit. It loads a signal's
//! tables when it is asked for the signal, and replays over them what the log said since its base; tables may be newer
//! than the last record that was read, in which case the reader reads on first.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use isochrony_segment::Buffer;
use uuid::Uuid;

use super::io::{IoContext, failed};
use super::log::{self, Records};
use super::manifest::Manifest;
use super::open::{bases, check_identity, is_store, not_a_store, read_log};
use super::shared::Names;
use super::slot::Base;
use super::source::Sources;
use super::{Bounds, Engine, OpenMode, lock, shard_samples, stored_crc, tables, vanished};
use crate::error::StoreError;
use crate::layout::{self, flat::Flat};
use crate::media::{Access, Media, MediaFile};
use crate::op::{Op, SignalId};
use crate::state::SignalState;

/// How long to wait for a writer that is half-way through a change of files.
const PATIENCE: Duration = Duration::from_secs(2);

/// A signal as a reader knows it.
#[derive(Debug)]
struct Known {
    base: Base,
    /// Length as of the last record read.
    end: i64,
    state: Option<Arc<SignalState>>,
    /// Operations since the log's base, while the state is not loaded.
    ops: Vec<Op>,
    /// Replacements that the writer may not have moved into place yet.
    replaced: BTreeMap<u64, String>,
    replaced_data: Option<String>,
    crcs: BTreeMap<u64, u32>,
}

impl Known {
    fn new(base: Base) -> Self {
        Self {
            end: base.end,
            base,
            state: None,
            ops: Vec::new(),
            replaced: BTreeMap::new(),
            replaced_data: None,
            crcs: BTreeMap::new(),
        }
    }
}

/// Everything as of one commit.
#[derive(Debug)]
struct View {
    generation: u64,
    log: Arc<dyn MediaFile>,
    log_path: PathBuf,
    /// Offset of the next record.
    at: u64,
    sequence: u64,
    names: Names,
    signals: HashMap<SignalId, Known>,
}

/// A store open for reading.
#[derive(Debug)]
pub struct Reader {
    root: PathBuf,
    media: Arc<dyn Media>,
    uuid: Uuid,
    stale: bool,
    view: Mutex<View>,
    sources: Sources,
}

impl Reader {
    /// Opens a store for reading. If its writer crashed before the machine restarted, and this process may write, the
    /// store is recovered first.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::NewerFormat`], [`StoreError::DamagedFile`], or what the system says.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Self::open_on(root, crate::media::disk())
    }

    /// Opens a store for reading on any medium.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(root: &Path, media: Arc<dyn Media>) -> Result<Self, StoreError> {
        let root = std::path::absolute(root).at("look at", root)?;
        if !is_store(&*media, &root)? {
            return Err(not_a_store(&*media, &root));
        }
        let mut recovered = false;
        let began = Instant::now();
        loop {
            let (view, uuid, boot) = View::open(&*media, &root)?;
            let reader = Self {
                root: root.clone(),
                media: media.clone(),
                uuid,
                stale: false,
                view: Mutex::new(view),
                sources: Sources::default(),
            };
            let unsafe_log = boot != media.boot_id() && reader.lock().has_records()?;
            if !unsafe_log {
                reader.refresh()?;
                return Ok(reader);
            }
            // The page cache that held the last samples is gone. A writer that is alive is about to replay the log.
            let held = lock::is_held(&*media, &root)?;
            if !held && !recovered {
                recovered = true;
                match Engine::open_on(&root, OpenMode::Existing, media.clone()) {
                    Ok(engine) => {
                        let _ = engine.close();
                        continue;
                    }
                    Err(StoreError::Locked { .. }) => continue,
                    Err(_) => {}
                }
            }
            if held && began.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            return Ok(Self {
                stale: true,
                ..reader
            });
        }
    }

    /// Takes in what was committed since; whether there was anything.
    ///
    /// # Errors
    /// [`StoreError::DamagedFile`], or what the system says.
    pub fn refresh(&self) -> Result<bool, StoreError> {
        if self.stale {
            return Ok(false);
        }
        let mut view = self.lock();
        self.refresh_view(&mut view)
    }

    fn refresh_view(&self, view: &mut View) -> Result<bool, StoreError> {
        let before = view.sequence;
        let mut moved = false;
        loop {
            self.follow(view)?;
            let Some(manifest) = Manifest::read(&*self.media, &self.root)? else {
                return Err(not_a_store(&*self.media, &self.root));
            };
            if manifest.uuid != self.uuid {
                return Err(vanished::replaced(&self.root, "read the store"));
            }
            if manifest.generation == view.generation {
                return Ok(moved || view.sequence != before);
            }
            moved = true;
            // The old log is complete now, and this handle still reads it.
            self.follow(view)?;
            if !view.next_generation(&*self.media, &self.root, &manifest)? {
                let (fresh, _, _) = View::open(&*self.media, &self.root)?;
                for id in view.signals.keys() {
                    self.sources.forget(*id);
                }
                *view = fresh;
            }
        }
    }

    /// Reads the log's new records.
    fn follow(&self, view: &mut View) -> Result<(), StoreError> {
        while let Some(ops) = view.next_record()? {
            for op in ops {
                self.take_in(view, op);
            }
        }
        Ok(())
    }

    fn take_in(&self, view: &mut View, op: Op) {
        let id = op.signal();
        match &op {
            Op::Create { name, meta, .. } => {
                view.names.insert(id, name);
                view.signals.entry(id).or_insert_with(|| {
                    Known::new(Base {
                        name: name.as_str().into(),
                        meta: Arc::new((**meta).clone()),
                        end: 0,
                        tail: None,
                    })
                });
            }
            Op::Remove { .. } => {
                view.names.remove(id);
                view.signals.remove(&id);
                self.sources.forget(id);
            }
            Op::Rename { to, .. } => view.names.insert(id, to),
            _ => {}
        }
        let Some(known) = view.signals.get_mut(&id) else {
            return;
        };
        known.base.outlive(&op);
        match &op {
            Op::Samples { .. } => return,
            Op::Crc { chunk, crc, .. } => {
                known.crcs.insert(*chunk, *crc);
                return;
            }
            Op::End { end, .. } => known.end = *end,
            Op::ReplaceShard { shard, tmp, .. } => {
                known.replaced.insert(*shard, tmp.clone());
                self.sources.forget(id);
            }
            Op::ReplaceData { tmp, codec, .. } => {
                known.replaced.clear();
                known.replaced_data = Some(tmp.clone());
                Arc::make_mut(&mut known.base.meta).codec.clone_from(codec);
                self.sources.forget(id);
            }
            _ => {}
        }
        match &mut known.state {
            Some(state) => Arc::make_mut(state).apply(&op),
            None => known.ops.push(op),
        }
    }

    /// Whether the store shows only its last checkpoint, because its writer crashed before the machine restarted and
    /// this process may not repair it.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// The store's folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The medium that the store lies on.
    #[must_use]
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.media
    }

    /// Identity of the store.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// All signals with their names in name order.
    #[must_use]
    pub fn catalogue(&self) -> Vec<(SignalId, String)> {
        let view = self.lock();
        let all = view.names.by_name.iter();
        all.map(|(name, id)| (*id, name.clone())).collect()
    }

    /// The signal with this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<SignalId> {
        self.lock().names.by_name.get(name).copied()
    }

    /// State of a signal as of the last refresh; loaded from its tables on first use. If the writer has brought the
    /// tables further meanwhile, this refreshes the whole store first.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`], [`StoreError::NeedsRecovery`], or what is wrong with the tables.
    pub fn state(&self, id: SignalId) -> Result<Arc<SignalState>, StoreError> {
        let mut view = self.lock();
        let began = Instant::now();
        loop {
            let sequence = view.sequence;
            let folder = self.folder(&view, id)?;
            let known = view.known(id)?;
            if let Some(state) = &known.state {
                return Ok(state.clone());
            }
            let staged = layout::staged(&self.root, id);
            let folder = [folder, staged]
                .into_iter()
                .find(|place| self.is_of(place, id));
            if let Some(folder) = &folder {
                let raw = tables::read(&*self.media, folder, id);
                // The folder may have gone while its tables were read, which then look empty.
                if self.is_of(folder, id) {
                    let raw = raw?;
                    if raw.sequence <= sequence {
                        let mut state = raw.state(id, &known.base, known.longest())?;
                        known.ops.iter().for_each(|op| state.apply(op));
                        known.ops = Vec::new();
                        let state = Arc::new(state);
                        known.state = Some(state.clone());
                        return Ok(state);
                    }
                    if self.stale {
                        return Err(StoreError::NeedsRecovery {
                            path: self.root.clone(),
                        });
                    }
                }
            }
            if self.stale || began.elapsed() > PATIENCE {
                return Err(StoreError::DamagedFile {
                    path: folder.unwrap_or_else(|| self.root.clone()),
                    offset: 0,
                    reason: "the signal's folder is missing, or its tables are newer than the log",
                });
            }
            if !self.refresh_view(&mut view)? {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Sequence number of the last commit seen.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.lock().sequence
    }

    /// As [`Engine::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, id: SignalId, start: i64, count: usize) -> Result<Buffer, StoreError> {
        let mut view = self.lock();
        let began = Instant::now();
        loop {
            match self.read_from(&mut view, id, start, count) {
                // A file on its way from one place to another.
                Err(StoreError::MissingSamples { have: 0, .. })
                    if !self.stale && began.elapsed() < PATIENCE / 10 =>
                {
                    self.sources.forget(id);
                    self.refresh_view(&mut view)?;
                    std::thread::sleep(Duration::from_millis(1));
                }
                other => return other,
            }
        }
    }

    fn read_from(
        &self,
        view: &mut View,
        id: SignalId,
        start: i64,
        count: usize,
    ) -> Result<Buffer, StoreError> {
        if let Some(buffer) = self.read_mapped(view, id, start, count)? {
            return Ok(buffer);
        }
        let folder = self.folder(view, id)?;
        let staged = layout::staged(&self.root, id);
        let known = view.known(id)?;
        let meta = known.base.meta.clone();
        let bounds = Bounds::new(&known.base.name, known.end, start, count)?;
        let tmp = layout::tmp_folder(&self.root);
        // A replacement is at its place or, until then, in `tmp/`; so is a new signal's folder.
        let arrays: Vec<PathBuf> = (known.replaced_data.iter().map(|name| tmp.join(name)))
            .chain([folder.join("data"), staged.join("data")])
            .collect();
        let decode = || {
            let there = |array: &&PathBuf| matches!(self.media.stat(array), Ok(Some(_)));
            let array = arrays.iter().find(there).unwrap_or(&arrays[0]);
            let decoders = &self.sources.decoders;
            decoders.read(&self.media, id, array, &meta, start, count)
        };
        if !meta.codec.is_empty() {
            return decode();
        }
        let flat = Flat::data(&meta);
        let place = bounds.place(flat, meta.dtype.size());
        let paths = || {
            let replaced = known.replaced.get(&place.shard);
            replaced
                .map(|name| tmp.join(name))
                .into_iter()
                .chain(
                    arrays
                        .iter()
                        .map(|array| layout::shard_file(array, place.shard)),
                )
                .collect()
        };
        let key = (id, place.shard);
        let found = (self.sources).read(&*self.media, key, flat, paths, place.offset, place.len)?;
        found.map_or_else(decode, Ok)
    }

    /// The usual case, which names no file and allocates nothing: the shard is flat, and mapped already.
    fn read_mapped(
        &self,
        view: &mut View,
        id: SignalId,
        start: i64,
        count: usize,
    ) -> Result<Option<Buffer>, StoreError> {
        let known = view.known(id)?;
        let meta = &known.base.meta;
        if !meta.codec.is_empty() {
            return Ok(None);
        }
        let bounds = Bounds::new(&known.base.name, known.end, start, count)?;
        let place = bounds.place(Flat::data(meta), meta.dtype.size());
        Ok(self
            .sources
            .mapped((id, place.shard), place.offset, place.len))
    }

    /// As [`Engine::shard_samples`].
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn shard_samples(&self, id: SignalId) -> Result<i64, StoreError> {
        Ok(shard_samples(&self.lock().known(id)?.base.meta))
    }

    /// As [`Engine::chunk_crc`].
    ///
    /// # Errors
    /// As there.
    pub fn chunk_crc(&self, id: SignalId, chunk: u64) -> Result<Option<u32>, StoreError> {
        let mut view = self.lock();
        let folder = self.folder(&view, id)?;
        match view.known(id)?.crcs.get(&chunk) {
            Some(crc) => Ok(Some(*crc)),
            None => stored_crc(&*self.media, &folder, chunk),
        }
    }

    /// As [`Engine::tail_crc`].
    ///
    /// # Errors
    /// As there.
    pub fn tail_crc(&self, id: SignalId) -> Result<Option<(i64, u32)>, StoreError> {
        let tail = self.lock().known(id)?.base.tail;
        Ok(tail.map(|tail| (tail.end, tail.crc)))
    }

    /// As [`Engine::data_shard_path`].
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn data_shard_path(&self, id: SignalId, shard: u64) -> Result<PathBuf, StoreError> {
        Ok(layout::shard_file(
            &self.signal_path(id)?.join("data"),
            shard,
        ))
    }

    /// The signal's folder.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn signal_path(&self, id: SignalId) -> Result<PathBuf, StoreError> {
        self.folder(&self.lock(), id)
    }

    fn folder(&self, view: &View, id: SignalId) -> Result<PathBuf, StoreError> {
        match view.names.by_id.get(&id) {
            Some(name) => Ok(layout::signal_folder(&self.root, name)),
            None => Err(removed(id)),
        }
    }

    fn is_of(&self, folder: &Path, id: SignalId) -> bool {
        let found = self.media.read(&folder.join(layout::IDENTITY));
        let found = found.ok().flatten();
        found.and_then(|bytes| layout::parse_identity(&bytes)) == Some(id)
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn removed(id: SignalId) -> StoreError {
    StoreError::SignalRemoved {
        name: format!("#{}", id.0),
    }
}

impl Known {
    /// Largest length that any operation so far gives.
    fn longest(&self) -> i64 {
        let ends = self.ops.iter().filter_map(|op| match op {
            Op::End { end, .. } => Some(*end),
            _ => None,
        });
        ends.fold(self.base.end, i64::max)
    }
}

impl View {
    /// The store as of its log's base, its identity, and the boot that the log is from.
    fn open(media: &dyn Media, root: &Path) -> Result<(Self, Uuid, String), StoreError> {
        let began = Instant::now();
        loop {
            let manifest = Manifest::read(media, root)?.ok_or_else(|| not_a_store(media, root))?;
            let path = layout::log_file(root, manifest.generation);
            let bytes = match read_log(media, root, &manifest) {
                // The generation flipped between the two reads.
                Err(StoreError::DamagedFile { .. }) if began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                other => other?,
            };
            let damaged = |(offset, reason)| StoreError::DamagedFile {
                path: path.clone(),
                offset,
                reason,
            };
            let opening = log::parse_opening(&bytes).map_err(damaged)?;
            check_identity(&opening, &manifest, &path)?;
            let file = match media.open(&path, Access::Read) {
                Ok(file) => file,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error, "open", &path)),
            };
            let mut names = Names::default();
            let mut signals = HashMap::new();
            for (id, base) in bases(&opening.base) {
                names.insert(id, &base.name);
                signals.insert(id, Known::new(base));
            }
            let view = Self {
                generation: manifest.generation,
                log: file,
                log_path: path,
                at: opening.records_at as u64,
                sequence: opening.sequence,
                names,
                signals,
            };
            return Ok((view, manifest.uuid, opening.header.boot));
        }
    }

    /// Goes on with the log after this one; `false` if that is not the live one, or not whole.
    fn next_generation(
        &mut self,
        media: &dyn Media,
        root: &Path,
        manifest: &Manifest,
    ) -> Result<bool, StoreError> {
        if manifest.generation != self.generation + 1 {
            return Ok(false);
        }
        let path = layout::log_file(root, manifest.generation);
        let Some(bytes) = media.read(&path).at("read", &path)? else {
            return Ok(false);
        };
        let Ok(opening) = log::parse_opening(&bytes) else {
            return Ok(false);
        };
        let file = match media.open(&path, Access::Read) {
            Ok(file) => file,
            Err(_) => return Ok(false),
        };
        if opening.sequence != self.sequence || check_identity(&opening, manifest, &path).is_err() {
            return Ok(false);
        }
        for (id, base) in bases(&opening.base) {
            // What was not loaded yet starts from the tables of this generation.
            if let Some(known) = self.signals.get_mut(&id) {
                known.end = base.end;
                known.base = base;
                known.ops.clear();
                known.replaced.clear();
                known.replaced_data = None;
                known.crcs.clear();
            }
        }
        self.generation = manifest.generation;
        self.log = file;
        self.log_path = path;
        self.at = opening.records_at as u64;
        Ok(true)
    }

    /// The operations of the next whole record, if there is one.
    fn next_record(&mut self) -> Result<Option<Vec<Op>>, StoreError> {
        let Some(bytes) = self.record_bytes()? else {
            return Ok(None);
        };
        let mut records = Records::new(&bytes, 0, self.sequence);
        match records.next() {
            None => Ok(None),
            Some(Ok((sequence, ops))) => {
                self.sequence = sequence;
                self.at += records.at as u64;
                Ok(Some(ops))
            }
            Some(Err((_, reason))) => Err(StoreError::DamagedFile {
                path: self.log_path.clone(),
                offset: self.at,
                reason,
            }),
        }
    }

    /// The bytes of what may be the next record.
    fn record_bytes(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let read = |at, bytes: &mut [u8]| self.log.read_at(at, bytes).at("read", &self.log_path);
        let mut bytes = vec![0; 4096];
        let count = read(self.at, &mut bytes)?;
        let Some(len) = log::record_len(&bytes[..count]) else {
            return Ok(None);
        };
        if len > bytes.len() {
            let have = self.log.len().at("look at", &self.log_path)?;
            if self.at.saturating_add(len as u64) > have {
                return Ok(None);
            }
            bytes.resize(len, 0);
            let count = read(self.at, &mut bytes)?;
            bytes.truncate(count);
        } else {
            bytes.truncate(count.min(len));
        }
        Ok(Some(bytes))
    }

    fn has_records(&self) -> Result<bool, StoreError> {
        let bytes = self.record_bytes()?;
        Ok(bytes.is_some_and(|bytes| Records::new(&bytes, 0, self.sequence).next().is_some()))
    }

    fn known(&mut self, id: SignalId) -> Result<&mut Known, StoreError> {
        self.signals.get_mut(&id).ok_or_else(|| removed(id))
    }
}
