//! Cached listings of objects, until more is published.
//!
//! Small stores are listed as a whole, large ones by folder; servers without listings are asked for each object.

use std::collections::{BTreeMap, HashMap};

use futures_util::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path as Key;

use crate::client::Service;
use crate::driver;
use crate::error::{CloudError, error_status, is_broken_off, is_of_transport};
use crate::requests::{Requests, Version};

/// Larger stores are not listed as a whole: some 20 requests, and 4 MB of memory.
const MAX_LISTED_OBJECTS: usize = 20_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entry {
    File(Version),
    Folder,
}

#[derive(Debug, Default)]
pub(crate) struct Listing {
    whole: Option<BTreeMap<String, Version>>,
    is_large: bool,
    folders: HashMap<String, BTreeMap<String, Entry>>,
    single: HashMap<String, Option<Version>>,
}

/// A bucket's objects with a prefix.
#[derive(Debug, Clone)]
pub(crate) struct StoreLocation {
    pub(crate) requests: Requests,
    pub(crate) prefix: Key,
}

impl StoreLocation {
    /// `name` is relative to the store's prefix, itself "".
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

    /// `None` if there are more than `most`.
    pub(crate) async fn list_whole(
        self,
        most: usize,
    ) -> Result<Option<BTreeMap<String, Version>>, CloudError> {
        let mut retries = 0;
        loop {
            let error = match self.try_list_whole(most).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            self.retry_listing(&error, &mut retries).await?;
        }
    }

    async fn try_list_whole(
        &self,
        most: usize,
    ) -> Result<Option<BTreeMap<String, Version>>, object_store::Error> {
        let mut found = BTreeMap::new();
        let mut all = self.requests.client.list(Some(&self.prefix));
        while let Some(meta) = all.next().await {
            let meta = meta?;
            if found.len() == most {
                return Ok(None);
            }
            if let Some(name) = self.name(&meta.location) {
                found.insert(name.to_owned(), self.requests.version(&meta));
            }
        }
        Ok(Some(found))
    }

    async fn list_folder(self, folder: String) -> Result<BTreeMap<String, Entry>, CloudError> {
        let key = self.key(&folder)?;
        let mut retries = 0;
        let listed = loop {
            match self.requests.client.list_with_delimiter(Some(&key)).await {
                Ok(listed) => break listed,
                Err(error) => self.retry_listing(&error, &mut retries).await?,
            }
        };
        let mut found = BTreeMap::new();
        let folders = listed
            .common_prefixes
            .iter()
            .map(|key| (key, Entry::Folder));
        let files = listed.objects.iter();
        let files = files.map(|meta| (&meta.location, Entry::File(self.requests.version(meta))));
        for (key, what) in folders.chain(files) {
            if let Some(name) = key.filename() {
                found.insert(name.to_owned(), what);
            }
        }
        Ok(found)
    }

    /// Returns errors other than a listing that broke off.
    async fn retry_listing(
        &self,
        error: &object_store::Error,
        retries: &mut u32,
    ) -> Result<(), CloudError> {
        let failure = match self.requests.service {
            Service::Http if cannot_list(error) => CloudError::CannotList,
            _ => self.requests.error(error),
        };
        let is_broken = is_broken_off(error);
        self.requests
            .before_retry(failure, is_broken, retries)
            .await
    }
}

impl Listing {
    pub(crate) fn find(
        &mut self,
        location: &StoreLocation,
        name: &str,
    ) -> Result<Option<Entry>, CloudError> {
        if !location.requests.service.lists() {
            return self.look_up(location, name);
        }
        self.load(location)?;
        if let Some(whole) = &self.whole {
            if let Some(version) = whole.get(name) {
                return Ok(Some(Entry::File(version.clone())));
            }
            return Ok(has_folder(whole, name).then_some(Entry::Folder));
        }
        let Some((folder, own)) = name.rsplit_once('/').or(Some(("", name))) else {
            return Ok(None);
        };
        if own.is_empty() {
            return Ok(Some(Entry::Folder));
        }
        Ok(self.folder(location, folder)?.get(own).cloned())
    }

    pub(crate) fn names(
        &mut self,
        location: &StoreLocation,
        folder: &str,
    ) -> Result<Vec<String>, CloudError> {
        if location.requests.service.lists() {
            self.load(location)?;
            if let Some(whole) = &self.whole {
                return match names_in(whole, folder) {
                    names if names.is_empty() => Err(CloudError::Missing),
                    names => Ok(names),
                };
            }
        }
        let found = self.folder(location, folder)?;
        match found.is_empty() {
            true => Err(CloudError::Missing),
            false => Ok(found.keys().cloned().collect()),
        }
    }

    pub(crate) fn whole(&self) -> Option<&BTreeMap<String, Version>> {
        self.whole.as_ref()
    }

