//! Converts I/O errors to store errors with action and path.

use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::StoreError;
use crate::media::{Access, Media, MediaFile, Refusal, RemoteError, Site};

pub(crate) fn failed(source: io::Error, action: &'static str, path: &Path) -> StoreError {
    match Refusal::of(&source) {
        Some(Refusal::Kind { path, found }) => {
            let path = path.clone();
            return StoreError::UnexpectedFile {
                action,
                path,
                found,
            };
        }
        Some(Refusal::TooLong { path, len, limit }) => {
            return StoreError::OversizedFile {
                path: path.clone(),
                have: *len,
                limit: *limit,
            };
        }
        Some(Refusal::NoMemory { path, len, free }) => {
            return StoreError::NoMemoryForFile {
                path: path.clone(),
                have: *len,
                free: *free,
            };
        }
        Some(Refusal::Outside { path }) => {
            let (path, found) = (path.clone(), "a path that leads out of the store");
            return StoreError::UnexpectedFile {
                action,
                path,
                found,
            };
        }
        None => {}
    }
    let path = path.to_path_buf();
    if let Some(error) = RemoteError::of(&source) {
        let (kind, error) = (source.kind(), error.clone());
        return match kind {
            io::ErrorKind::Interrupted => StoreError::Interrupted { action },
            io::ErrorKind::ReadOnlyFilesystem => StoreError::RemoteReadOnly { path, action },
            _ => StoreError::Remote {
                action,
                path,
                kind,
                error,
            },
        };
    }
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

pub(crate) trait IoContext<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError>;
}

impl<T> IoContext<T> for io::Result<T> {
    fn at(self, action: &'static str, path: &Path) -> Result<T, StoreError> {
        self.map_err(|source| failed(source, action, path))
    }
}

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

/// A path that was never used. If a name were reused, a power cut that keeps the later rename and loses the earlier
/// could put one file's bytes in the other's place.
pub(crate) fn unique(folder: &Path, kind: &str) -> std::path::PathBuf {
    folder.join(format!("{kind}-{}", uuid::Uuid::new_v4().simple()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            match path.is_dir() {
                true => sources(&path, found),
                false => found.push(path),
            }
        }
    }

    /// Errors made elsewhere would report a link as unreadable.
    #[test]
    fn io_errors_are_converted_in_one_place() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut all = Vec::new();
        sources(&root, &mut all);
        for path in all {
            if path.ends_with("engine/io.rs") || path.ends_with("error/tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("read");
            for (_, fields) in text.match_indices("StoreError::Io {").map(|(at, name)| {
                let rest = &text[at + name.len()..];
                (at, rest.split('}').next().unwrap_or_default())
            }) {
                let is_pattern = fields.contains("..");
                assert!(is_pattern, "{}: use `failed`", path.display());
            }
        }
    }
}
