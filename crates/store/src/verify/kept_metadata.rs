//! Keeps what a repair replaces: a damaged `zarr.json` of a store's root as `.isochrony/zarr.json.damaged`, any other that
//! cannot be metadata as `.isochrony/zarr.json.replaced`.
//!
//! A person may still recover attributes from it. Those of the store count as lost, since the repair could not read them.

use std::path::{Path, PathBuf};

use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::layout::engine_folder;
use crate::media::{Media, Refusal, Site};

const DAMAGED: &str = "zarr.json.damaged";
const REPLACED: &str = "zarr.json.replaced";

/// The path of the `number`th file that is kept under this name.
fn place(root: &Path, name: &str, number: u64) -> PathBuf {
    let name = match number {
        0 => name.into(),
        _ => format!("{name}.{number}"),
    };
    engine_folder(root).join(name)
}

/// How many damaged files of the root were kept.
pub(super) fn count(media: &dyn Media, root: &Path) -> u64 {
    count_of(media, root, DAMAGED)
}

fn count_of(media: &dyn Media, root: &Path, name: &str) -> u64 {
    let is_there = |number: &u64| match media.stat(&place(root, name, *number)) {
        Ok(found) => found.is_some(),
        // What was kept may be a link or a pipe.
        Err(error) => Refusal::of(&error).is_some(),
    };
    (0..).take_while(is_there).count() as u64
}

/// Moves a file away. That one of the root is there tells the next repair of the loss, if this one is interrupted.
pub(super) fn keep(media: &dyn Media, root: &Path, path: &Path) -> Result<(), StoreError> {
    let name = match path == root.join("zarr.json") {
        true => DAMAGED,
        false => REPLACED,
    };
    let to = place(root, name, count_of(media, root, name));
    media.rename(path, &to).at("move", path)?;
    let folder = engine_folder(root);
    media
        .sync_folder(&folder, Site::StoreFolder)
        .at("sync", &folder)
}
