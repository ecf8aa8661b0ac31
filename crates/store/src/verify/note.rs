//! Which losses were reported before a repair began, in a file that stays until that repair has reported its own.
//!
//! A repair that is killed, or that fails behind its commit, leaves samples that have become gaps, and no report that says so.
//! The next repair finds the file and reports them. What the file lists are the events of the kind `samples_lost` as of the
//! beginning: any other is a loss that is still to be reported.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::io::{IoContext, replace_file, unique};
use crate::error::StoreError;
use crate::layout::{engine_folder, tmp_folder};
use crate::media::{Media, Site, limits};

/// Losses that were reported.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reported {
    /// By signal and event.
    pub(super) events: HashSet<(u64, u64)>,
    /// Whether there is one to report that no event tells of: a lost commit that changed a signal that nothing names.
    pub(super) lacks_commit: bool,
}

fn path(root: &Path) -> PathBuf {
    engine_folder(root).join("REPAIR")
}

/// What the note of an unfinished repair lists; `None` if there is none. A note that makes no sense lists nothing: better
/// to report a loss twice than never.
pub(super) fn read(media: &dyn Media, root: &Path) -> Result<Option<Reported>, StoreError> {
    let path = path(root);
    let bytes = media.read(&path, limits::METADATA).at("read", &path)?;
    Ok(bytes.map(|bytes| parse(&bytes).unwrap_or_default()))
}

fn parse(bytes: &[u8]) -> Option<Reported> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (json, crc) = text.split_once('\n')?;
    let expected = crc32c::crc32c(json.as_bytes());
    (u32::from_str_radix(crc.trim_end(), 16) == Ok(expected)).then_some(())?;
    serde_json::from_str(json).ok()
}

/// Writes the note, unless an unfinished repair left one, and makes it durable: before anything is given up.
pub(super) fn write(media: &dyn Media, root: &Path, known: &Reported) -> Result<(), StoreError> {
    let path = path(root);
    match media.stat(&path).at("look at", &path)? {
        Some(_) => Ok(()),
        None => replace(media, root, known),
    }
}

/// Writes the note, whatever was there.
pub(super) fn replace(media: &dyn Media, root: &Path, known: &Reported) -> Result<(), StoreError> {
    let path = path(root);
    let json = serde_json::to_string(known).unwrap_or_default();
    let crc = crc32c::crc32c(json.as_bytes());
    let text = format!("{json}\n{crc:08x}\n");
    let tmp = unique(&tmp_folder(root), "repair");
    let site = Some(Site::ReplacementFile);
    replace_file(media, &tmp, &path, text.as_bytes(), site).inspect_err(|_| {
        let _ = media.remove_file(&tmp);
    })?;
    sync(media, root)
}

/// Removes the note: what was lost has been reported.
pub(super) fn remove(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    let path = path(root);
    if media.stat(&path).at("look at", &path)?.is_none() {
        return Ok(());
    }
    media.remove_file(&path).at("remove", &path)?;
    sync(media, root)
}

fn sync(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    let folder = engine_folder(root);
    let synced = media.sync_folder(&folder, Site::StoreFolder);
    synced.at("sync", &folder)
}
