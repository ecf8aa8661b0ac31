//! Failures of a backup that concern one signal, so that all others are backed up.

use std::path::Path;

use crate::error::StoreError;
use crate::op::SignalId;

/// A signal that could not be compared or copied, and why.
pub(super) struct SignalError {
    pub(super) id: SignalId,
    pub(super) name: String,
    pub(super) error: Box<StoreError>,
}

/// Why a copy ended early.
pub(super) enum CopyError {
    /// Because of one signal alone.
    Signal(SignalError),
    Other(Box<StoreError>),
}

impl From<StoreError> for CopyError {
    fn from(error: StoreError) -> Self {
        Self::Other(Box::new(error))
    }
}

impl CopyError {
    /// The failure of a step that was done for one signal of the store at `source`.
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

/// Whether the error says what is wrong with one signal's files or names. A system error is one if it concerns a file of the
/// source: the disk of the backup is needed by all signals.
fn is_of_one_signal(error: &StoreError, source: &Path) -> bool {
    match error {
        StoreError::Io { path, .. } => path.starts_with(source),
        // An object that a push replaced meanwhile.
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
        // In the backup, a signal that could not be copied may have the name.
        | StoreError::SignalExists { .. }
        | StoreError::SignalInsideSignal { .. }
        | StoreError::InTheWay { .. } => true,
        _ => false,
    }
}
