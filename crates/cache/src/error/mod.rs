//! Errors of caches.

use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// An error of this crate. Ranges are half open, in bytes of the object.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The operating system reported an error.
    #[error("cannot {action} {}: {source}; check the disk and the folder's permissions, or open the cache in another folder", path.display())]
    Io {
        /// Attempted action: `"read"`, `"create"`.
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// The folder contains other files.
    #[error("{} is not a cache: it contains {found:?}; give an empty or a new folder", path.display())]
    NotACache { path: PathBuf, found: String },
    /// There is no cache in the folder.
    #[error("no cache at {}; check the path, or open one with a quota", path.display())]
    NoSuchCache { path: PathBuf },
    /// The journal is missing or damaged, and this handle must not reset it.
    #[error("the journal of the cache at {} is missing or damaged, so what it holds is not known; open the cache with a quota, which starts it empty, or remove the folder", path.display())]
    DamagedJournal { path: PathBuf },
    /// The folder is on a network file system.
    #[error("cannot cache in {}: it is on {file_system}, whose locks and mappings are not the kernel's own; give a folder on a local disk", path.display())]
    NetworkFolder {
        path: PathBuf,
        file_system: &'static str,
    },
    /// A later version wrote the cache.
    #[error("the cache at {} has format {got}, this version reads up to {supported}; upgrade isochrony, or give another folder", path.display())]
    NewerFormat {
        path: PathBuf,
        got: u32,
        supported: u32,
    },
    /// Invalid piece length.
    #[error(
        "piece_bytes={piece_bytes} is refused: it must be a power of two from {min} to {max}; choose one, such as 1048576"
    )]
    InvalidPieceBytes {
        piece_bytes: u64,
        min: u64,
        max: u64,
    },
    /// The quota is smaller than a piece.
    #[error(
        "quota_bytes={quota_bytes} is too small: one piece of piece_bytes={piece_bytes} needs {needed_bytes} bytes; raise the quota or lower piece_bytes"
    )]
    QuotaTooSmall {
        quota_bytes: u64,
        piece_bytes: u64,
        needed_bytes: u64,
    },
    /// A part of a key is empty or too long.
    #[error("{part} of the object's key has {bytes} bytes; give one of 1 to {max_bytes} bytes")]
    InvalidKey {
        part: &'static str,
        bytes: usize,
        max_bytes: usize,
    },
    /// The object has too many pieces.
    #[error(
        "{key} of {bytes} bytes has {pieces} pieces of {piece_bytes} bytes, at most {max_pieces} are allowed; open the cache with larger piece_bytes"
    )]
    TooManyPieces {
        key: String,
        bytes: u64,
        piece_bytes: u64,
        pieces: u64,
        max_pieces: u64,
    },
    /// No unpinned object is left to evict.
    #[error(
        "cache at {} is full: {needed_bytes} bytes are needed, {allocated_bytes} of the quota of {quota_bytes} are allocated, and pinned objects cannot be evicted; raise the quota, release objects, or read without the cache", path.display()
    )]
    CacheFull {
        path: PathBuf,
        needed_bytes: u64,
        allocated_bytes: u64,
        quota_bytes: u64,
    },
    /// The disk has less space than the quota.
    #[error(
        "disk of the cache at {} is full: {needed_bytes} bytes more do not fit, with {allocated_bytes} of the quota of {quota_bytes} allocated; free space, lower the quota, or read without the cache", path.display()
    )]
    DiskFull {
        path: PathBuf,
        needed_bytes: u64,
        allocated_bytes: u64,
        quota_bytes: u64,
    },
    /// A range outside the object.
    #[error(
        "range {start}..{end} is outside {key}, which has {bytes} bytes; clip the range, or pin the object with its new length"
    )]
    OutsideObject {
        key: String,
        start: u64,
        end: u64,
        bytes: u64,
    },
    /// Bytes that are not whole reserved pieces.
    #[error(
        "bytes {start}..{end} of {key} are not whole reserved pieces of {piece_bytes} bytes; store the ranges that the reservation lists, cut at multiples of the piece length"
    )]
    NotReserved {
        key: String,
        start: u64,
        end: u64,
        piece_bytes: u64,
    },
    /// A fetch succeeded without storing all reserved pieces.
    #[error(
        "fetch left bytes {start}..{end} of {key} without content; store every range of the reservation, or return an error"
    )]
    NotStored { key: String, start: u64, end: u64 },
    /// Fetched bytes are not the origin's.
    #[error(
        "bytes {start}..{end} of {key} failed their check and were not cached: {reason}; fetch them again"
    )]
    CheckFailed {
        key: String,
        start: u64,
        end: u64,
        reason: String,
    },
    /// Bytes that are not cached.
    #[error(
        "bytes {start}..{end} of {key} are not in the cache; fetch the ranges that `missing` returns before reading"
    )]
    NotPresent { key: String, start: u64, end: u64 },
    /// The object's file was removed while pinned.
    #[error("the cache at {} lost {key} while it was pinned: its folder was removed or its journal was damaged; drop the object and pin it again", path.display())]
    ObjectLost { path: PathBuf, key: String },
    /// Another process did not fetch a piece in time.
    #[error(
        "waited {waited:?} for another process to fetch bytes {start}..{end} of {key}; wait longer, or read without the cache"
    )]
    FetchTimeout {
        key: String,
        start: u64,
        end: u64,
        waited: Duration,
    },
    /// Another process holds the index lock too long.
    #[error("waited {waited:?} for the lock {}; a process that holds it is stopped or hangs: resume or end it", path.display())]
    IndexLocked { path: PathBuf, waited: Duration },
    /// The handle is of the parent process.
    #[error("the cache at {} was opened by process {opened_by} and is used in its fork {process}; open it in the fork", path.display())]
    Forked {
        path: PathBuf,
        opened_by: u32,
        process: u32,
    },
}

