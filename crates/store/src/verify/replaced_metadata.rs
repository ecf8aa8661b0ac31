//! Keeps metadata that a repair replaces: a store's damaged root `zarr.json` as `.isochrony/zarr.json.damaged`, others
//! that cannot be metadata as `.isochrony/zarr.json.replaced`.
//!
//! The user may still recover attributes from it. The store's count as lost.

use std::path::{Path, PathBuf};

use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::layout::engine_folder;
use crate::media::{Media, Refusal, Site};

const DAMAGED: &str = "zarr.json.damaged";
const REPLACED: &str = "zarr.json.replaced";

fn place(root: &Path, name: &str, number: u64) -> PathBuf {
    let name = match number {
        0 => name.into(),
        _ => format!("{name}.{number}"),
    };
    engine_folder(root).join(name)
}

pub(super) fn count(media: &dyn Media, root: &Path) -> Result<u64, StoreError> {
    count_of(media, root, DAMAGED)
}

/// The first free number. An inaccessible file must not be overwritten.
fn count_of(media: &dyn Media, root: &Path, name: &str) -> Result<u64, StoreError> {
    let mut number = 0;
    loop {
        let path = place(root, name, number);
        match media.stat(&path) {
            Ok(None) => return Ok(number),
            Ok(Some(_)) => {}
            // It may be a link or a pipe.
            Err(error) if is_refused(&error, &path) => {}
            Err(error) => return Err(error).at("look at", &path),
        }
        number += 1;
    }
}

fn is_refused(error: &std::io::Error, path: &Path) -> bool {
    matches!(Refusal::of(error), Some(Refusal::Kind { path: at, .. }) if at == path)
}

/// If this repair is interrupted, the kept root file tells the next one of the loss.
pub(super) fn keep(media: &dyn Media, root: &Path, path: &Path) -> Result<(), StoreError> {
    let name = match path == root.join("zarr.json") {
        true => DAMAGED,
        false => REPLACED,
    };
    let to = place(root, name, count_of(media, root, name)?);
    media.rename(path, &to).at("move", path)?;
    let folder = engine_folder(root);
    media
        .sync_folder(&folder, Site::StoreFolder)
        .at("sync", &folder)
}
