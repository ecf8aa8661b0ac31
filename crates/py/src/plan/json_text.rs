//! JSON text of plans and parameters.

use isochrony_flow::PlanError;
use serde_json::{Map, Value};

use crate::errors::{PackageError, Result};

pub(super) fn parse(text: &str) -> Result<Value> {
    Ok(
        serde_json::from_str(text).map_err(|why| PlanError::Unreadable {
            why: format!("it is not valid JSON: {why}"),
        })?,
    )
}

pub(super) fn parameters(operator: &str, text: &str) -> Result<Map<String, Value>> {
    match parse(text)? {
        Value::Object(map) => Ok(map),
        _ => Err(PackageError::new(
            "PlanError",
            "parameter",
            format!("parameters of {operator} are not an object; give them by name"),
        )
        .into()),
    }
}
