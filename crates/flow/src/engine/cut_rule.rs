//! [`CutRule`]: what decides where a plan is cut into stages, instead of the costs that operators declare.
//! [`CutOrigin`]: where the cuts of a run come from.

/// By node of the plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct CutRule {
    /// Number of the stage; None: cuts follow the costs.
    pub(crate) stage_of: Option<Vec<usize>>,
    /// Measured nanoseconds per sample of the fastest source; None: declared costs.
    pub(crate) costs_ns: Option<Vec<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CutOrigin {
    /// Declared costs decide.
    #[default]
    Declared,
    /// Measured costs decide, where all operators were measured.
    Measured,
    /// A configuration states the cuts.
    Given,
}
