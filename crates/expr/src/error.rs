//! Errors of expressions.

use isochrony_segment::DType;

use crate::{Scalar, Shape};

/// An invalid expression or run. `at` is the operation in Python's notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExprError {
    /// A saved expression without nodes.
    #[error("the expression has no nodes; give at least the input and one operation")]
    NoNodes,
    /// A saved expression that is too large.
    #[error("the expression has {nodes} nodes; at most {most} are allowed, so compute it in parts")]
    TooLarge {
        /// Number of nodes.
        nodes: usize,
        /// Maximum number of nodes.
        most: usize,
    },
    /// An unknown operation.
    #[error("node {node}: unknown operation {name:?}; operations are {}", crate::Op::names().join(", "))]
    UnknownOperation {
        /// Node.
        node: usize,
        /// Name.
        name: String,
    },
    /// A reference to this or a later node.
    #[error(
        "node {node} ({op}): argument {argument} is not an earlier node; write nodes in the order of their use"
    )]
    ForwardReference {
        /// Node.
        node: usize,
        /// Operation.
        op: &'static str,
        /// Node referred to.
        argument: usize,
    },
    /// A wrong number of arguments.
    #[error("node {node} ({op}): takes {expected} arguments, got {got}; give it {expected}")]
    ArgumentCount {
        /// Node.
        node: usize,
        /// Operation.
        op: &'static str,
        /// Arguments needed.
        expected: usize,
        /// Arguments given.
        got: usize,
    },
    /// A node without a required field.
    #[error("node {node} ({op}): lacks \"{field}\"; add it beside \"op\"")]
    MissingField {
        /// Node.
        node: usize,
        /// Operation.
        op: &'static str,
        /// Missing field.
        field: &'static str,
    },
    /// A field that the operation does not have.
    #[error("node {node} ({op}): has \"{field}\", which only {owner} has; leave it out")]
    StrayField {
        /// Node.
        node: usize,
        /// Operation.
        op: &'static str,
        /// Extra field.
        field: &'static str,
        /// Operations that have it.
        owner: &'static str,
    },
    /// Text that is not a constant.
    #[error(
        "{text:?} is not a constant; write True, False, 3, 2.5, nan, inf, -inf or 1.0+2.0j, as in Python"
    )]
    UnknownConstant {
        /// The text.
        text: String,
    },
    /// A dtype that the operation does not support.
    #[error("{at}: {op} does not take {operands}; {mend}")]
    UnsupportedOperand {
        /// Where.
        at: String,
        /// Operation.
        op: &'static str,
        /// Dtypes of the operands.
        operands: String,
        /// Remedy.
        mend: &'static str,
    },
    /// A result of a dtype that signals cannot have.
    #[error(
        "{at}: {op} of {operands} is {numpy} in NumPy, a type that signals cannot have; {mend}"
    )]
    MissingDType {
        /// Where.
        at: String,
        /// Operation.
        op: &'static str,
        /// Dtypes of the operands.
        operands: String,
        /// NumPy's dtype.
        numpy: &'static str,
        /// Remedy.
        mend: &'static str,
    },
    /// A reduction of something other than samples.
    #[error("{at}: {op} reduces the samples of a window, but its operand is {got}; leave {op} out")]
    NeedsSamples {
        /// Where.
        at: String,
        /// Operation.
        op: &'static str,
        /// Shape of the operand.
        got: Shape,
    },
    /// A stateful operation on something other than one value per window.
    #[error(
        "{at}: {op} follows one value per window, but its operand is {got}; reduce the window first, as in s.mean().{op}(...)"
    )]
    NeedsWindows {
        /// Where.
        at: String,
        /// Operation.
        op: &'static str,
        /// Shape of the operand.
        got: Shape,
    },
    /// A parameter that is not a constant.
    #[error("{at}: {parameter} must be a constant, got {got}; write it as a number")]
    NeedsConstant {
        /// Where.
        at: String,
        /// Parameter.
        parameter: &'static str,
        /// Its shape.
        got: Shape,
    },
    /// A parameter out of range.
    #[error("{at}: {parameter} must be {expected}, got {got}; choose a value in that range")]
    ParameterRange {
        /// Where.
        at: String,
        /// Parameter.
        parameter: &'static str,
        /// Legal range.
        expected: &'static str,
        /// Value.
        got: Scalar,
    },
    /// A constant outside the dtype of the other operand.
    #[error(
        "{at}: {value} does not fit {dtype}, the type of the other operand; convert that operand first, as in s.astype(\"int64\")"
    )]
    ConstantOutOfRange {
        /// Where.
        at: String,
        /// Constant.
        value: Scalar,
        /// Dtype.
        dtype: DType,
    },
    /// An expression independent of the signal.
    #[error("{at} does not depend on the signal; use the input in the expression")]
    NoInput {
        /// The expression.
        at: String,
    },
    /// A field of rows among samples.
    #[error(
        "{at} is a field of rows, but the expression computes on samples; use the argument of the function itself, as in s.mean()"
    )]
    FieldOfSamples {
        /// The field.
        at: String,
    },
    /// A field that the rows do not have.
    #[error("the rows have no field {field:?}; they have {known}")]
    UnknownField {
        /// Name.
        field: String,
        /// Existing fields.
        known: String,
    },
    /// A field that is not a number.
    #[error(
        "field {field:?} has a list in each row, which expressions cannot take; reduce it before it becomes a field"
    )]
    ListField {
        /// Name.
        field: String,
    },
    /// An operation that rows do not support.
    #[error(
        "{at}: {op} works on samples or windows, not on rows; compute it from the window before it becomes a row, or from groups \
         with group_by"
    )]
    NotOfRows {
        /// Where.
        at: String,
        /// Operation.
        op: &'static str,
    },
    /// A column whose length is not the number of rows.
    #[error("column {column} has {got} bytes, expected {expected}; pass a value for each row")]
    ColumnLength {
        /// Index of the column.
        column: usize,
        /// Bytes expected.
        expected: usize,
        /// Bytes given.
        got: usize,
    },
    /// Windows that are empty, do not advance or exceed the samples.
    #[error(
        "{count} windows of {window} samples, one every {hop}, do not lie within {samples} samples; window and hop must be at least 1 and the last window must end within the samples"
    )]
    FramesOutOfBounds {
        /// Samples per window.
        window: usize,
        /// Samples between window starts.
        hop: usize,
        /// Number of windows.
        count: usize,
        /// Number of samples.
        samples: usize,
    },
    /// A wrong number of inputs.
    #[error("{at} takes {expected} inputs, got {got}; give it one for each")]
    InputCount {
        /// The expression.
        at: String,
        /// Inputs expected.
        expected: usize,
        /// Inputs given.
        got: usize,
    },
    /// Inputs with different windows.
    #[error(
        "input {input} has {} windows of {}, expected {} of {}; give the same windows of every input, and length 1 \
         where an input has one value a window", got.0, got.1, expected.0, expected.1
    )]
    InputFrames {
        /// Index of the input.
        input: usize,
        /// Number and length of windows expected.
        expected: (usize, usize),
        /// Number and length of windows given.
        got: (usize, usize),
    },
    /// Samples of a wrong dtype.
    #[error(
        "the expression was compiled for samples of {expected}, got {got}; compile it for {got}"
    )]
    InputDType {
        /// Dtype expected.
        expected: DType,
        /// Dtype given.
        got: DType,
    },
    /// An output of a wrong dtype.
    #[error("the result is {expected}, the output {got}; pass an output of {expected}")]
    OutputDType {
        /// Dtype of the result.
        expected: DType,
        /// Dtype of the output.
        got: DType,
    },
    /// An output of a wrong length.
    #[error(
        "the result has {expected} bytes, the output {got}; pass an output of {expected} bytes"
    )]
    OutputLength {
        /// Bytes of the result.
        expected: usize,
        /// Bytes of the output.
        got: usize,
    },
    /// Misaligned samples or output.
    #[error(
        "the {what} of {dtype} does not start at a multiple of {align} bytes; pass an aligned buffer", align = dtype.align()
    )]
    Misaligned {
        /// Samples or output.
        what: &'static str,
        /// Dtype.
        dtype: DType,
    },
    /// Scratch or state of another program.
    #[error("the {what} belongs to another program; pass the one that this program created")]
    ForeignScratch {
        /// Scratch or state.
        what: &'static str,
    },
}

