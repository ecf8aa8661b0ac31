//! Keeps a damaged `zarr.json` of a store's root: a repair moves it to `.isochrony/zarr.json.damaged`.
//!
//! The store's attributes cannot be read from it, but a person may still recover some.

use std::path::{Path, PathBuf};

use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::layout::engine_folder;
use crate::media::{Media, Refusal, Site};

const NAME: &str = "zarr.json.damaged";

/// The path of the `number`th file that is kept.
fn place(root: &Path, number: u64) -> PathBuf {
    let name = match number {
        0 => NAME.into(),
        _ => format!("{NAME}.{number}"),
    };
    engine_folder(root).join(name)
}

/// How many were kept.
pub(super) fn count(media: &dyn Media, root: &Path) -> u64 {
    let is_there = |number: &u64| match media.stat(&place(root, *number)) {
        Ok(found) => found.is_some(),
        // What was kept may be a link or a pipe.
        Err(error) => Refusal::of(&error).is_some(),
    };
    (0..).take_while(is_there).count() as u64
}

/// Moves the damaged file away. That it is there tells the next repair of the loss, if this one is interrupted.
pub(super) fn keep(media: &dyn Media, root: &Path) -> Result<(), StoreError> {
    let from = root.join("zarr.json");
    let to = place(root, count(media, root));
    media.rename(&from, &to).at("move", &from)?;
    let folder = engine_folder(root);
    media
        .sync_folder(&folder, Site::StoreFolder)
        .at("sync", &folder)
}
