//! The declaration of an operator that calls a Python function.

use isochrony_flow::{Fields, FunctionPlace, PlanError, PortType};
use isochrony_segment::DType;

use crate::plan::function::Function;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum FunctionRole {
    /// One bool per window.
    Filter,
    /// Dtype and width: a number per window, or one per sample.
    Map(DType, usize),
    Each,
    /// Columns by name, with these fields.
    MapRows(Fields),
}

/// The value of `on_workers=`.
pub(in crate::plan) fn parse_place(text: &str) -> Result<FunctionPlace, PlanError> {
    FunctionPlace::parse(text).ok_or_else(|| PlanError::Unreadable {
        why: format!("a function with on_workers={text:?}"),
    })
}

#[derive(Clone)]
pub(in crate::plan) struct PythonOperator {
    pub(in crate::plan) function: Function,
    pub(in crate::plan) role: FunctionRole,
    pub(in crate::plan) counts: bool,
    pub(in crate::plan) on_workers: FunctionPlace,
    /// The run chose `on_workers` instead of "any".
    pub(in crate::plan) is_placed: bool,
    /// Stateful: called in order, in one thread or process.
    pub(in crate::plan) sequential: bool,
    /// Creates the state of each gap-free range.
    pub(in crate::plan) state: Option<Function>,
    pub(in crate::plan) on_break: Option<Function>,
}

impl PythonOperator {
    pub(in crate::plan) fn operator_name(&self) -> &'static str {
        if self.role == FunctionRole::Each {
            "each"
        } else {
            "py"
        }
    }

    pub(in crate::plan) fn wrong_input(
        &self,
        port: &PortType,
        expected: &'static str,
    ) -> PlanError {
        PlanError::InputType {
            operator: self.operator_name(),
            expected,
            got: port.to_string(),
            mend: "put rewindow(...) before it",
        }
    }
}
