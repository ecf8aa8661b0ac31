//! A process's state for a medium: client, listing and blocks.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::blocks::{BlockCache, Object};
use crate::driver;
use crate::error::CloudError;
use crate::listing::{Entry, Listing, StoreLocation};
use crate::requests::Version;
use crate::signal_read_ahead::{SignalReadAhead, small_objects};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) location: StoreLocation,
    pub(crate) blocks: BlockCache,
    state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
struct SessionState {
    listing: Listing,
    read_ahead: SignalReadAhead,
    roots: HashMap<String, Version>,
}

impl Session {
    pub(crate) fn new(location: StoreLocation) -> Self {
        Self {
            location,
            blocks: BlockCache::default(),
            state: Mutex::default(),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<Option<Entry>, CloudError> {
        self.state().listing.find(&self.location, name)
    }

    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, CloudError> {
        self.state().listing.names(&self.location, folder)
    }

    /// Bypasses the listing.
    pub(crate) fn head(&self, name: &str) -> Result<Option<Version>, CloudError> {
        let (requests, key) = (self.location.requests.clone(), self.location.key(name)?);
        let found = driver::wait(async move { requests.head(&key).await })?;
        if let Some(version) = &found {
            self.note_version(name, version);
        }
        Ok(found)
    }

    pub(crate) fn whole(
        &self,
        name: &str,
        most: u64,
    ) -> Result<Option<(Version, Vec<u8>)>, CloudError> {
        let (requests, key) = (self.location.requests.clone(), self.location.key(name)?);
        let found = driver::wait(async move { requests.whole(&key, most).await })?;
        if let Some((version, _)) = &found {
            self.note_version(name, version);
        }
        Ok(found)
    }

    pub(crate) fn forget_listing(&self) {
        self.forget(&mut self.state());
    }

    fn forget(&self, state: &mut SessionState) {
        if state.listing.lacks_tags() {
            self.blocks.forget();
        }
        state.listing.forget();
        state.read_ahead = SignalReadAhead::default();
    }

    /// Earlier listings may lack what a new root record refers to, even if it is the first one seen.
    fn note_version(&self, name: &str, version: &Version) {
        let mut state = self.state();
        let before = state.roots.insert(name.to_owned(), version.clone());
        if before.is_none_or(|before| !before.fits(version)) {
            self.forget(&mut state);
        }
    }

    /// Starts reading small objects that likely follow; not in stores too large to list, where finding them takes
    /// requests.
    pub(crate) fn read_ahead_of(&self, name: &str) {
        let small = {
            let state = &mut *self.state();
            let Some(objects) = state.listing.whole() else {
                return;
            };
            let folders = state.read_ahead.folders(objects, name);
            let object = |name: &str, version: &Version| Some((name.to_owned(), version.clone()));
            small_objects(objects, &folders, object)
        };
        self.prefetch(small);
    }

    pub(crate) fn prefetch(&self, objects: Vec<(String, Version)>) {
        for (name, version) in objects {
            let object = Object::new(&name, version);
            // Its reader gets the error.
            let _ = self.blocks.prefetch(&self.location, &object);
        }
    }

    /// Readers get the errors.
    pub(crate) fn prefetch_ends(&self, name: &str, version: Version) {
        let object = Object::new(name, version);
        let _ = self.blocks.prefetch_ends(&self.location, &object);
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
