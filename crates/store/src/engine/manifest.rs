//! MANIFEST names the live log: a line of JSON and a line with its crc32c, replaced by rename.

use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::io::{IoContext, replace_file};
use crate::error::StoreError;
use crate::layout::{self, zarr::FORMAT};
use crate::media::{Media, Site, limits};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) format: u64,
    pub(crate) uuid: Uuid,
    pub(crate) generation: u64,
}

impl Manifest {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut text = serde_json::to_string(&self).unwrap_or_default();
        text.push('\n');
        let crc = crc32c::crc32c(text.as_bytes());
        text.push_str(&format!("{crc:08x}\n"));
        text.into_bytes()
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
        let (json, crc) = text
            .split_once('\n')
            .ok_or("its second line, the checksum, is missing")?;
        let expected = crc32c::crc32c(&bytes[..=json.len()]);
        if u32::from_str_radix(crc.trim_end(), 16) != Ok(expected) {
            return Err("its checksum is wrong");
        }
        serde_json::from_str(json).map_err(|_| "its fields make no sense")
    }

    pub(crate) fn read(media: &dyn Media, root: &Path) -> Result<Option<Self>, StoreError> {
        let path = layout::manifest_file(root);
        let Some(bytes) = media.read(&path, limits::LINE).at("read", &path)? else {
            return Ok(None);
        };
        let manifest = Self::parse(&bytes).map_err(|reason| StoreError::DamagedFile {
            path: path.clone(),
            offset: 0,
            reason,
        })?;
        if manifest.format > FORMAT {
            return Err(StoreError::NewerFormat {
                path,
                what: "format",
                got: manifest.format,
                supported: FORMAT,
            });
        }
        Ok(Some(manifest))
    }

    /// Durable once its folder is synced.
    pub(crate) fn write(self, media: &dyn Media, root: &Path) -> Result<(), StoreError> {
        let tmp = layout::engine_folder(root).join("MANIFEST.new");
        let path = layout::manifest_file(root);
        replace_file(media, &tmp, &path, &self.to_bytes(), Some(Site::Manifest))
    }
}

pub(crate) fn is_store(media: &dyn Media, root: &Path) -> Result<bool, StoreError> {
    let path = layout::manifest_file(root);
    Ok(media.stat(&path).at("look at", &path)?.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_it_wrote_and_no_flipped_bit() {
        let manifest = Manifest {
            format: 1,
            uuid: Uuid::from_u128(7),
            generation: 3,
        };
        let good = manifest.to_bytes();
        assert_eq!(Manifest::parse(&good), Ok(manifest));
        for at in 0..good.len() - 1 {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert!(Manifest::parse(&bad).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn parses_any_bytes_as_a_manifest_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Manifest::parse(&bytes);
        }
    }
}
