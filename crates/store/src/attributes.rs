//! User attributes of a store, in its root `zarr.json`, where every Zarr program looks. They change at once, not by
//! commits.

use std::io;
use std::path::PathBuf;
use std::sync::PoisonError;

use serde_json::{Map, Value};

use crate::engine::io::{IoContext, replace_file};
use crate::error::StoreError;
use crate::layout::zarr;
use crate::media::{Site, limits};
use crate::options::attributes_text;
use crate::store::Store;

const OWN_KEY: &str = "isochrony";

/// Saved plans by name. Readers see them as signals, so signals cannot have their names.
const VIEWS: &str = "isochrony_views";

impl Store {
    /// User attributes of the store.
    ///
    /// # Errors
    /// [`StoreError::Io`], [`StoreError::DamagedFile`].
    pub fn attributes(&self) -> Result<Map<String, Value>, StoreError> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        let path = self.metadata_path()?;
        let mut attributes = self
            .read_attributes()?
            .ok_or_else(missing)
            .at("read", &path)?;
        // Unlike `remove`, keeps the order.
        attributes.retain(|key, _| key != OWN_KEY);
        Ok(attributes)
    }

    /// Includes our own; `None` without a file.
    pub(crate) fn read_attributes(&self) -> Result<Option<Map<String, Value>>, StoreError> {
        let path = self.metadata_path()?;
        let media = self.shared().backend.media();
        let bytes = media.read(&path, limits::METADATA).at("read", &path)?;
        let damaged = || StoreError::DamagedFile {
            path: path.clone(),
            offset: 0,
            reason: "the attributes of the store cannot be read from it",
        };
        bytes
            .map(|bytes| zarr::attributes_of(&bytes).ok_or_else(damaged))
            .transpose()
    }

    /// Replaces the user attributes, at once.
    ///
    /// # Errors
    /// [`StoreError::InvalidAttributes`], [`StoreError::ReadOnly`], [`StoreError::Io`], and [`StoreError::DamagedFile`]
    /// if the existing ones are unreadable: a repair keeps the file.
    pub fn set_attributes(&self, attributes: &Map<String, Value>) -> Result<(), StoreError> {
        let shared = self.shared();
        let engine = shared.backend.engine_in_place("set attributes")?;
        attributes_text("store", attributes)?;
        let _alone = shared.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.read_attributes()?;
        let path = self.metadata_path()?;
        let group = zarr::store_group(&self.uuid()?, attributes.clone());
        let (_, tmp) = engine.new_tmp();
        let media = &**engine.media();
        let site = Some(Site::ReplacementFile);
        let replaced = replace_file(media, &tmp, &path, &zarr::to_bytes(&group), site);
        if replaced.is_err() {
            let _ = media.remove_file(&tmp);
        }
        replaced?;
        let folder = engine.root();
        let synced = media.sync_folder(folder, Site::ReplacementFolder);
        synced.at("sync", folder)
    }

    pub(crate) fn refuse_view(&self, name: &str) -> Result<(), StoreError> {
        let path = self.metadata_path()?;
        let bytes = self
            .shared()
            .backend
            .media()
            .read(&path, limits::METADATA)
            .at("read", &path)?;
        let json: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match json.and_then(|json| json["attributes"][VIEWS].get(name).cloned()) {
            Some(_) => Err(StoreError::NameOfView { name: name.into() }),
            None => Ok(()),
        }
    }

    fn metadata_path(&self) -> Result<PathBuf, StoreError> {
        self.sequence()?;
        Ok(self.path().join("zarr.json"))
    }
}
