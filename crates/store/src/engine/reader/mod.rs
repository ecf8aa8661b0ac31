//! A live view of a store that another process may be writing.
//!
//! A reader takes in whole records only, so what it shows is always the state after some commit. It loads a signal's
//! tables when it is asked for the signal, and replays over them what the log said since its base; tables may be newer
//! than the last record that was read, in which case the reader reads on first.

mod samples;
mod view;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use crate::engine::io::IoContext;
use crate::engine::manifest::Manifest;
use crate::engine::open::{is_store, not_a_store};
use crate::engine::slot::Base;
use crate::engine::source::Sources;
use crate::engine::{Engine, OpenMode, lock, log, tables, vanished};
use crate::error::StoreError;
use crate::layout;
use crate::media::Media;
use crate::op::{Op, SignalId};
use crate::state::SignalState;

use view::{Known, View};

/// How long to wait for a writer that is half-way through a change of files.
const PATIENCE: Duration = Duration::from_secs(2);

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

    /// Whether there may be something to take in, by a look that costs much less than to take it in: at the next record's
    /// place in the log, and whether that log is the live one still.
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

    /// Whether a process has it open for writing now, as good as a look can be.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn is_written(&self) -> Result<bool, StoreError> {
        lock::is_held(&*self.media, &self.root)
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
        // Whether nobody wrote, so that what is missing does not come.
        let mut idle = false;
        loop {
            let sequence = view.sequence;
            let place = self.folder(&view, id)?;
            let known = view.known(id)?;
            if let Some(state) = &known.state {
                return Ok(state.clone());
            }
            let staged = layout::staged(&self.root, id);
            let folder = [place.clone(), staged]
                .into_iter()
                .find(|place| self.is_of(place, id));
            if let Some(folder) = &folder {
                let raw = tables::read(&*self.media, folder, id);
                // The folder may have gone while its tables were read, which then look empty.
                if self.is_of(folder, id) {
                    let mut raw = raw?;
                    if raw.sequence <= sequence {
                        let mut state = raw.state(id, &known.base, known.longest())?;
                        let untouched = known.ops.is_empty();
                        for op in &known.ops {
                            state.apply(op);
                            raw.watch(&state);
                        }
                        raw.check(&state.name, untouched)?;
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
            if self.stale || idle || began.elapsed() > PATIENCE {
                let identity = place.join(layout::IDENTITY);
                self.media.read(&identity).at("read", &identity)?;
                return Err(match folder {
                    None => StoreError::MissingFolder {
                        signal: known.base.name.to_string(),
                        path: place,
                    },
                    Some(path) => StoreError::DamagedFile {
                        path,
                        offset: 0,
                        reason: "the signal's tables are newer than the log",
                    },
                });
            }
            // Who may not lock cannot tell, and waits.
            idle = matches!(self.media.lock(&layout::lock_file(&self.root)), Ok(Some(_)));
            if !self.refresh_view(&mut view)? && !idle {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Sequence number of the last commit seen.
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
