//! What is refused at the door to a store's files.

use std::io;
use std::path::{Path, PathBuf};

use isochrony_segment::free_memory;

/// Something in a store's folder that no store has. It travels inside an [`io::Error`] of the kind
/// [`InvalidData`](io::ErrorKind::InvalidData), so that it is never taken for a file that is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Neither a regular file nor a folder, or one of them where the other belongs.
    #[error("{} is {found}", path.display())]
    Kind {
        /// What was found, which may be a folder above the one that was asked for.
        path: PathBuf,
        /// `"a symbolic link"`, `"a pipe"`.
        found: &'static str,
    },
    /// A file that is longer than any of its kind.
    #[error("{} holds {len} bytes, more than {limit}", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Its length.
        len: u64,
        /// Most that it may have.
        limit: u64,
    },
    /// A file that this machine has no memory for.
    #[error("{} holds {len} bytes, and {free} bytes of this machine's memory are free", path.display())]
    NoMemory {
        /// The file.
        path: PathBuf,
        /// Its length.
        len: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// A path with `..` or outside the store.
    #[error("{} is not inside the store", path.display())]
    Outside {
        /// The path as it was asked for.
        path: PathBuf,
    },
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(io::ErrorKind::InvalidData, refusal)
    }
}

impl Refusal {
    /// Of a file that is longer than one of its kind may be, or than memory is free.
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

    /// The refusal that an error of a medium carries.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::room_for;

    #[test]
    fn nothing_is_read_whole_that_is_longer_than_its_kind_or_than_memory() {
        let path = Path::new("/a.iso/zarr.json");
        assert_eq!(room_for(path, 7, 7).unwrap(), [0; 7]);
        let refused = |len, limit| {
            let error = room_for(path, len, limit).unwrap_err();
            Refusal::of(&error).cloned()
        };
        let too_long = refused(8, 7);
        assert!(matches!(too_long, Some(Refusal::TooLong { len: 8, .. })));
        let no_memory = refused(1 << 60, 1 << 61);
        assert!(matches!(no_memory, Some(Refusal::NoMemory { .. })));
    }
}
