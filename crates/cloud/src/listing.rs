//! Which objects there are, asked for once and remembered until the store says that more was published.
//!
//! A small store is listed whole with the first question, one request for a thousand objects; of a large one the folders
//! that are asked about. Servers that list nothing are asked about each object.

use std::collections::{BTreeMap, HashMap};

use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path as Key;

use crate::driver;
use crate::error::CloudError;
use crate::requests::{Requests, Version};

/// Objects of a store that is listed whole, at most: some 20 requests, and 4 MB of memory.
const MOST_LISTED: usize = 20_000;

/// What is under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    File(Version),
    Folder,
}

#[derive(Debug, Default)]
pub(crate) struct Listing {
    whole: Option<BTreeMap<String, Version>>,
    /// There are more than are listed whole.
    is_large: bool,
    folders: HashMap<String, BTreeMap<String, Found>>,
    /// Objects that were asked about one by one.
    single: HashMap<String, Option<Version>>,
}

/// Where the objects are.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) requests: Requests,
    pub(crate) prefix: Key,
}

impl Place {
    /// The full name of an object. `name` is below the store's prefix, which is ""'s name.
    pub(crate) fn key(&self, name: &str) -> Result<Key, CloudError> {
        let full = match (self.prefix.as_ref(), name) {
            (prefix, "") => prefix.to_owned(),
            ("", name) => name.to_owned(),
            (prefix, name) => format!("{prefix}/{name}"),
        };
        Key::parse(full).map_err(|error| CloudError::BadUrl {
            reason: error.to_string(),
        })
    }

    fn name<'a>(&self, key: &'a Key) -> Option<&'a str> {
        let prefix = self.prefix.as_ref();
        match prefix {
            "" => Some(key.as_ref()),
            _ => key.as_ref().strip_prefix(prefix)?.strip_prefix('/'),
        }
    }

    /// All objects, or `None` if there are more than `most`.
    pub(crate) async fn list_whole(
        self,
        most: usize,
    ) -> Result<Option<BTreeMap<String, Version>>, CloudError> {
        let mut found = BTreeMap::new();
        let mut all = self.requests.client.list(Some(&self.prefix));
        while let Some(meta) = all.next().await {
            let meta = meta.map_err(|error| self.requests.error(&error))?;
            if found.len() == most {
                return Ok(None);
            }
            if let Some(name) = self.name(&meta.location) {
                found.insert(name.to_owned(), Version::of(&meta));
            }
        }
        Ok(Some(found))
    }

    async fn list_folder(self, folder: String) -> Result<BTreeMap<String, Found>, CloudError> {
        let key = self.key(&folder)?;
        let listed = self.requests.client.list_with_delimiter(Some(&key)).await;
        let listed = listed.map_err(|error| self.requests.error(&error))?;
        let mut found = BTreeMap::new();
        let folders = listed
            .common_prefixes
            .iter()
            .map(|key| (key, Found::Folder));
        let files = listed.objects.iter();
        let files = files.map(|meta| (&meta.location, Found::File(Version::of(meta))));
        for (key, what) in folders.chain(files) {
            if let Some(name) = key.filename() {
                found.insert(name.to_owned(), what);
            }
        }
        Ok(found)
    }
}

impl Listing {
    /// What is under a name.
    pub(crate) fn find(&mut self, place: &Place, name: &str) -> Result<Option<Found>, CloudError> {
        if !place.requests.service.lists() {
            return self.ask(place, name);
        }
        self.load(place)?;
        if let Some(whole) = &self.whole {
            if let Some(version) = whole.get(name) {
                return Ok(Some(Found::File(version.clone())));
            }
            return Ok(has_folder(whole, name).then_some(Found::Folder));
        }
        let Some((folder, own)) = name.rsplit_once('/').or(Some(("", name))) else {
            return Ok(None);
        };
        if own.is_empty() {
            return Ok(Some(Found::Folder));
        }
        Ok(self.folder(place, folder)?.get(own).cloned())
    }

    /// Names in a folder.
    pub(crate) fn names(&mut self, place: &Place, folder: &str) -> Result<Vec<String>, CloudError> {
        if place.requests.service.lists() {
            self.load(place)?;
            if let Some(whole) = &self.whole {
                return match names_in(whole, folder) {
                    names if names.is_empty() => Err(CloudError::Missing),
                    names => Ok(names),
                };
            }
        }
        let lists = place.requests.service.lists();
        match self.folder(place, folder) {
            Ok(found) if found.is_empty() => Err(CloudError::Missing),
            Ok(found) => Ok(found.keys().cloned().collect()),
            Err(_) if !lists => Err(CloudError::CannotList),
            Err(error) => Err(error),
        }
    }

    /// Objects below a folder that are at most `most` bytes long, if all are known.
    pub(crate) fn small_below(&self, folder: &str, most: u64) -> Vec<(String, Version)> {
        let Some(whole) = &self.whole else {
            return Vec::new();
        };
        let begin = format!("{folder}/");
        let below = whole.range(begin.clone()..);
        let below = below.take_while(|(name, _)| name.starts_with(&begin));
        let small = below.filter(|(_, version)| version.size <= most);
        small
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect()
    }

