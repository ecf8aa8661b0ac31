//! The declaration of an operator that calls a Python function.

use isochrony_flow::{Fields, PlanError, PortType};
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum OnWorkers {
    /// Worker processes, if the function is stateless and portable.
    Auto,
    Threads,
    Processes,
    /// The caller's thread, in order.
    Inline,
}

impl OnWorkers {
    const NAMES: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("threads", Self::Threads),
        ("processes", Self::Processes),
        ("inline", Self::Inline),
    ];

    pub(in crate::plan) fn parse(text: &str) -> Result<Self, PlanError> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found
            .map(|&(_, way)| way)
            .ok_or_else(|| PlanError::Unreadable {
                why: format!("a function with on_workers={text:?}"),
            })
    }

    pub(in crate::plan) fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, way)| *way == self);
        found.map_or("auto", |&(name, _)| name)
    }
}

#[derive(Clone)]
pub(in crate::plan) struct PythonOperator {
    pub(in crate::plan) function: Function,
    pub(in crate::plan) role: FunctionRole,
    pub(in crate::plan) counts: bool,
    pub(in crate::plan) on_workers: OnWorkers,
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
