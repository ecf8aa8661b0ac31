//! Names and units of statistics.

use std::fmt;
use std::str::FromStr;

use crate::PlanError;

/// A statistic of a window's finite samples; of magnitudes if complex.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stat {
    /// Smallest sample.
    Min,
    /// Largest sample.
    Max,
    /// Number of finite samples.
    Count,
    /// Arithmetic mean.
    Mean,
    /// Population standard deviation, as NumPy's `std`.
    Std,
    /// Population variance.
    Var,
    /// Root of the mean square.
    Rms,
}

impl Stat {
    /// Every statistic.
    pub const ALL: [Self; 7] = [
        Self::Min,
        Self::Max,
        Self::Count,
        Self::Mean,
        Self::Std,
        Self::Var,
        Self::Rms,
    ];
    /// Names, in the same order.
    pub const NAMES: [&'static str; 7] = ["min", "max", "count", "mean", "std", "var", "rms"];

    /// The name that [`FromStr`] reads.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    pub(super) fn unit(self, unit: &str) -> String {
        match self {
            Self::Count => String::new(),
            Self::Var if !unit.is_empty() => format!("({unit})^2"),
            _ => unit.into(),
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Stat {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let known = Self::ALL.into_iter().find(|stat| stat.name() == text);
        known.ok_or_else(|| parameter_error(text))
    }
}

pub(super) fn parameter_error(got: &str) -> PlanError {
    PlanError::Parameter {
        operator: "stats",
        parameter: "names",
        got: got.into(),
        legal: format!("one or more of {}, each once", Stat::NAMES.join(", ")),
    }
}
