//! Stores: opening, commits, closing.

mod signals;

use std::path::Path;
use std::sync::{Arc, PoisonError};

use isochrony_time::{Graph, Metric, Timebase, TimebaseKind};

use crate::backend::Backend;
use crate::engine::{Engine, OpenMode, Reader};
use crate::error::StoreError;
use crate::media::{self, Media};
use crate::options::Mode;
use crate::shard_cache::ShardCache;
use crate::signal::Signal;
use crate::store_state::StoreState;

/// An open store. Clones share it.
///
/// ```
/// use isochrony_store::{CreateOptions, Mode, Store};
/// use isochrony_segment::DType;
/// use isochrony_time::{Rate, civil};
///
/// let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path().join("water.iso"), Mode::Create)?;
/// let mut options = CreateOptions::new(DType::I16, Rate::from_hz(2000)?);
/// options.start = Some(civil::parse("2010-03-01T00:00:00Z")?);
/// let writer = store.create("stn_10/pressure", &options)?;
/// writer.append(&[1i16, 2, 3])?;
/// writer.append_gap(12)?;
/// writer.append(&[4i16])?;
/// store.commit(true)?;
///
/// let signal = store.signal("stn_10/pressure")?;
/// assert_eq!((signal.sample_count(), signal.end_index()), (4, 16));
/// let selection = signal.select(1..16)?;
/// let segments: Vec<_> = selection.segments().collect::<Result<_, _>>()?;
/// assert_eq!(segments[0].to_vec::<i16>()?, [2, 3]);
/// assert_eq!(segments[1].range(), 15..16);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Store {
    shared: Arc<StoreState>,
    mode: Mode,
}

impl Store {
    /// Opens the store at `path`.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::StoreExists`], [`StoreError::StoreInsideStore`], [`StoreError::Io`];
    /// [`StoreError::Locked`] for writing while another process does.
    pub fn open(path: impl AsRef<Path>, mode: Mode) -> Result<Self, StoreError> {
        let path = media::absolute(path.as_ref())?;
        Self::open_on(&path, mode, media::media_of(&path)?)
    }

    /// Whether a path is a remote store's URL.
    #[must_use]
    pub fn is_url(path: impl AsRef<Path>) -> bool {
        media::is_url(path.as_ref())
    }

