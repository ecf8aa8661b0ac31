//! What an operator that calls a Python function is made of.

use isochrony_flow::{Fields, PlanError, PortType};
use isochrony_segment::DType;

use crate::plan::function::Function;

/// What becomes of what the function returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum FunctionRole {
    /// One bool a window: which of them pass.
    Filter,
    /// Values of this type, so many a window (samples: one each).
    Map(DType, usize),
    /// Nothing.
    Each,
    /// Of a table its columns, by name; the rows have these fields.
    MapRows(Fields),
}

/// Who calls the function in a run on several workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum OnWorkers {
    /// Worker processes, if it can travel there and does not remember.
    Auto,
    /// The workers' threads.
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

/// An operator that calls a Python function.
#[derive(Clone)]
pub(in crate::plan) struct PythonOperator {
    pub(in crate::plan) function: Function,
    pub(in crate::plan) role: FunctionRole,
    /// Counts instead of values in the unit.
    pub(in crate::plan) counts: bool,
    pub(in crate::plan) on_workers: OnWorkers,
    /// It remembers: it is called in order, in one place.
    pub(in crate::plan) sequential: bool,
    /// Makes what it remembers, at the beginning of each stretch without a gap.
    pub(in crate::plan) state: Option<Function>,
    /// Called where a stretch ends.
    pub(in crate::plan) on_break: Option<Function>,
}

impl PythonOperator {
    /// Name in messages and saved plans.
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
