//! [`CutRule`]: what decides where a plan is cut into stages, instead of the costs that operators declare.

/// By node of the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CutRule {
    /// Number of the stage; None: cuts follow the costs.
    pub(crate) stage_of: Option<Vec<usize>>,
    /// Measured nanoseconds per sample of the fastest source; None: declared costs.
    pub(crate) costs_ns: Option<Vec<f64>>,
}
