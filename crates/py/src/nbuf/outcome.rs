//! Results of native processors for Python.

use isochrony_bytes::{Outcome, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// By processor name: a digest as hexadecimal text, else a dict.
pub(super) fn results<'py>(
    py: Python<'py>,
    outcomes: &[(String, Outcome)],
) -> PyResult<Bound<'py, PyDict>> {
    let results = PyDict::new(py);
    for (name, outcome) in outcomes {
        if let Outcome::Digest(digest) = outcome {
            results.set_item(name, digest.hex())?;
            continue;
        }
        let fields = PyDict::new(py);
        for (field, value) in outcome.fields() {
            fields.set_item(field, to_python(py, value)?)?;
        }
        results.set_item(name, fields)?;
    }
    Ok(results)
}

fn to_python(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(value) => value.into_pyobject(py)?.into_any(),
        Value::Bytes(value) => PyBytes::new(py, &value).into_any(),
        Value::List(values) => {
            let values: PyResult<Vec<_>> = values
                .into_iter()
                .map(|value| to_python(py, value))
                .collect();
            values?.into_pyobject(py)?.into_any()
        }
    })
}
