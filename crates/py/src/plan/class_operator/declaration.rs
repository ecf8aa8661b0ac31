//! Declaration of an operator that is a Python class.

use serde_json::{Map, Value};

use crate::plan::function::Function;

#[derive(Clone)]
pub(in crate::plan) struct ClassOperator {
    /// An `isochrony.functions.operators.Factory`, with the class's import name.
    pub(super) factory: Function,
    /// Parameters for saved plans; None if they are not JSON.
    pub(super) params: Option<Map<String, Value>>,
}

impl ClassOperator {
    pub(in crate::plan) const NAME: &'static str = "operator";

    pub(in crate::plan) fn new(factory: Function, params: Option<Map<String, Value>>) -> Self {
        Self { factory, params }
    }
}
