//! Live reader of a store that another process may be writing.
//!
//! A reader applies whole records. It loads a signal's tables on first use and replays the log over them; if they are
//! newer than the last record read, it first reads on.

mod samples;
mod state;
mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::engine::manifest::{Manifest, is_store};
use crate::engine::opening::not_a_store;
use crate::engine::parts::Base;
use crate::engine::source::Sources;
use crate::engine::tail::TailChecksum;
use crate::engine::{Engine, OpenMode, identity, lock, log, vanished};
use crate::error::StoreError;
use crate::layout;
use crate::media::{Media, absolute};
use crate::op::{Op, SignalId};

use view::{KnownSignal, View, WRITER_TIMEOUT, removed};

/// A store open for reading.
#[derive(Debug)]
pub struct Reader {
    root: PathBuf,
    media: Arc<dyn Media>,
    uuid: Uuid,
    stale: bool,
    view: Mutex<View>,
    sources: Sources,
    opened: OnceLock<()>,
}

impl Reader {
    /// Opens a store for reading. Recovers it first if its writer crashed before a restart of the machine and this
    /// process may write.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::NewerFormat`], [`StoreError::DamagedFile`], [`StoreError::Io`].
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Self::open_on(root, crate::media::disk())
    }

    /// Opens a store for reading on any medium.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(root: &Path, media: Arc<dyn Media>) -> Result<Self, StoreError> {
        let root = absolute(root)?;
        let media = media.rooted(&root);
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
                opened: OnceLock::new(),
            };
            // A restart of this machine loses nothing on a remote medium.
            let is_forgetful = !media.is_remote() && boot != media.boot_id();
            let unsafe_log = is_forgetful && reader.lock().has_records()?;
            if !unsafe_log {
                reader.refresh()?;
                let _ = reader.opened.set(());
                return Ok(reader);
            }
            // The page cache with the last samples is gone; an active writer will replay the log.
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
            if held && began.elapsed() < WRITER_TIMEOUT {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            return Ok(Self {
                stale: true,
                ..reader
            });
        }
    }

    /// Reads new commits; `true` if there were any.
    ///
    /// # Errors
    /// [`StoreError::DamagedFile`], [`StoreError::Io`].
    pub fn refresh(&self) -> Result<bool, StoreError> {
        if self.stale {
            return Ok(false);
        }
        let mut view = self.lock();
        self.refresh_view(&mut view)
    }

    /// Checks the next record's place and the live log.
    pub(crate) fn may_have_moved(&self) -> bool {
        if self.stale {
            return false;
        }
        let view = self.lock();
        let mut head = [0; 4];
        let count = view.log.read_at(view.at, &mut head);
        let recorded = !matches!(count, Ok(count) if log::record_len(&head[..count]).is_none());
        let is_there = |path: &Path| matches!(self.media.stat(path), Ok(Some(_)));
        recorded
            || !is_there(&view.log_path)
            || is_there(&layout::log_file(&self.root, view.generation + 1))
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
            if self.media.is_remote() {
                // The old log may never be published to its end.
                self.media.forget_known();
                view.signals
                    .keys()
                    .for_each(|id| self.sources.remove_signal(*id));
            }
            // The old log is complete now, and open here.
            self.follow(view)?;
            if !view.next_generation(&*self.media, &self.root, &manifest)? {
                let (fresh, _, _) = View::open(&*self.media, &self.root)?;
                for id in view.signals.keys() {
                    self.sources.remove_signal(*id);
                }
                *view = fresh;
            }
        }
    }

    fn follow(&self, view: &mut View) -> Result<(), StoreError> {
        let mut is_first = self.opened.get().is_some();
        while let Some(ops) = view.next_record()? {
            if std::mem::take(&mut is_first) {
                self.media.forget_known();
            }
            for op in ops {
                self.apply(view, op);
            }
        }
        Ok(())
    }

    fn apply(&self, view: &mut View, op: Op) {
        let id = op.signal();
        match &op {
            Op::Create { name, meta, .. } => {
                view.names.insert(id, name);
                let known = || KnownSignal::new(Base::new(name, meta));
                view.signals.entry(id).or_insert_with(known);
            }
            Op::Remove { .. } => {
                view.names.remove(id);
                view.signals.remove(&id);
                self.sources.remove_signal(id);
            }
            Op::Rename { to, .. } => {
                let old = view.names.by_id.get(&id).cloned();
                if let Some(known) = view.signals.get_mut(&id) {
                    known.former.extend(old);
                }
                view.names.insert(id, to);
            }
            _ => {}
        }
        let Some(known) = view.signals.get_mut(&id) else {
            return;
        };
        known.base.drop_stale_tail(&op);
        known.note_proof(&op);
        match &op {
            Op::Samples { .. } => return,
            Op::Crc { chunk, crc, .. } => {
                match TailChecksum::from_crc(*chunk, *crc, known.end, &known.base.meta) {
                    Some(tail) => known.base.tail = Some(tail),
                    None => _ = known.crcs.insert(*chunk, *crc),
                }
                return;
            }
            Op::End { end, .. } => {
                known.end = *end;
                // A remote file stays as opened, whatever its length.
                if self.media.is_remote() {
                    self.sources.remove_signal(id);
                }
            }
            Op::ReplaceShard { shard, tmp, .. } => {
                known.replaced.insert(*shard, tmp.clone());
                self.sources.remove_signal(id);
            }
            Op::ReplaceData { tmp, codec, .. } => {
                known.replaced.clear();
                known.replaced_data = Some(tmp.clone());
                Arc::make_mut(&mut known.base.meta).codec.clone_from(codec);
                self.sources.remove_signal(id);
            }
            _ => {}
        }
        match &mut known.state {
            Some(state) => Arc::make_mut(state).apply(&op),
            None => known.ops.push(op),
        }
    }

    /// Whether only the last checkpoint is visible: the writer crashed before a restart of the machine, and this
    /// process may not recover.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.stale
    }

    /// Whether a process is known to have the store open for writing.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn is_written(&self) -> Result<bool, StoreError> {
        lock::is_held(&*self.media, &self.root)
    }

    /// Folder of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Medium of the store.
    #[must_use]
    pub fn media(&self) -> &Arc<dyn Media> {
        &self.media
    }

    /// Uuid of the store.
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// All signals by name.
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

    /// Whether a signal's tables had no files at the last checkpoint.
    ///
    /// # Errors
    /// [`StoreError::SignalRemoved`].
    pub fn is_compact(&self, id: SignalId) -> Result<bool, StoreError> {
        Ok(self.lock().known(id)?.base.compact.is_some())
    }

    pub(crate) fn has_checksums(&self, id: SignalId) -> Result<bool, StoreError> {
        let mut view = self.lock();
        let base = &view.known(id)?.base;
        Ok(base.has_checksums(base.full_chunks()))
    }

    /// Number of the last commit seen.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.lock().sequence
    }

    fn folder(&self, view: &View, id: SignalId) -> Result<PathBuf, StoreError> {
        match view.names.by_id.get(&id) {
            Some(name) => Ok(layout::signal_folder(&self.root, name)),
            None => Err(removed(id)),
        }
    }

    fn folders(&self, view: &View, id: SignalId) -> Result<Vec<PathBuf>, StoreError> {
        let mut folders = vec![self.folder(view, id)?, layout::staged(&self.root, id)];
        if let Some(known) = view.signals.get(&id) {
            let former = known.former.iter().rev();
            folders.extend(former.map(|name| layout::signal_folder(&self.root, name)));
        }
        Ok(folders)
    }

    fn folder_now(&self, view: &View, id: SignalId) -> Result<Option<PathBuf>, StoreError> {
        let mut folders = self.folders(view, id)?.into_iter();
        Ok(folders.find(|folder| self.is_of(folder, id)))
    }

    fn is_of(&self, folder: &Path, id: SignalId) -> bool {
        identity::is_of(&*self.media, folder, id)
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
