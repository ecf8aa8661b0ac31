//! What the operating system says, as errors that say what, where and how to mend it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::StoreError;
use crate::media::{Access, Media, MediaFile, Site};

/// An error of the system with its place.
pub(crate) fn failed(source: io::Error, action: &'static str, path: &Path) -> StoreError {
    let path = path.to_path_buf();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::DiskFull { action, path }
        }
        _ => StoreError::Io {
            action,
            path,
            source,
        },
    }
}

/// Adds the place to a system call's result.
pub(crate) trait IoContext<T> {
    /// Says what was tried, and where.
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| failed(source, action, path))
    }
}

/// Replaces a small file by rename; synced first if a site is given.
pub(crate) fn replace_file(
    media: &dyn Media,
    tmp: &Path,
    path: &Path,
    bytes: &[u8],
    site: Option<Site>,
) -> Result<(), StoreError> {
    let file = fresh_file(media, tmp)?;
    file.write_at(0, bytes).at("write", tmp)?;
    if let Some(site) = site {
        file.sync(site).at("sync", tmp)?;
    }
    media.rename(tmp, path).at("replace", path)
}

/// A new, empty file, whatever was there before.
pub(crate) fn fresh_file(media: &dyn Media, path: &Path) -> Result<Arc<dyn MediaFile>, StoreError> {
    match media.open(path, Access::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            media.remove_file(path).at("remove", path)?;
            media.open(path, Access::CreateNew)
        }
        other => other,
    }
    .at("create", path)
}

/// A path in a folder that nothing ever had. A name that was used twice could, after a power cut that keeps the later
/// rename and loses the earlier one, bring one file's bytes to the other's place.
pub(crate) fn unique(folder: &Path, kind: &str) -> std::path::PathBuf {
    folder.join(format!("{kind}-{}", uuid::Uuid::new_v4().simple()))
}
