//! Exceptions as errors of operators.

use isochrony_flow::{Cause, OpError, OpErrorKind};
use pyo3::prelude::*;

use crate::errors::Error;
use crate::interpreter::ActiveRun;

pub(super) fn failed(error: Error) -> OpError {
    OpErrorKind::Failed(cause(error)).into()
}

pub(super) fn cause(error: Error) -> Cause {
    match error {
        Error::Python(error) => {
            ActiveRun::end_this(&error);
            Box::new(error)
        }
        Error::Package(raised) => raised.message().to_owned().into(),
    }
}

pub(super) fn raised(error: PyErr) -> OpError {
    failed(Error::Python(error))
}

pub(super) fn refused(message: String) -> OpError {
    OpErrorKind::Failed(Cause::from(message)).into()
}
