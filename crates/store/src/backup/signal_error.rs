//! Failures of one signal, which do not affect others.

use std::path::Path;

use crate::error::StoreError;
use crate::op::SignalId;

pub(super) struct SignalError {
    pub(super) id: SignalId,
    pub(super) name: String,
    pub(super) error: Box<StoreError>,
}

pub(super) enum CopyError {
    Signal(SignalError),
    Other(Box<StoreError>),
}

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        Self::Other(Box::new(error))
    }
}

impl CopyError {
    pub(super) fn of_signal(source: &Path, id: SignalId, name: &str, error: StoreError) -> Self {
        let error = Box::new(error);
        match is_of_one_signal(&error, source) {
            true => Self::Signal(SignalError {
                id,
                name: name.into(),
                error,
            }),
            false => Self::Other(error),
        }
    }
}

/// I/O errors count if they concern the source: all signals need the backup's disk.
fn is_of_one_signal(error: &StoreError, source: &Path) -> bool {
    match error {
        StoreError::Io { path, .. } => path.starts_with(source),
        // Replaced by a concurrent push.
        StoreError::Remote { path, error, .. } => {
            path.starts_with(source) && error.code == "changed_remotely"
        }
        StoreError::DamagedFile { .. }
        | StoreError::DamagedTable { .. }
        | StoreError::MissingTable { .. }
        | StoreError::WrongTable { .. }
        | StoreError::MissingFolder { .. }
        | StoreError::MissingSamples { .. }
        | StoreError::UnexpectedFile { .. }
        | StoreError::OversizedFile { .. }
        | StoreError::SamplesReplaced { .. }
        | StoreError::WrongShard { .. }
        | StoreError::ForeignShard { .. }
        | StoreError::Undecodable { .. }
        | StoreError::SignalRemoved { .. }
        | StoreError::SignalOverwritten { .. }
        // A signal that was not copied may have the name.
        | StoreError::SignalExists { .. }
        | StoreError::SignalInsideSignal { .. }
        | StoreError::InTheWay { .. } => true,
        _ => false,
    }
}
