//! Snapshots of a store with all its signals.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::pinned::PinnedStore;
use super::record::SignalRecord;
use super::{StoreCommit, decode, encode};
use crate::error::{SnapshotError, StoreError};
use crate::options::Mode;
use crate::store::Store;

const SUBJECT: &str = "a store";

/// Snapshots of all signals of a store open for reading, for another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoreSnapshot {
    origin: StoreCommit,
    signals: Vec<SignalRecord>,
}

impl StoreSnapshot {
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
    /// [`SnapshotError::Unreadable`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        decode(bytes)
    }

    /// The store's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.origin.path()
    }

    /// Opens the store for reading. Until refreshed, it shows the snapshot's signals, each compared with the store's
    /// when looked up.
    ///
    /// # Errors
    /// As [`Store::open`], [`SnapshotError::OtherStore`], [`SnapshotError::OlderCommit`].
    pub fn open(self) -> Result<Store, StoreError> {
        let store = self.origin.open(|| SUBJECT.into())?;
        self.origin.check(&store, || SUBJECT.into())?;
        let Self { origin, signals } = self;
        let pinned = PinnedStore::new(origin.sequence, signals);
        store.shared().backend.pin(pinned);
        Ok(store)
    }
}

impl Store {
    /// What this store, open for reading, shows. Loads all signals.
    ///
    /// # Errors
    /// [`SnapshotError::Writer`], [`StoreError::Closed`], damage.
    pub fn snapshot(&self) -> Result<StoreSnapshot, StoreError> {
        let mode = match self.mode() {
            Mode::Read => None,
            Mode::ReadWrite => Some("r+"),
            Mode::Append => Some("a"),
            Mode::Create => Some("x"),
        };
        if let Some(mode) = mode {
            let path = self.path().into();
            return Err(SnapshotError::Writer { path, mode }.into());
        }
        let shared = self.shared();
        loop {
            let origin = StoreCommit::of(shared)?;
            let catalogue = shared.backend.catalogue()?;
            let mut signals = Vec::with_capacity(catalogue.len());
            for (id, _) in catalogue {
                match shared.backend.state(id) {
                    Ok(state) => signals.push(SignalRecord::of(&state)),
                    // Loading may read a later commit, which removed it.
                    Err(StoreError::SignalRemoved { .. })
                        if shared.backend.sequence()? != origin.sequence => {}
                    Err(error) => return Err(error),
                }
            }
            // All of one commit.
            if shared.backend.sequence()? == origin.sequence {
                return Ok(StoreSnapshot { origin, signals });
            }
        }
    }
}