impl CacheError {
    /// A stable name of the kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "io",
            Self::NotACache { .. } => "not_a_cache",
            Self::NoSuchCache { .. } => "no_such_cache",
            Self::DamagedJournal { .. } => "damaged_journal",
            Self::NetworkFolder { .. } => "network_folder",
            Self::NewerFormat { .. } => "newer_format",
            Self::InvalidPieceBytes { .. } => "invalid_piece_bytes",
            Self::QuotaTooSmall { .. } => "quota_too_small",
            Self::InvalidKey { .. } => "invalid_key",
            Self::TooManyPieces { .. } => "too_many_pieces",
            Self::CacheFull { .. } => "cache_full",
            Self::DiskFull { .. } => "disk_full",
            Self::OutsideObject { .. } => "outside_object",
            Self::NotReserved { .. } => "not_reserved",
            Self::NotStored { .. } => "not_stored",
            Self::CheckFailed { .. } => "check_failed",
            Self::NotPresent { .. } => "not_present",
            Self::ObjectLost { .. } => "object_lost",
            Self::FetchTimeout { .. } => "fetch_timeout",
            Self::IndexLocked { .. } => "index_locked",
            Self::Forked { .. } => "forked",
        }
    }
}

/// Whether a disk or its quota is full.
pub(crate) fn is_full(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

pub(crate) trait IoContext<T>: Sized {
    /// The path is computed only for an error.
    fn at_path(self, action: &'static str, path: impl FnOnce() -> PathBuf)
    -> Result<T, CacheError>;

    fn at(self, action: &'static str, path: &Path) -> Result<T, CacheError> {
        self.at_path(action, || path.to_path_buf())
    }
}

impl<T, E: Into<std::io::Error>> IoContext<T> for Result<T, E> {
    fn at_path(
        self,
        action: &'static str,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<T, CacheError> {
        self.map_err(|source| CacheError::Io {
            action,
            path: path(),
            source: source.into(),
        })
    }
}
