//! Snapshots of signals and stores, as bytes for other processes.
//!
//! A [`SignalSnapshot`] has what a handle shows except samples, with the store's path and commit. The other process
//! opens the store; later appends have no effect. If samples below its end were replaced, opening fails
//! ([`SnapshotError::Moved`]).
//!
//! Encoding: a version byte and postcard. Stamps and events may be many and no time depends on them, so opening reads
//! them from the store.

pub(crate) mod pinned;
mod record;
mod store_snapshot;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{SnapshotError, StoreError};
use crate::options::Mode;
use crate::signal::Signal;
use crate::store::Store;
use crate::store_state::StoreState;

use record::{SignalRecord, gone, unreadable};
pub use store_snapshot::StoreSnapshot;

const VERSION: u8 = 1;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct StoreCommit {
    /// Absolute path, as bytes.
    path: Vec<u8>,
    uuid: u128,
    sequence: u64,
}

impl StoreCommit {
    fn of(store: &StoreState) -> Result<Self, StoreError> {
        Ok(Self {
            path: store.backend.path().as_os_str().as_bytes().to_vec(),
            uuid: store.backend.uuid()?.as_u128(),
            sequence: store.backend.sequence()?,
        })
    }

    fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.path))
    }

    fn open(&self, what: impl Fn() -> String) -> Result<Store, StoreError> {
        Store::open(self.path(), Mode::Read).map_err(|error| match error {
            StoreError::NotAStore { path, reason, .. } => SnapshotError::NoStore {
                what: what(),
                path,
                reason,
            }
            .into(),
            other => other,
        })
    }

    /// The store must be the snapshot's and have reached its commit.
    fn check(&self, store: &Store, what: impl Fn() -> String) -> Result<(), StoreError> {
        let backend = &store.shared().backend;
        let (uuid, expected) = (backend.uuid()?, Uuid::from_u128(self.uuid));
        if uuid != expected {
            return Err(SnapshotError::OtherStore {
                what: what(),
                path: store.path().into(),
                got: uuid.to_string(),
                expected: expected.to_string(),
            }
            .into());
        }
        backend.read_commits()?;
        let got = backend.newest_sequence()?;
        if got < self.sequence {
            return Err(SnapshotError::OlderCommit {
                what: what(),
                path: store.path().into(),
                got,
                expected: self.sequence,
            }
            .into());
        }
        Ok(())
    }
}

/// What a handle shows, for another process.
///
/// ```
/// use isochrony_store::{CreateOptions, Mode, SignalSnapshot, Store};
/// use isochrony_segment::DType;
/// use isochrony_time::Rate;
///
/// let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path().join("water.iso"), Mode::Create)?;
/// let writer = store.create("p", &CreateOptions::new(DType::I16, Rate::from_hz(100)?))?;
/// writer.append(&[1i16, 2, 3])?;
/// store.commit(true)?;
/// let bytes = store.signal("p")?.snapshot()?.to_bytes()?;
/// writer.append(&[4i16])?;
/// store.commit(true)?;
/// // In another process:
/// let signal = SignalSnapshot::from_bytes(&bytes)?.open()?;
/// assert_eq!(signal.end_index(), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SignalSnapshot {
    origin: StoreCommit,
    uncommitted: bool,
    shown: SignalRecord,
}

impl SignalSnapshot {
    /// Encodes the snapshot.
    ///
    /// # Errors
    /// [`SnapshotError::Unreadable`].
    pub fn to_bytes(&self) -> Result<Vec<u8>, StoreError> {
        encode(self)
    }

    /// Decodes [`to_bytes`](Self::to_bytes).
    ///
    /// # Errors
    /// [`SnapshotError::Unreadable`], [`StoreError::DamagedTable`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        let snapshot: Self = decode(bytes)?;
        snapshot.shown.check()?;
        Ok(snapshot)
    }

    /// The store's folder.
    #[must_use]
    pub fn store_path(&self) -> &Path {
        self.origin.path()
    }

    /// Commit of the store.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.origin.sequence
    }

    #[must_use]
    /// Name of the signal.
    pub fn name(&self) -> &str {
        &self.shown.name
    }

    /// One past the last index, gaps included.
    #[must_use]
    pub fn end_index(&self) -> i64 {
        self.shown.end
    }

    /// Opens the store for reading, for [`Store::signal_at`].
    ///
    /// # Errors
    /// [`SnapshotError::NoStore`], and as [`Store::open`].
    pub fn open_store(&self) -> Result<Store, StoreError> {
        self.origin.open(|| self.shown.subject())
    }

    /// Sets another path of the store.
    #[must_use]
    pub fn at_path(mut self, path: &Path) -> Self {
        self.origin.path = path.as_os_str().as_bytes().to_vec();
        self
    }

    /// Opens the store and the signal.
    ///
    /// # Errors
    /// As [`open_store`](Self::open_store) and [`Store::signal_at`].
    pub fn open(&self) -> Result<Signal, StoreError> {
        self.open_store()?.signal_at(self)
    }
}

impl Signal {
    /// Snapshot of what this handle shows.
    ///
    /// # Errors
    /// [`SnapshotError::Scratch`], [`StoreError::Closed`].
    pub fn snapshot(&self) -> Result<SignalSnapshot, StoreError> {
        let shared = self.shared();
        if shared.in_place {
            let samples = self.sample_count();
            return Err(SnapshotError::Scratch { samples }.into());
        }
        let engine = shared.backend.engine("look for changes");
        Ok(SignalSnapshot {
            origin: StoreCommit::of(shared)?,
            uncommitted: engine.is_ok_and(|engine| engine.has_pending_in(self.id())),
            shown: SignalRecord::of(self.state()),
        })
    }
}

impl Store {
    /// The signal as a snapshot shows it, without later appends.
    ///
    /// # Errors
    /// [`SnapshotError::OtherStore`], [`SnapshotError::OlderCommit`]; [`SnapshotError::Uncommitted`] unless this store
    /// is the writer; [`SnapshotError::Moved`] if samples below its end were replaced, or the signal was removed.
    pub fn signal_at(&self, snapshot: &SignalSnapshot) -> Result<Signal, StoreError> {
        let SignalSnapshot { origin, shown, .. } = snapshot;
        origin.check(self, || shown.subject())?;
        if snapshot.uncommitted && !self.is_writable() {
            return Err(SnapshotError::Uncommitted {
                signal: shown.name.clone(),
                path: self.path().into(),
            }
            .into());
        }
        let now = self.shared().backend.newest_state(shown.id);
        let state = match now {
            Err(StoreError::SignalRemoved { .. }) => Err(gone(shown, origin.sequence)),
            now => shown.over(&*now?, origin.sequence),
        };
        Signal::of_state(self.shared(), Arc::new(state?))
    }
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, StoreError> {
    postcard::to_extend(value, vec![VERSION]).map_err(|error| unreadable(error.to_string()))
}

fn decode<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&VERSION, body)) => match postcard::take_from_bytes(body) {
            Ok((value, [])) => Ok(value),
            Ok((_, rest)) => Err(unreadable(format!("{} bytes are left over", rest.len()))),
            Err(error) => Err(unreadable(error.to_string())),
        },
        Some((version, _)) => Err(unreadable(format!(
            "its version is {version}, and this version of Isochrony reads {VERSION}"
        ))),
        None => Err(unreadable("it is empty")),
    }
}
