//! How many values a node has.

use std::fmt;

use isochrony_segment::DType;

/// What a value belongs to. An operation's result belongs to the most of its operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// The same always.
    Constant,
    /// One value per window.
    Window,
    /// One value per sample.
    Sample,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Constant => "a constant",
            Self::Window => "one value per window",
            Self::Sample => "samples",
        })
    }
}

/// What an expression gives for samples of a given dtype.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type of the result.
    pub dtype: DType,
    /// Values per sample or per window.
    pub shape: Shape,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.dtype, self.shape)
    }
}
