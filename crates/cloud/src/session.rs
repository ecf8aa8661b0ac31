//! What a store's medium knows in one process: its client, what is listed, and blocks of objects.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::blocks::{BlockCache, Object};
use crate::driver;
use crate::error::CloudError;
use crate::listing::{Entry, Listing, StoreLocation};
use crate::requests::Version;

/// Longest of the objects that are read with others of their signal, and how many of them, and bytes in all.
const MAX_SMALL_OBJECT_BYTES: u64 = 128 << 10;
const MAX_SMALL_OBJECTS: usize = 48;
const MAX_SMALL_BYTES: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) location: StoreLocation,
    pub(crate) blocks: BlockCache,
    state: Mutex<SessionState>,
}

#[derive(Debug, Default)]
struct SessionState {
    listing: Listing,
    /// Folders whose small objects were read.
    warmed: HashSet<String>,
    /// Versions of the objects that say what is published, as they were seen last.
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

    /// The version of a root record now, whatever is listed.
    pub(crate) fn head(&self, name: &str) -> Result<Option<Version>, CloudError> {
        let (requests, key) = (self.location.requests.clone(), self.location.key(name)?);
        let found = driver::wait(async move { requests.head(&key).await })?;
        if let Some(version) = &found {
            self.saw(name, version);
        }
        Ok(found)
    }

    /// A root record as it is now, whatever is listed.
    pub(crate) fn whole(
        &self,
        name: &str,
        most: u64,
    ) -> Result<Option<(Version, Vec<u8>)>, CloudError> {
        let (requests, key) = (self.location.requests.clone(), self.location.key(name)?);
        let found = driver::wait(async move { requests.whole(&key, most).await })?;
        if let Some((version, _)) = &found {
            self.saw(name, version);
        }
        Ok(found)
    }

    /// Forgets what is listed: something was published since, or is not as it was listed.
    pub(crate) fn forget_listing(&self) {
        self.forget(&mut self.state());
    }

    fn forget(&self, state: &mut SessionState) {
        if state.listing.lacks_tags() {
            self.blocks.forget();
        }
        state.listing.forget();
        state.warmed.clear();
    }

    /// Takes note of the version of a root record. What was listed before it was there may lack what it tells of, also
    /// where it is the first one that is seen.
    fn saw(&self, name: &str, version: &Version) {
        let mut state = self.state();
        let before = state.roots.insert(name.to_owned(), version.clone());
        if before.is_none_or(|before| !before.fits(version)) {
            self.forget(&mut state);
        }
    }

    /// Begins to read the small objects of the signal that an object is of, once. They are asked for one after another,
    /// each with the latency of a request, if nobody does. Not in a store that is too large to be listed: there, finding
    /// them takes requests as well.
    pub(crate) fn warm(&self, name: &str) {
        let small = {
            let mut state = self.state();
            let Some(objects) = state.listing.whole() else {
                return;
            };
            let Some(folder) = signal_folder(objects, name) else {
                return;
            };
            let small = small_below(objects, folder);
            if !state.warmed.insert(folder.to_owned()) {
                return;
            }
            small
        };
        let mut bytes = 0;
        for (name, version) in small {
            bytes += version.size;
            if bytes > MAX_SMALL_BYTES {
                return;
            }
            let object = Object::new(&name, version);
            // Whoever needs it meets the error.
            let _ = self.blocks.prefetch(&self.location, &object);
        }
    }

    /// Begins to read the first and the last block of an object. Whoever needs them meets the errors.
    pub(crate) fn prefetch_ends(&self, name: &str, version: Version) {
        let object = Object::new(name, version);
        let _ = self.blocks.prefetch_ends(&self.location, &object);
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The nearest folder above an object that has an array of samples.
fn signal_folder<'a>(objects: &BTreeMap<String, Version>, name: &'a str) -> Option<&'a str> {
    let mut folder = name;
    while let Some((above, _)) = folder.rsplit_once('/') {
        if objects.contains_key(&format!("{above}/data/zarr.json")) {
            return Some(above);
        }
        folder = above;
    }
    None
}

/// The first small objects below a folder.
fn small_below(objects: &BTreeMap<String, Version>, folder: &str) -> Vec<(String, Version)> {
    let begin = format!("{folder}/");
    let below = objects.range(begin.clone()..);
    let below = below.take_while(|(name, _)| name.starts_with(&begin));
    let small = below.filter(|(_, version)| version.size <= MAX_SMALL_OBJECT_BYTES);
    let small = small.take(MAX_SMALL_OBJECTS);
    small
        .map(|(name, version)| (name.clone(), version.clone()))
        .collect()
}
