#![allow(unsafe_code)] // Mapping a file.

use std::ops::Range;

use crate::error::{CacheError, IoContext};
use crate::pinned::PinnedObject;

/// An object's bytes in memory. Keeps the object pinned.
///
/// Missing pieces are not given out.
#[derive(Debug)]
pub struct Mapping {
    object: PinnedObject,
    /// `None` for an empty object, which cannot be mapped.
    map: Option<memmap2::Mmap>,
}

impl PinnedObject {
    /// Maps the object.
    ///
    /// # Errors
    /// Errors of the system, and [`CacheError::ObjectLost`] if the file was truncated.
    pub fn map(&self) -> Result<Mapping, CacheError> {
        let path = self.inner.folder.object(&self.table.digest);
        let len = self.table.file.metadata().at("look at", &path)?.len();
        if len < self.bytes() {
            return Err(self.lost());
        }
        let map = match self.bytes() {
            0 => None,
            bytes => {
                let mut options = memmap2::MmapOptions::new();
                options.len(usize::try_from(bytes).map_err(|_| self.lost())?);
                // SAFETY: the mapping stays inside the file, and no process of the cache truncates one or punches
                // holes. Only present pieces are given out, and these do not change: a process writes to a piece only
                // while it is reserved, which no present one can be. One reserved again, because its bytes on disk were
                // damaged or the object grew, gets the same content. That nobody else writes to the files is the
                // condition of every file mapping.
                Some(unsafe { options.map(&self.table.file) }.at("map", &path)?)
            }
        };
        Ok(Mapping {
            object: self.clone(),
            map,
        })
    }
}

impl Mapping {
    /// The mapped object.
    #[must_use]
    pub fn object(&self) -> &PinnedObject {
        &self.object
    }

    /// Present bytes.
    ///
    /// # Errors
    /// [`CacheError::NotPresent`] if any piece of the range is missing, a range outside the object, and errors of the system.
    pub fn slice(&self, range: Range<u64>) -> Result<&[u8], CacheError> {
        self.object.check_present(&range)?;
        let bytes = self.map.as_deref().unwrap_or_default();
        // The range lies within the object, whose length the mapping has.
        Ok(&bytes[range.start as usize..range.end as usize])
    }
}
