//! [`PickledExceptions`]: Python exceptions in messages of a cluster.

use isochrony_flow::{Cause, CauseCodec};
use pyo3::exceptions::PyBaseException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::interpreter::attach;

#[derive(Debug)]
pub(super) struct PickledExceptions;

impl CauseCodec for PickledExceptions {
    fn encode(&self, cause: &Cause) -> Option<Vec<u8>> {
        let error = cause.downcast_ref::<PyErr>()?;
        attach(|py| {
            let pickled = py
                .import("isochrony.cluster")
                .and_then(|module| module.call_method1("pickled_exception", (error.value(py),)));
            pickled.and_then(|pickled| pickled.extract()).ok()?
        })
    }

    fn decode(&self, encoded: &[u8]) -> Option<Cause> {
        attach(|py| {
            let error = py.import("isochrony.cluster").and_then(|module| {
                module.call_method1("unpickled_exception", (PyBytes::new(py, encoded),))
            });
            let error = error.ok()?.cast_into::<PyBaseException>().ok()?;
            Some(Box::new(PyErr::from_value(error.into_any())) as Cause)
        })
    }
}
