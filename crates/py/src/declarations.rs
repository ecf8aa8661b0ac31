//! Declarations of operators, for the generated methods of `isochrony.Plan`.

use std::sync::{PoisonError, RwLock};

use isochrony_flow::{Catalog, Declaration};
use pyo3::prelude::*;
use serde_json::Value;

static ADDED_OPERATORS: RwLock<Vec<Declaration>> = RwLock::new(Vec::new());

/// Adds operators of another crate, when the extension is initialised. The package refuses names of existing `Plan`
/// methods.
pub fn add_operators(declarations: &[Declaration]) {
    let mut added = ADDED_OPERATORS
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    added.extend_from_slice(declarations);
}

pub(crate) fn catalog() -> Catalog {
    let added = ADDED_OPERATORS
        .read()
        .unwrap_or_else(PoisonError::into_inner);
    let standard = Catalog::standard();
    added
        .iter()
        .copied()
        .fold(standard, Catalog::with_declaration)
}

/// Declarations as a JSON list: of all operators, or only of added ones.
#[pyfunction]
#[pyo3(signature = (added=false))]
pub(crate) fn operator_declarations(added: bool) -> String {
    let listed: Vec<Value> = if added {
        let added = ADDED_OPERATORS
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        added.iter().map(Declaration::to_json).collect()
    } else {
        catalog().iter().map(Declaration::to_json).collect()
    };
    Value::Array(listed).to_string()
}
