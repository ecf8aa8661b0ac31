//! What native processors found, as Python objects.

use isochrony_bytes::{Outcome, Value};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// By name: a digest is its text, anything else a dict of its fields.
pub(super) fn results<'py>(
    py: Python<'py>,
    outcomes: &[(String, Outcome)],
) -> PyResult<Bound<'py, PyDict>> {
    let results = PyDict::new(py);
    for (name, outcome) in outcomes {
        let mut fields = outcome.fields();
        if let [("hex", _)] = &*fields
            && let Some((_, digest)) = fields.pop()
        {
            results.set_item(name, object(py, digest)?)?;
            continue;
        }
        let found = PyDict::new(py);
        for (field, value) in fields {
            found.set_item(field, object(py, value)?)?;
        }
        results.set_item(name, found)?;
    }
    Ok(results)
}

fn object(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Int(value) => value.into_pyobject(py)?.into_any(),
        Value::Float(value) => value.into_pyobject(py)?.into_any(),
        Value::Text(value) => value.into_pyobject(py)?.into_any(),
        Value::Bytes(value) => PyBytes::new(py, &value).into_any(),
        Value::List(values) => {
            let values: PyResult<Vec<_>> =
                values.into_iter().map(|value| object(py, value)).collect();
            values?.into_pyobject(py)?.into_any()
        }
    })
}
