//! JSON objects between Rust and Python, as text, since attributes and event fields are small.

use pyo3::prelude::*;
use serde_json::{Map, Value};

use crate::errors::{PackageError, Result};

/// NumPy scalars and times become numbers and text.
pub(crate) fn object(owner: &str, mapping: &Bound<'_, PyAny>) -> Result<Map<String, Value>> {
    let text: String = mapping
        .py()
        .import("isochrony.store.attributes")?
        .call_method1("to_json", (mapping,))?
        .extract()?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => Ok(map),
        _ => {
            let message = format!(
                "attributes of {owner} are refused: got {text:.40}; give a dict with text keys"
            );
            Err(PackageError::new("StoreValueError", "invalid_attributes", message).into())
        }
    }
}

pub(crate) fn dict<'py>(py: Python<'py>, map: &Map<String, Value>) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(map).unwrap_or_else(|_| "{}".to_owned());
    loads(py, &text)
}

pub(crate) fn loads<'py>(py: Python<'py>, text: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("json")?.call_method1("loads", (text,))
}
