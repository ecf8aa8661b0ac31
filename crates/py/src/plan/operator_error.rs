//! Exceptions as errors of operators.

use isochrony_flow::{Cause, OpError, OpErrorKind};
use pyo3::prelude::*;

use crate::errors::Error;

/// An operator's error, the cause of the run's.
pub(super) fn failed(error: Error) -> OpError {
    OpErrorKind::Failed(cause(error)).into()
}

/// The cause of an operator's error.
pub(super) fn cause(error: Error) -> Cause {
    match error {
        Error::Python(error) => Box::new(error),
        Error::Package(raised) => raised.message().to_owned().into(),
    }
}

/// A Python exception as an operator's error.
pub(super) fn raised(error: PyErr) -> OpError {
    failed(Error::Python(error))
}

/// An operator's error with this message.
pub(super) fn refused(message: String) -> OpError {
    OpErrorKind::Failed(Cause::from(message)).into()
}