    /// Without tags, two versions of one second and length look the same.
    pub(crate) fn lacks_tags(&self) -> bool {
        let whole = self.whole.iter().flat_map(BTreeMap::values);
        let single = self.single.values().flatten();
        let files = self.folders.values().flat_map(BTreeMap::values);
        let files = files.filter_map(|found| match found {
            Entry::File(version) => Some(version),
            Entry::Folder => None,
        });
        let mut all = whole.chain(single).chain(files);
        all.any(|version| !version.has_tag())
    }

    pub(crate) fn forget(&mut self) {
        *self = Self::default();
    }

    fn load(&mut self, location: &StoreLocation) -> Result<(), CloudError> {
        if self.whole.is_none() && !self.is_large {
            self.whole = driver::wait(location.clone().list_whole(MAX_LISTED_OBJECTS))?;
            self.is_large = self.whole.is_none();
        }
        Ok(())
    }

    fn folder(
        &mut self,
        location: &StoreLocation,
        folder: &str,
    ) -> Result<&BTreeMap<String, Entry>, CloudError> {
        if !self.folders.contains_key(folder) {
            let found = driver::wait(location.clone().list_folder(folder.to_owned()))?;
            self.folders.insert(folder.to_owned(), found);
        }
        Ok(&self.folders[folder])
    }

    fn look_up(
        &mut self,
        location: &StoreLocation,
        name: &str,
    ) -> Result<Option<Entry>, CloudError> {
        if let Some(Some(known)) = self.single.get(name) {
            return Ok(Some(Entry::File(known.clone())));
        }
        // A server without listings has no folders; an object in one proves it.
        let begin = format!("{name}/");
        let mut files = self.single.iter().filter(|(_, found)| found.is_some());
        if files.any(|(file, _)| file.starts_with(&begin)) {
            return Ok(Some(Entry::Folder));
        }
        let found = self.look_up_object(location, name)?;
        if found.is_none() && may_be_node(name) {
            // Every Zarr group and array has one.
            let node = self.look_up_object(location, &format!("{name}/zarr.json"))?;
            return Ok(node.map(|_| Entry::Folder));
        }
        Ok(found.map(Entry::File))
    }

    fn look_up_object(
        &mut self,
        location: &StoreLocation,
        name: &str,
    ) -> Result<Option<Version>, CloudError> {
        if let Some(known) = self.single.get(name) {
            return Ok(known.clone());
        }
        let (requests, key) = (location.requests.clone(), location.key(name)?);
        let found = driver::wait(async move { requests.head(&key).await })?;
        self.single.insert(name.to_owned(), found.clone());
        Ok(found)
    }
}

/// Whether a web server does not know PROPFIND, or answers without a list.
fn cannot_list(error: &object_store::Error) -> bool {
    match error_status(error) {
        Some(401 | 403 | 404 | 408 | 429) => false,
        Some(501) => true,
        Some(status) => (400..500).contains(&status),
        None => !is_of_transport(error),
    }
}

fn may_be_node(name: &str) -> bool {
    let own = name.rsplit('/').next().unwrap_or_default();
    !own.contains('.') && !own.chars().all(|c| c.is_ascii_digit()) && own != "c"
}

pub(crate) fn has_folder<V>(whole: &BTreeMap<String, V>, name: &str) -> bool {
    if name.is_empty() {
        return !whole.is_empty();
    }
    let begin = format!("{name}/");
    let next = whole.range(begin.clone()..).next();
    next.is_some_and(|(found, _)| found.starts_with(&begin))
}

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
                // After its whole content: '0' follows '/'.
                from = format!("{begin}{name}0");
            }
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use object_store::client::{HttpError, HttpErrorKind};

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
        let version = Version::of(&meta, Service::Custom);
        names
            .iter()
            .map(|name| (name.clone(), version.clone()))
            .collect()
    }

    #[test]
    fn only_servers_without_listings_are_reported_as_such() {
        let cannot_list = |source: Box<dyn std::error::Error + Send + Sync>| {
            cannot_list(&object_store::Error::Generic {
                store: "HTTP",
                source,
            })
        };
        let answered = |status: &str| {
            cannot_list(format!("Server returned non-2xx status code: {status}: ").into())
        };
        for status in [
            "405 Method Not Allowed",
            "400 Bad Request",
            "501 Not Implemented",
        ] {
            assert!(answered(status), "{status}");
        }
        for status in [
            "403 Forbidden",
            "401 Unauthorized",
            "503 Slow Down",
            "429 Too Many Requests",
        ] {
            assert!(!answered(status), "{status}");
        }
        assert!(cannot_list(
            "Error decoding PROPFIND response: a page".into()
        ));
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert!(!cannot_list(Box::new(HttpError::new(
            HttpErrorKind::Connect,
            refused
        ))));
    }

    proptest! {
        #[test]
        fn folders_are_derived_from_object_names(
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
            // An object and a folder may have the same name.
            prop_assert!(found.len() <= below.len() + 1 || found.len() <= 2 * below.len());
            prop_assert_eq!(has_folder(&whole, &folder), !below.is_empty());
        }
    }
}
