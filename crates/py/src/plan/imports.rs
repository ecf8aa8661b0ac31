//! Functions that a saved plan may import.

use std::sync::Arc;

use serde_json::Value;

use super::owner::ObjectKeeper;
use super::received_objects::ReceivedObjects;
use crate::errors::{PackageError, Result};

/// None by default: importing a module runs code, and a plan may come from anyone.
#[derive(Debug, Clone, Default)]
pub(super) enum AllowedFunctions {
    #[default]
    None,
    /// These, as `module:name`.
    Named(Vec<String>),
    All,
}

impl AllowedFunctions {
    pub(super) fn contains(&self, name: &str) -> bool {
        match self {
            Self::None => false,
            Self::Named(names) => names.iter().any(|known| known == name),
            Self::All => true,
        }
    }

    /// Refuses a plan that names other functions, before any import.
    pub(super) fn check(&self, saved: &Value) -> Result<()> {
        let nodes = saved.get("nodes").and_then(Value::as_array);
        let mut refused: Vec<&str> = nodes
            .into_iter()
            .flatten()
            .flat_map(|node| {
                [
                    node.pointer("/params/function"),
                    node.pointer("/params/state"),
                    node.pointer("/params/on_break"),
                    node.pointer("/of/generate"),
                ]
            })
            .flatten()
            .filter_map(Value::as_str)
            .filter(|name| !self.contains(name))
            .collect();
        refused.sort_unstable();
        refused.dedup();
        if refused.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the plan calls Python functions, and reading it would import their modules: {}; if you trust them, allow \
             them with allow_functions=True, or with a list of these names",
            refused.join(", ")
        );
        Err(PackageError::new("PlanError", "functions_not_allowed", message).into())
    }
}

#[derive(Clone, Default)]
pub(super) struct Imports {
    pub(super) allowed: AllowedFunctions,
    pub(super) kept: ObjectKeeper,
    pub(super) received: Arc<ReceivedObjects>,
}

impl Imports {
    pub(super) fn new(allowed: AllowedFunctions) -> Self {
        Self {
            allowed,
            ..Self::default()
        }
    }
}
