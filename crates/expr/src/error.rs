//! What can go wrong when an expression is written down, typed or run.

use isochrony_segment::DType;

use crate::{Scalar, Shape};

/// An error of this crate: what happened, where, and how to mend it.
///
/// `at` is the operation in question, written as the user would write it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExprError {
    /// A saved expression without nodes.
    #[error("the expression has no nodes; write at least the input and what is done with it")]
    NoNodes,
    /// A saved expression that is too large.
    #[error("the expression has {nodes} nodes; at most {most} are allowed, so compute it in parts")]
    TooLarge {
        /// Nodes that it has.
        nodes: usize,
        /// Nodes that it may have.
        most: usize,
    },
    /// A name that no operation has.
    #[error("node {node}: unknown operation {name:?}; operations are {}", crate::Op::names().join(", "))]
    UnknownOperation {
        /// Place of the node.
        node: usize,
        /// The name as given.
        name: String,
    },
    /// A node that refers to itself or to a later one.
    #[error(
        "node {node} ({op}): argument {argument} is not an earlier node; write nodes in the order of their use"
    )]
    ForwardReference {
        /// Place of the node.
        node: usize,
        /// Its operation.
        op: &'static str,
        /// The place that it refers to.
        argument: usize,
    },
    /// Too few or too many arguments.
    #[error("node {node} ({op}): takes {expected} arguments, got {got}; give it {expected}")]
    ArgumentCount {
        /// Place of the node.
        node: usize,
        /// Its operation.
        op: &'static str,
        /// Arguments that the operation takes.
        expected: usize,
        /// Arguments that it was given.
        got: usize,
    },
    /// A node without something that its operation needs.
    #[error("node {node} ({op}): lacks \"{field}\"; write it beside \"op\"")]
    MissingField {
        /// Place of the node.
        node: usize,
        /// Its operation.
        op: &'static str,
        /// What is missing.
        field: &'static str,
    },
    /// A node with something that its operation cannot use.
    #[error("node {node} ({op}): has \"{field}\", which only {owner} has; leave it out")]
    StrayField {
        /// Place of the node.
        node: usize,
        /// Its operation.
        op: &'static str,
        /// What is too much.
        field: &'static str,
        /// The operations that have it.
        owner: &'static str,
    },
    /// A text that is no constant.
    #[error(
        "{text:?} is no constant; write True, False, 3, 2.5, nan, inf, -inf or 1.0+2.0j, as in Python"
    )]
    UnknownConstant {
        /// The text as given.
        text: String,
    },
    /// An operation on a dtype that it does not take.
    #[error("{at}: {op} does not take {operands}; {mend}")]
    UnsupportedOperand {
        /// The operation, written out.
        at: String,
        /// Its name.
        op: &'static str,
        /// The dtypes that it was given.
        operands: String,
        /// What to do instead.
        mend: &'static str,
    },
    /// An operation whose result NumPy would give a dtype that signals do not have.
    #[error("{at}: {op} of {operands} is {numpy} in NumPy, which signals cannot have; {mend}")]
    MissingDType {
        /// The operation, written out.
        at: String,
        /// Its name.
        op: &'static str,
        /// The dtypes that it was given.
        operands: String,
        /// The dtype that NumPy gives.
        numpy: &'static str,
        /// What to do instead.
        mend: &'static str,
    },
    /// A reduction of something that is no samples.
    #[error("{at}: {op} reduces the samples of a window, but its operand is {got}; leave {op} out")]
    NeedsSamples {
        /// The operation, written out.
        at: String,
        /// Its name.
        op: &'static str,
        /// What the operand is.
        got: Shape,
    },
    /// An operation with a memory of windows on something that has not one value a window.
    #[error(
        "{at}: {op} follows one value per window, but its operand is {got}; reduce the window first, as in s.mean().{op}(...)"
    )]
    NeedsWindows {
        /// The operation, written out.
        at: String,
        /// Its name.
        op: &'static str,
        /// What the operand is.
        got: Shape,
    },
    /// A parameter that has to be a constant and is none.
    #[error("{at}: {parameter} must be a constant, got {got}; write it as a number")]
    NeedsConstant {
        /// The operation, written out.
        at: String,
        /// The parameter.
        parameter: &'static str,
        /// What the parameter is.
        got: Shape,
    },
    /// A parameter outside its legal range.
    #[error("{at}: {parameter} must be {expected}, got {got}; choose a value in that range")]
    ParameterRange {
        /// The operation, written out.
        at: String,
        /// The parameter.
        parameter: &'static str,
        /// What is legal.
        expected: &'static str,
        /// The value as given.
        got: Scalar,
    },
    /// A constant that does not fit what it is combined with.
    #[error(
        "{at}: {value} does not fit {dtype}, which it takes from the other operand; convert that first, as in s.astype(\"int64\")"
    )]
    ConstantOutOfRange {
        /// The operation, written out.
        at: String,
        /// The constant.
        value: Scalar,
        /// The dtype that it would get.
        dtype: DType,
    },
    /// An expression that is the same for every signal.
    #[error("{at} does not depend on the signal; use the input in the expression")]
    NoInput {
        /// The expression, written out.
        at: String,
    },
    /// A field of rows where there are samples.
    #[error(
        "{at} is a field of rows, but the expression is of samples; use its argument itself, as in s.mean()"
    )]
    FieldOfSamples {
        /// The field, as it is written.
        at: String,
    },
    /// A field that the rows do not have.
    #[error("the rows have no field {field:?}; they have {known}")]
    UnknownField {
        /// The name as given.
        field: String,
        /// Names of the fields that there are.
        known: String,
    },
    /// A field that is no number.
    #[error(
        "field {field:?} has a list in each row, which expressions cannot take; reduce it before it becomes a field"
    )]
    ListField {
        /// Its name.
        field: String,
    },
    /// An operation that rows do not have.
    #[error(
        "{at}: {op} is of samples or windows, not of rows; compute it of the window before it becomes a row, or of groups \
         with group_by"
    )]
    NotOfRows {
        /// The operation, written out.
        at: String,
        /// Its name.
        op: &'static str,
    },
    /// A column that has not as many values as there are rows.
    #[error("column {column} has {got} bytes, {expected} were expected; pass a value for each row")]
    ColumnLength {
        /// Place of the column.
        column: usize,
        /// Bytes that it should have.
        expected: usize,
        /// Bytes that it has.
        got: usize,
    },
    /// Windows that are empty, do not advance or lie outside the samples.
    #[error(
        "{count} windows of {window} samples, one every {hop}, do not lie within {samples} samples; window and hop must be at least 1 and the last window must end within the samples"
    )]
    FramesOutOfBounds {
        /// Samples in a window.
        window: usize,
        /// Samples from one window to the next.
        hop: usize,
        /// Number of windows.
        count: usize,
        /// Samples that there are.
        samples: usize,
    },
    /// Fewer inputs than the expression names, or not as many as it was compiled for.
    #[error("{at} takes {expected} inputs, got {got}; give it one for each")]
    InputCount {
        /// The expression, written out.
        at: String,
        /// Inputs that it takes.
        expected: usize,
        /// Inputs that it was given.
        got: usize,
    },
    /// Windows of inputs that do not fit one another.
    #[error(
        "input {input} has {} windows of {}, where {} of {} were expected; give the same windows of every input, and length 1 \
         where an input has one value a window", got.0, got.1, expected.0, expected.1
    )]
    InputFrames {
        /// Place of the input.
        input: usize,
        /// Windows and their length that the other inputs have.
        expected: (usize, usize),
        /// Windows and their length that it has.
        got: (usize, usize),
    },
    /// Samples of another dtype than the expression was compiled for.
    #[error(
        "the expression was compiled for samples of {expected}, got {got}; compile it for {got}"
    )]
    InputDType {
        /// The dtype that it was compiled for.
        expected: DType,
        /// The dtype of the samples.
        got: DType,
    },
    /// An output of another dtype than the result.
    #[error("the result is {expected}, the output {got}; pass an output of {expected}")]
    OutputDType {
        /// The dtype of the result.
        expected: DType,
        /// The dtype of the output.
        got: DType,
    },
    /// An output that cannot hold the result.
    #[error(
        "the result has {expected} bytes, the output {got}; pass an output of {expected} bytes"
    )]
    OutputLength {
        /// Bytes of the result.
        expected: usize,
        /// Bytes of the output.
        got: usize,
    },
    /// Samples or an output at an address that their dtype does not allow.
    #[error(
        "the {what} of {dtype} does not start at a multiple of {align} bytes; pass an aligned buffer", align = dtype.align()
    )]
    Misaligned {
        /// Samples or output.
        what: &'static str,
        /// Their dtype.
        dtype: DType,
    },
    /// Scratch or state made by another program.
    #[error("the {what} belongs to another program; pass the one that this program made")]
    ForeignScratch {
        /// Scratch or state.
        what: &'static str,
    },
}

impl ExprError {
    /// Stable name of the kind of error, in snake_case.
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
