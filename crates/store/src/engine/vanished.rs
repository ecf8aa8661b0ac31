//! A store that goes while it is open: its disk is unmounted or pulled out, its folder moved or removed.
//!
//! Files that are open stay readable and mapped, so much goes on working; what fails, fails as a file that is missing.
//! That must not read as damage, which somebody would repair by giving samples up. So whoever is about to change files
//! looks first whether the store is still in its place, and whoever fails for want of a file looks then.

use std::io::ErrorKind;
use std::path::Path;

use uuid::Uuid;

use super::manifest::Manifest;
use crate::error::StoreError;
use crate::layout;
use crate::media::Media;

/// Refuses to go on if the store is not where it was opened.
pub(crate) fn check(
    media: &dyn Media,
    root: &Path,
    action: &'static str,
) -> Result<(), StoreError> {
    match media.stat(&layout::manifest_file(root)) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(vanished(root, action, "its .isochrony/MANIFEST is missing")),
        Err(error) if is_absence(error.kind()) => {
            Err(vanished(root, action, "its folder is out of reach"))
        }
        // For the action itself to meet, and to tell.
        Err(_) => Ok(()),
    }
}

/// The error, or that the store has vanished if that explains it.
pub(crate) fn explain(
    media: &dyn Media,
    root: &Path,
    uuid: Uuid,
    action: &'static str,
    error: StoreError,
) -> StoreError {
    let may_be = match &error {
        StoreError::Io { source, .. } => is_absence(source.kind()),
        StoreError::Remote { kind, .. } => is_absence(*kind),
        StoreError::MissingSamples { .. }
        | StoreError::DamagedFile { .. }
        | StoreError::DamagedTable { .. }
        | StoreError::MissingTable { .. }
        | StoreError::WrongTable { .. }
        | StoreError::MissingFolder { .. }
        | StoreError::WrongShard { .. }
        | StoreError::Undecodable { .. }
        | StoreError::NotAStore { .. }
        | StoreError::Poisoned { .. } => true,
        _ => false,
    };
    if !may_be {
        return error;
    }
    if let Err(gone) = check(media, root, action) {
        return gone;
    }
    match Manifest::read(media, root) {
        Ok(Some(manifest)) if manifest.uuid != uuid => replaced(root, action),
        _ => error,
    }
}

/// Says that another store is where this one was.
pub(crate) fn replaced(root: &Path, action: &'static str) -> StoreError {
    vanished(root, action, "another store is in its place")
}

fn vanished(root: &Path, action: &'static str, reason: &'static str) -> StoreError {
    StoreError::StoreVanished {
        path: root.to_path_buf(),
        action,
        reason,
    }
}

/// Whether an error of the system says that a file or folder is not there: whoever got its path from a state of the store
/// looks at a newer state before that means anything.
pub(crate) fn is_missing(error: &StoreError) -> bool {
    match error {
        StoreError::Io { source, .. } => is_absence(source.kind()),
        StoreError::Remote { kind, .. } => is_absence(*kind),
        _ => false,
    }
}

/// Whether a server failed or refused, or the work was called off while it was waited for: what is asked once more fails once
/// more.
pub(crate) fn is_of_server(error: &StoreError) -> bool {
    match error {
        StoreError::Remote { kind, .. } => !is_absence(*kind),
        StoreError::Interrupted { .. } => true,
        _ => false,
    }
}

/// Whether the system says that something is not there, rather than that it fails.
fn is_absence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::StaleNetworkFileHandle
            | ErrorKind::NotConnected
    )
}
