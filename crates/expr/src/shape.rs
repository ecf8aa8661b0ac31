use std::fmt;

use isochrony_segment::DType;

/// What has one value each. A result has its operands' largest shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shape {
    /// The whole stream.
    Constant,
    /// A window.
    Window,
    /// A sample.
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

/// Type of an expression's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type {
    /// Element type.
    pub dtype: DType,
    /// Values per sample or per window.
    pub shape: Shape,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.dtype, self.shape)
    }
}
