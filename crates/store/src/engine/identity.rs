//! Identity files: which signal a folder belongs to, whatever its name.
//!
//! The file lies in `data`, or in `crc` of a signal that has that array. What replaces the array `data` replaces its whole
//! folder, so a signal gets the file in `crc` before that.

use std::io;
use std::path::{Path, PathBuf};

use crate::layout::{IDENTITY, IDENTITY_BESIDE_DATA, parse_identity};
use crate::media::{Kind, Media, limits};
use crate::op::SignalId;

/// The signal that a folder is of; `None` if it is of none, or if the two files contradict each other. Both are looked at:
/// what is in the place of one must not go unnoticed because of the other.
///
/// # Errors
/// What the system says of a file that is there.
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

/// The identity file that a folder lacks, or in which it says something else; `None` if the folder is of this signal, is
/// another signal's, or holds no samples.
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

/// Whether a folder is of a signal.
pub(crate) fn is_of(media: &dyn Media, folder: &Path, id: SignalId) -> bool {
    matches!(read(media, folder), Ok(Some(found)) if found == id)
}
