//! Memory-mapped shards, with the identity of their files.
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

/// A shard file, mapped at its largest possible length.
///
/// Pages past the end of the file must not be touched. The file had length `len`. The engine never truncates below
/// committed samples, and hands out only those. If another program truncates the file, readers of the missing part get
/// SIGBUS; a mapping cannot be protected from that.
pub(super) struct Mapping {
    raw: MmapRaw,
    pub(super) place: Place,
    pub(super) len: AtomicU64,
}

/// Reopens a file: mappings outlive file descriptors, which are scarce.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    /// Device and inode: another file may have the path now.
    identity: (u64, u64),
}

impl Place {
    pub(super) fn new(path: &Path, file: &File) -> std::io::Result<Self> {
        Ok(Self {
            path: path.to_path_buf(),
            identity: identity(file)?,
        })
    }

    pub(super) fn open(&self, media: &dyn Media) -> Option<Arc<dyn MediaFile>> {
        let file = media.open(&self.path, Access::Read).ok()?;
        let found = identity(file.as_os_file()?).ok()?;
        (found == self.identity).then_some(file)
    }
}

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
    /// `whole`: largest possible length; `len`: current one.
    pub(super) fn new(file: &File, place: Place, whole: usize, len: u64) -> std::io::Result<Self> {
        Ok(Self {
            raw: MmapOptions::new().len(whole).map_raw_read_only(file)?,
            place,
            len: AtomicU64::new(len),
        })
    }

    /// Committed bytes; `None` if the file is too short. `file` reopens it, in case it has grown.
    pub(super) fn view(
        self: &Arc<Self>,
        offset: u64,
        len: usize,
        file: impl FnOnce() -> Option<Arc<dyn MediaFile>>,
    ) -> Option<Buffer> {
        let end = offset.checked_add(len as u64)?;
        if end > self.len.load(Ordering::Relaxed) {
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
        // SAFETY: the mapping lives as long as `owner`. The file had at least `end` bytes, so the pages exist; they
        // hold committed samples, which nobody writes, and the engine never truncates below them (see `Mapping`). All
        // views derive from the pointer to the whole mapping, which is below `isize::MAX` bytes.
        Some(unsafe { Buffer::from_owner(owner, ptr, len) })
    }
}