    /// Opens a store on any medium.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(path: &Path, mode: Mode, media: Arc<dyn Media>) -> Result<Self, StoreError> {
        // Absolute, so that changing the working directory has no effect.
        let path = &media::absolute(path)?;
        if media.is_remote() && mode != Mode::Read {
            let (path, action) = (path.clone(), "write to");
            return Err(StoreError::RemoteReadOnly { path, action });
        }
        crate::backup::refuse_unfinished(&*media.rooted(path), path)?;
        let wanted = match mode {
            Mode::Read => {
                let reader = Reader::open_on(path, media)?;
                return Ok(Self::new(Backend::reader(path, reader), mode, false));
            }
            Mode::ReadWrite => OpenMode::Existing,
            Mode::Append => OpenMode::CreateIfMissing,
            Mode::Create => OpenMode::CreateNew,
        };
        let engine = Engine::open_on(path, wanted, media)?;
        let store = Self::new(Backend::writer(path, engine), mode, false);
        store.shared.restore_views();
        Ok(store)
    }

    /// Lost samples that prevent recovery become gaps.
    pub(crate) fn open_giving_up_lost(
        path: &Path,
        media: Arc<dyn Media>,
    ) -> Result<Self, StoreError> {
        let engine = Engine::open_on(path, OpenMode::GiveUpLost, media)?;
        Ok(Self::new(
            Backend::writer(path, engine),
            Mode::ReadWrite,
            false,
        ))
    }

    pub(crate) fn new(backend: Backend, mode: Mode, in_place: bool) -> Self {
        if let (true, Ok(engine)) = (in_place, backend.engine("overwrite samples")) {
            engine.allow_overwrites();
        }
        Self {
            shared: Arc::new(StoreState::new(backend, in_place)),
            mode,
        }
    }

    /// Absolute path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.shared.backend.path()
    }

    /// Whether reads are requests to another machine.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.shared.backend.media().is_remote()
    }

    /// Reads samples through this host's cache; `None`: directly, as always if open for writing.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn set_shard_cache(&self, cache: Option<Arc<ShardCache>>) -> Result<(), StoreError> {
        if self.mode == Mode::Read {
            self.shared.backend.sources()?.set_cache(cache);
        }
        Ok(())
    }

    /// Mode in which it was opened.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether a signal is of this opening of the store and sees its uncommitted writes.
    #[must_use]
    pub fn shows(&self, signal: &Signal) -> bool {
        Arc::ptr_eq(&self.shared, signal.shared())
    }

    /// Whether signals can be changed.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.shared.backend.is_writable()
    }

    /// Whether any handle was [closed](Self::close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.backend.is_closed()
    }

    /// Whether only the last checkpoint is visible: the writer crashed before a restart of the machine, and this
    /// process may not recover.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.shared.backend.is_stale()
    }

    /// Uuid of the store, kept by copies and renames.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn uuid(&self) -> Result<String, StoreError> {
        Ok(self.shared.backend.uuid()?.to_string())
    }

    /// Sequence number of the last commit seen.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub fn sequence(&self) -> Result<u64, StoreError> {
        self.shared.backend.sequence()
    }

    /// Makes all changes durable, all or none, and gives the commit's number. Other Zarr readers see them within a
    /// second; with `publish`, at once. No part of a failed append is committed.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], [`StoreError::StoreVanished`], [`StoreError::Io`]. Changes stay pending, unless a
    /// failed sync makes the writer unusable until reopened.
    pub fn commit(&self, publish: bool) -> Result<u64, StoreError> {
        let engine = self.shared.backend.engine_in_place("commit")?;
        let _alone = self
            .shared
            .gate
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.shared.views.before_commit()?;
        let sequence = (self.shared.backend).explain("commit", engine.commit(publish))?;
        self.shared
            .views
            .after_commit(&self.shared.backend, publish);
        self.shared.forget_removed();
        Ok(sequence)
    }

    /// Whether a commit has anything to write.
    #[must_use]
    pub fn has_pending(&self) -> bool {
        self.shared
            .backend
            .engine("look for changes")
            .is_ok_and(Engine::has_pending)
    }

    /// Whether changes of one signal are pending.
    #[must_use]
    pub fn has_pending_in(&self, signal: &Signal) -> bool {
        self.shared
            .backend
            .engine("look for changes")
            .is_ok_and(|engine| engine.has_pending_in(signal.id()))
    }

    /// Shows commits of other processes; `true` if any. For existing handles see [`Signal::refresh`].
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::DamagedTable`].
    pub fn refresh(&self) -> Result<bool, StoreError> {
        self.shared.backend.refresh()
    }

    /// Whether any process has the store open for writing; `false` if unknown, as without write permission.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn is_written(&self) -> Result<bool, StoreError> {
        self.shared.backend.is_written()
    }

    /// Updates stored tables and starts a new log.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let engine = self.shared.backend.engine_in_place("checkpoint")?;
        let _alone = self
            .shared
            .gate
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.shared
            .backend
            .explain("checkpoint", engine.checkpoint())?;
        self.shared.views.sync(&self.shared.backend)
    }

    /// Closes the store for every handle, discarding uncommitted changes. Views of samples stay valid. Idempotent.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn close(&self) -> Result<(), StoreError> {
        let _alone = self
            .shared
            .gate
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        self.shared.forget_writers();
        self.shared.settle_views();
        self.shared.backend.close()
    }

    pub(crate) fn graph_of_signals(&self) -> Result<Graph, StoreError> {
        let mut graph = Graph::new();
        for (id, name) in self.shared.backend.catalogue()? {
            let timebase = graph.add(Timebase {
                name,
                kind: TimebaseKind::Index,
            })?;
            let signal = Signal::load(&self.shared, id)?;
            if let Some(civil) = signal.empirical()? {
                let metric = Metric::Empirical(Arc::clone(civil));
                graph.connect(timebase, isochrony_time::TimebaseId::CIVIL, metric)?;
            }
        }
        Ok(graph)
    }

    pub(crate) fn shared(&self) -> &Arc<StoreState> {
        &self.shared
    }
}