    /// Whether objects are listed without tags: then two versions may look the same, of one second and one length.
    pub(crate) fn lacks_tags(&self) -> bool {
        let whole = self.whole.iter().flat_map(BTreeMap::values);
        let single = self.single.values().flatten();
        let files = self.folders.values().flat_map(BTreeMap::values);
        let files = files.filter_map(|found| match found {
            Found::File(version) => Some(version),
            Found::Folder => None,
        });
        let mut all = whole.chain(single).chain(files);
        all.any(|version| !version.has_tag())
    }

    /// Forgets all: more was published.
    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    fn load(&mut self, place: &Place) -> Result<(), CloudError> {
        if self.whole.is_none() && !self.is_large {
            self.whole = driver::wait(place.clone().list_whole(MOST_LISTED))?;
            self.is_large = self.whole.is_none();
        }
        Ok(())
    }

    fn folder(
        &mut self,
        place: &Place,
        folder: &str,
    ) -> Result<&BTreeMap<String, Found>, CloudError> {
        if !self.folders.contains_key(folder) {
            let found = driver::wait(place.clone().list_folder(folder.to_owned()))?;
            self.folders.insert(folder.to_owned(), found);
        }
        Ok(&self.folders[folder])
    }

    fn ask(&mut self, place: &Place, name: &str) -> Result<Option<Found>, CloudError> {
        if let Some(Some(known)) = self.single.get(name) {
            return Ok(Some(Found::File(known.clone())));
        }
        // A server that lists nothing knows no folders; what is in one proves it.
        let begin = format!("{name}/");
        let mut files = self.single.iter().filter(|(_, found)| found.is_some());
        if files.any(|(file, _)| file.starts_with(&begin)) {
            return Ok(Some(Found::Folder));
        }
        let found = self.ask_for(place, name)?;
        if found.is_none() && may_be_node(name) {
            // Every group and every array of Zarr has one.
            let node = self.ask_for(place, &format!("{name}/zarr.json"))?;
            return Ok(node.map(|_| Found::Folder));
        }
        Ok(found.map(Found::File))
    }

    fn ask_for(&mut self, place: &Place, name: &str) -> Result<Option<Version>, CloudError> {
        if let Some(known) = self.single.get(name) {
            return Ok(known.clone());
        }
        let (requests, key) = (place.requests.clone(), place.key(name)?);
        let found = driver::wait(async move { requests.head(&key).await })?;
        self.single.insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

/// Whether the last part of a name may be that of a group or an array, rather than a file's or a shard's.
fn may_be_node(name: &str) -> bool {
    let own = name.rsplit('/').next().unwrap_or_default();
    !own.contains('.') && !own.chars().all(|c| c.is_ascii_digit()) && own != "c"
}

/// Whether a name of the map begins with that of a folder.
pub(crate) fn has_folder<V>(whole: &BTreeMap<String, V>, name: &str) -> bool {
    if name.is_empty() {
        return !whole.is_empty();
    }
    let begin = format!("{name}/");
    let next = whole.range(begin.clone()..).next();
    next.is_some_and(|(found, _)| found.starts_with(&begin))
}

/// What is in a folder, as the names of the map imply.
pub(crate) fn names_in<V>(whole: &BTreeMap<String, V>, folder: &str) -> Vec<String> {
    let begin = match folder {
        "" => String::new(),
        folder => format!("{folder}/"),
    };
    let mut names: Vec<String> = Vec::new();
    let mut from = begin.clone();
    while let Some((found, _)) = whole.range(from.clone()..).next()
        && let Some(rest) = found.strip_prefix(&begin)
    {
        match rest.split_once('/') {
            None => {
                names.push(rest.to_owned());
                from = format!("{found}\0");
            }
            Some((name, _)) => {
                names.push(name.to_owned());
                // Behind all that is in it: '0' follows '/'.
                from = format!("{begin}{name}0");
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn listed(names: &BTreeSet<String>) -> BTreeMap<String, Version> {
        let meta = object_store::ObjectMeta {
            location: Key::from("a"),
            last_modified: Default::default(),
            size: 1,
            e_tag: None,
            version: None,
        };
        let version = Version::of(&meta);
        names
            .iter()
            .map(|name| (name.clone(), version.clone()))
            .collect()
    }

    proptest! {
        /// Against a walk over all names.
        #[test]
        fn folders_are_those_that_names_of_objects_imply(
            names in prop::collection::btree_set("[a-c0./]{0,2}[a-c]/?[a-c0.]{1,2}", 0..12),
            folder in "[a-c]{0,2}",
        ) {
            let is_name = |name: &String| name.split('/').all(|part| !part.is_empty());
            let names: BTreeSet<String> = names.into_iter().filter(is_name).collect();
            let whole = listed(&names);
            let begin = if folder.is_empty() { String::new() } else { format!("{folder}/") };
            let below = names.iter().filter_map(|name| name.strip_prefix(&begin));
            let below: BTreeSet<String> = below
                .map(|rest| rest.split('/').next().unwrap().to_owned())
                .collect();
            let found = names_in(&whole, &folder);
            prop_assert_eq!(found.iter().cloned().collect::<BTreeSet<_>>(), below.clone());
            // An object and a folder may have one name.
            prop_assert!(found.len() <= below.len() + 1 || found.len() <= 2 * below.len());
            prop_assert_eq!(has_folder(&whole, &folder), !below.is_empty());
        }
    }
}
