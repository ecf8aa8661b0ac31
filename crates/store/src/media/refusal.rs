//! Refusals of access to a store's files.

use std::io;
use std::path::{Path, PathBuf};

use isochrony_segment::free_memory;

/// A refused entry in a store's folder, in an [`io::Error`] of kind [`InvalidData`](io::ErrorKind::InvalidData), lest
/// it be taken for a missing file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Neither file nor folder, or one instead of the other.
    #[error("{} is {found}", path.display())]
    Kind {
        /// May be a folder above the requested path.
        path: PathBuf,
        /// `"a symbolic link"`, `"a pipe"`.
        found: &'static str,
    },
    /// Longer than the limit of its kind.
    #[error("{} holds {len} bytes, more than {limit}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        len: u64,
        /// Limit of its kind.
        limit: u64,
    },
    /// Does not fit into free memory.
    #[error("{} holds {len} bytes, and {free} bytes of this machine's memory are free", path.display())]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// Its length.
        len: u64,
        /// Bytes of free memory.
        free: u64,
    },
    /// A path with `..` or outside the store.
    #[error("{} is not inside the store", path.display())]
    Outside {
        /// The requested path.
        path: PathBuf,
    },
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::ErrorKind::InvalidData, refusal)
    }
}

impl Refusal {
    /// Refuses a file above its limit, or free memory.
    #[must_use]
    pub fn of_size(path: &Path, len: u64, limit: u64) -> Self {
        let path = path.to_path_buf();
        match len > limit {
            true => Self::TooLong { path, len, limit },
            false => {
                let free = free_memory();
                Self::NoMemory { path, len, free }
            }
        }
    }

    /// The refusal in a medium's error.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::zeroed_buffer;

    #[test]
    fn rejects_whole_reads_beyond_the_limit_or_memory() {
        let path = Path::new("/a.iso/zarr.json");
        assert_eq!(zeroed_buffer(path, 7, 7).unwrap(), [0; 7]);
        let refused = |len, limit| {
            let error = zeroed_buffer(path, len, limit).unwrap_err();
            Refusal::of(&error).cloned()
        };
        let too_long = refused(8, 7);
        assert!(matches!(too_long, Some(Refusal::TooLong { len: 8, .. })));
        let no_memory = refused(1 << 60, 1 << 61);
        assert!(matches!(no_memory, Some(Refusal::NoMemory { .. })));
    }
}
