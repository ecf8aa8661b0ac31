//! Operators: each is one struct, one declaration, one `process`.

/// Exports a family's operators and lists their declarations.
macro_rules! register {
    ($($module:ident: $($Operator:ident),*;)*) => {
        $(pub use $module::{$($Operator),*};)*

        pub(crate) const DECLARATIONS: &[crate::Declaration] =
            &[$($(<$Operator as crate::OperatorType>::DECLARATION),*),*];
    };
}

mod builder;
mod calibration;
mod correlation;
mod detection;
mod fan_in;
mod filters;
mod general;
pub(crate) mod rows;
mod spectral;
mod windows;

pub use calibration::*;
pub use correlation::*;
pub use detection::*;
pub use fan_in::*;
pub use filters::*;
pub use general::*;
pub use rows::*;
pub use spectral::*;
pub use windows::*;

pub use fan_in::zip::one_grid;
pub(crate) use general::compiled::CompiledExpr;
pub use general::each::ForEach;
pub use general::user_code::{dtype_in_unit, forward_where, in_unit};
pub use windows::stat::Stat;
pub(crate) use windows::whole_stats::partial_of_view;

use isochrony_dsp::DspError;

use crate::{Declaration, PlanError, PortType};

pub(crate) const FAMILIES: &[&[Declaration]] = &[
    calibration::DECLARATIONS,
    correlation::DECLARATIONS,
    detection::DECLARATIONS,
    fan_in::DECLARATIONS,
    filters::DECLARATIONS,
    general::DECLARATIONS,
    rows::DECLARATIONS,
    spectral::DECLARATIONS,
    windows::DECLARATIONS,
];

pub(crate) fn wrong_input(
    operator: &'static str,
    expected: &'static str,
    got: &PortType,
    mend: &'static str,
) -> PlanError {
    PlanError::InputType {
        operator,
        expected,
        got: got.to_string(),
        mend,
    }
}

/// Kernels name parameters as operators do.
pub(crate) fn kernel_error(operator: &'static str, error: DspError) -> PlanError {
    match error {
        DspError::Parameter {
            parameter,
            got,
            allowed,
            ..
        } => PlanError::Parameter {
            operator,
            parameter,
            got,
            legal: allowed,
        },
        other => other.into(),
    }
}
