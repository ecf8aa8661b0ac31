//! [`Step`]: an operation on a chain's accumulator.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A number, repeated in its tile.
    Number(u8),
    /// A saved or converted value.
    Saved(u8),
    /// A block of the chain's own dtype.
    Block(u8),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Load,
    Save,
    Add,
    Sub,
    SubFrom,
    Mul,
    Div,
    DivInto,
    Smaller,
    /// Minimum with a number that is not NaN.
    SmallerNumber,
    SmallerFrom,
    Larger,
    LargerNumber,
    LargerFrom,
    Sqrt,
    Abs,
    Negate,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
    Xor,
    Invert,
    Select,
}

/// One operation; unused operands are arbitrary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) code: Code,
    pub(crate) x: Place,
    pub(crate) other: Place,
}