impl ExprError {
    /// Stable snake_case name of the variant.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoNodes => "no_nodes",
            Self::TooLarge { .. } => "too_large",
            Self::UnknownOperation { .. } => "unknown_operation",
            Self::ForwardReference { .. } => "forward_reference",
            Self::ArgumentCount { .. } => "argument_count",
            Self::MissingField { .. } => "missing_field",
            Self::StrayField { .. } => "stray_field",
            Self::UnknownConstant { .. } => "unknown_constant",
            Self::UnsupportedOperand { .. } => "unsupported_operand",
            Self::MissingDType { .. } => "missing_dtype",
            Self::NeedsSamples { .. } => "needs_samples",
            Self::NeedsWindows { .. } => "needs_windows",
            Self::NeedsConstant { .. } => "needs_constant",
            Self::ParameterRange { .. } => "parameter_range",
            Self::ConstantOutOfRange { .. } => "constant_out_of_range",
            Self::NoInput { .. } => "no_input",
            Self::FieldOfSamples { .. } => "field_of_samples",
            Self::UnknownField { .. } => "unknown_field",
            Self::ListField { .. } => "list_field",
            Self::NotOfRows { .. } => "not_of_rows",
            Self::ColumnLength { .. } => "column_length",
            Self::FramesOutOfBounds { .. } => "frames_out_of_bounds",
            Self::InputCount { .. } => "input_count",
            Self::InputFrames { .. } => "input_frames",
            Self::InputDType { .. } => "input_dtype",
            Self::OutputDType { .. } => "output_dtype",
            Self::OutputLength { .. } => "output_length",
            Self::Misaligned { .. } => "misaligned",
            Self::ForeignScratch { .. } => "foreign_scratch",
        }
    }
}
