//! Shards that are mapped, and which files they were mapped from.
#![allow(unsafe_code)] // Mapping files and handing out views into the mappings.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isochrony_segment::{Buffer, BufferKind, Owner};
use memmap2::{MmapOptions, MmapRaw};

use crate::media::{Access, Media, MediaFile};

/// A shard file, mapped as long as it can ever get, whatever its length now.
///
/// Pages behind the end of the file must not be touched. `len` is a length that the file had; the engine never cuts a
/// file below committed samples, and those are all that is handed out. Somebody else who cuts the file kills readers of
/// what was cut (SIGBUS); no program can protect a mapping from that.
pub(super) struct Mapping {
    raw: MmapRaw,
    pub(super) place: Place,
    pub(super) len: AtomicU64,
}

/// Which file a shard was read from. It is opened again when it is needed and was closed: mappings outlive descriptors,
/// of which a process has few.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Device and number: another file may have the path by now.
    identity: (u64, u64),
}

impl Place {
    pub(super) fn new(path: &Path, file: &File) -> std::io::Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            identity: identity(file)?,
        })
    }

    /// The file once more; `None` if it is not there any more.
    pub(super) fn open(&self, media: &dyn Media) -> Option<Arc<dyn MediaFile>> {
        let file = media.open(&self.path, Access::Read).ok()?;
        let found = identity(file.as_os_file()?).ok()?;
        (found == self.identity).then_some(file)
    }
}

/// Device and number of an open file.
pub(crate) fn identity(file: &File) -> std::io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

impl Owner for Mapping {
    fn kind(&self) -> BufferKind {
        BufferKind::Mapped
    }
}

impl Mapping {
    /// Maps a file as long as it can ever get; `len` is its length now.
    pub(super) fn new(file: &File, place: Place, whole: usize, len: u64) -> std::io::Result<Self> {
        Ok(Self {
            raw: MmapOptions::new().len(whole).map_raw_read_only(file)?,
            place,
            len: AtomicU64::new(len),
        })
    }

    /// A view of committed bytes; `None` if the file is too short for them. `file` gives the file, if it can be had, should
    /// it have grown since.
    pub(super) fn view(
        self: &Arc<Self>,
        offset: u64,
        len: usize,
        file: impl FnOnce() -> Option<Arc<dyn MediaFile>>,
    ) -> Option<Buffer> {
        let end = offset.checked_add(len as u64)?;
        if end > self.len.load(Ordering::Relaxed) {
            // The file grew since.
            self.len.store(file()?.len().ok()?, Ordering::Relaxed);
            if end > self.len.load(Ordering::Relaxed) {
                return None;
            }
        }
        let offset = usize::try_from(offset).ok()?;
        if offset.checked_add(len)? > self.raw.len() {
            return None;
        }
        // SAFETY: `offset + len <= raw.len()` by the test above.
        let ptr = NonNull::new(unsafe { self.raw.as_mut_ptr().add(offset) })?;
        let owner: Arc<dyn Owner> = self.clone();
        // SAFETY: the mapping lives as long as `owner`. The file had `end` bytes at the last look, so the pages exist;
        // they hold committed samples, which nobody writes and behind which the engine never cuts the file (see
        // `Mapping`). All views derive from the pointer to the whole mapping, which is below `isize::MAX` bytes.
        Some(unsafe { Buffer::from_owner(owner, ptr, len) })
    }
}
