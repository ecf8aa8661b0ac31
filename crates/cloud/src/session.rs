//! What a store's medium knows in one process: its client, what is listed, and blocks of objects.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::blocks::{Blocks, Object};
use crate::driver;
use crate::error::CloudError;
use crate::listing::{Found, Listing, Place};
use crate::requests::Version;

/// Longest of the objects that are read with others of their signal, and how many of them, and bytes in all.
const SMALL: u64 = 128 << 10;
const MOST_SMALL: usize = 48;
const SMALL_BYTES: u64 = 4 << 20;

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) place: Place,
    pub(crate) blocks: Blocks,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    listing: Listing,
    /// Folders whose small objects were read.
    warmed: HashSet<String>,
    manifest: Option<Version>,
}

impl Session {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            blocks: Blocks::default(),
            known: Mutex::default(),
        }
    }

    pub(crate) fn find(&self, name: &str) -> Result<Option<Found>, CloudError> {
        self.known().listing.find(&self.place, name)
    }

    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, CloudError> {
        self.known().listing.names(&self.place, folder)
    }

    /// The version of an object now, whatever is listed.
    pub(crate) fn head(&self, name: &str) -> Result<Option<Version>, CloudError> {
        let (requests, key) = (self.place.requests.clone(), self.place.key(name)?);
        driver::wait(async move { requests.head(&key).await })
    }

    /// An object as it is now, whatever is listed.
    pub(crate) fn whole(
        &self,
        name: &str,
        most: u64,
    ) -> Result<Option<(Version, Vec<u8>)>, CloudError> {
        let (requests, key) = (self.place.requests.clone(), self.place.key(name)?);
        driver::wait(async move { requests.whole(&key, most).await })
    }

    /// Forgets what is listed: something was published since, or is not as it was listed.
    pub(crate) fn forget_listing(&self) {
        let mut known = self.known();
        if known.listing.lacks_tags() {
            self.blocks.forget();
        }
        known.listing.forget();
        known.warmed.clear();
    }

    /// Takes note of the version of MANIFEST. Another one says that more was published.
    pub(crate) fn saw_manifest(&self, version: &Version) {
        let before = self.known().manifest.replace(version.clone());
        if before.is_some_and(|before| !before.fits(version)) {
            self.forget_listing();
        }
    }

    /// Begins to read the small objects of the signal that an object is of, once. They are asked for one after another,
    /// each with the latency of a request, if nobody does.
    pub(crate) fn warm(&self, name: &str) {
        let small = {
            let mut known = self.known();
            let Some(folder) = signal_folder(&mut known.listing, &self.place, name) else {
                return;
            };
            if !known.warmed.insert(folder.clone()) {
                return;
            }
            known.listing.small_below(&folder, SMALL)
        };
        let mut bytes = 0;
        for (name, version) in small.into_iter().take(MOST_SMALL) {
            bytes += version.size;
            if bytes > SMALL_BYTES {
                return;
            }
            let object = Object::new(&name, version);
            // Whoever needs it meets the error.
            let _ = self.blocks.prefetch(&self.place, &object);
        }
    }

    /// Begins to read the first and the last block of an object. Whoever needs them meets the errors.
    pub(crate) fn prefetch_ends(&self, name: &str, version: Version) {
        let object = Object::new(name, version);
        let _ = self.blocks.prefetch_ends(&self.place, &object);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The nearest folder above an object that has an array of samples.
fn signal_folder(listing: &mut Listing, place: &Place, name: &str) -> Option<String> {
    if !place.requests.service.lists() {
        return None;
    }
    let mut folder = name;
    while let Some((above, _)) = folder.rsplit_once('/') {
        let data = listing.find(place, &format!("{above}/data/zarr.json"));
        if matches!(data, Ok(Some(Found::File(_)))) {
            return Some(above.to_owned());
        }
        folder = above;
    }
    None
}
