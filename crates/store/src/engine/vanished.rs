//! Detects that an open store has vanished: unmounted, unplugged, moved or removed.
//!
//! Open files stay readable and mapped, so some calls fail as if a file were missing. A repair would take that for
//! damage and give samples up. So the store's place is checked before changing files, and after an error of a missing
//! file.

use std::io::ErrorKind;
use std::path::Path;

use uuid::Uuid;

use super::manifest::Manifest;
use crate::error::StoreError;
use crate::layout;
use crate::media::Media;

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
        Err(_) => Ok(()),
    }
}

/// Replaces the error if the store has vanished.
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

/// Whether a file or folder is missing. If the path came from an older state, check a newer one first.
pub(crate) fn is_missing(error: &StoreError) -> bool {
    match error {
        StoreError::Io { source, .. } => is_absence(source.kind()),
        StoreError::Remote { kind, .. } => is_absence(*kind),
        _ => false,
    }
}

/// Whether a server failed or refused, or an interrupt ended the wait: a retry fails too.
pub(crate) fn is_of_server(error: &StoreError) -> bool {
    match error {
        StoreError::Remote { kind, .. } => !is_absence(*kind),
        StoreError::Interrupted { .. } => true,
        _ => false,
    }
}

fn is_absence(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::StaleNetworkFileHandle
            | ErrorKind::NotConnected
    )
}
