//! Identity files: the signal that a folder belongs to, whatever its name.
//!
//! The file is in `data`, or in `crc` if there is one: replacing the array `data` replaces its whole folder.

use std::io;
use std::path::{Path, PathBuf};

use crate::layout::{IDENTITY, IDENTITY_BESIDE_DATA, parse_identity};
use crate::media::{Kind, Media, limits};
use crate::op::SignalId;

/// `None` without a signal, or if the two files disagree. Both are read, so that a foreign entry is noticed.
pub(crate) fn read(media: &dyn Media, folder: &Path) -> io::Result<Option<SignalId>> {
    let mut id = None;
    for inside in [IDENTITY, IDENTITY_BESIDE_DATA] {
        let bytes = media.read(&folder.join(inside), limits::LINE)?;
        let Some(found) = bytes.as_deref().and_then(parse_identity) else {
            continue;
        };
        if id.is_some_and(|id| id != found) {
            return Ok(None);
        }
        id = Some(found);
    }
    Ok(id)
}

/// Missing or wrong identity file; `None` if the folder is this signal's, another's, or without samples.
pub(crate) fn damaged(media: &dyn Media, folder: &Path, id: SignalId) -> Option<PathBuf> {
    let is_folder = |name| matches!(media.stat(&folder.join(name)), Ok(Some(Kind::Folder)));
    let is_other = matches!(read(media, folder), Ok(Some(_)));
    if is_of(media, folder, id) || is_other || !is_folder("data") {
        return None;
    }
    let inside = match is_folder("crc") {
        true => IDENTITY_BESIDE_DATA,
        false => IDENTITY,
    };
    Some(folder.join(inside))
}

pub(crate) fn is_of(media: &dyn Media, folder: &Path, id: SignalId) -> bool {
    matches!(read(media, folder), Ok(Some(found)) if found == id)
}
