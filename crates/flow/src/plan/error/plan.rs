//! Why a plan cannot be made.

use isochrony_store::StoreError;

/// Why a plan cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Parameters of operators that run on several cores cannot be changed.
    #[error(
        "workers={workers}: parameters are changed while a plan runs in one thread only; leave out control, or set workers to 1"
    )]
    ControlNeedsOneWorker {
        /// Workers that were asked for.
        workers: usize,
    },
    /// No operator has this name.
    #[error("no operator is called {name:?}; choose from {known}")]
    UnknownOperator {
        /// The name as given.
        name: String,
        /// Names that exist.
        known: String,
    },
    /// An operator got the wrong number of inputs.
    #[error("{operator} takes {expected} input(s), got {got}; connect as many")]
    Inputs {
        /// Name of the operator.
        operator: &'static str,
        /// How many it takes.
        expected: String,
        /// How many were connected.
        got: usize,
    },
    /// An input has a type that the operator cannot process.
    #[error("{operator} needs {expected} but its input is {got}; {mend}")]
    InputType {
        /// Name of the operator.
        operator: &'static str,
        /// What it takes.
        expected: &'static str,
        /// What it was given.
        got: String,
        /// What to do.
        mend: &'static str,
    },
    /// Inputs that do not fit one another.
    #[error("{operator}: input 0 is {first} but input {port} is {other}; {mend}")]
    InputsDiffer {
        /// Name of the operator.
        operator: &'static str,
        /// Type of the first input.
        first: String,
        /// Number of the other.
        port: usize,
        /// Its type.
        other: String,
        /// What to do.
        mend: &'static str,
    },
    /// A parameter that does not exist.
    #[error("{operator} has no parameter {parameter:?}; it takes {known}")]
    UnknownParameter {
        /// Name of the operator.
        operator: &'static str,
        /// The parameter as given.
        parameter: String,
        /// Parameters that exist.
        known: String,
    },
    /// A parameter without a default that was not given.
    #[error("{operator} needs {parameter} ({doc}); give {parameter}=")]
    MissingParameter {
        /// Name of the operator.
        operator: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What it is.
        doc: &'static str,
    },
    /// A parameter outside its legal range or of the wrong type.
    #[error("{operator}: {parameter}={got} must be {legal}; change {parameter}")]
    Parameter {
        /// Name of the operator.
        operator: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        got: String,
        /// What is legal.
        legal: String,
    },
    /// A size that follows from a parameter and that there is no memory for.
    #[error(
        "{operator}{}: {parameter}={value} needs {bytes} bytes of tables, but {limit} bytes {limited_by}; make {parameter} \
         smaller{}",
        node.map_or(String::new(), |node| format!(" (node {node})")),
        if node.is_some() { ", or raise memory=" } else { "" }
    )]
    TooLarge {
        /// Name of the operator.
        operator: &'static str,
        /// Its number in the plan that was to run.
        node: Option<usize>,
        /// The parameter that the size follows from.
        parameter: &'static str,
        /// Its value.
        value: u64,
        /// Bytes that are needed.
        bytes: u64,
        /// Bytes that there are.
        limit: u64,
        /// What has no more of them.
        limited_by: &'static str,
    },
    /// An expression that cannot be computed of this input.
    #[error("{operator}: {error}")]
    Expression {
        /// Name of the operator.
        operator: &'static str,
        /// What is wrong with it.
        error: isochrony_expr::ExprError,
    },
    /// Parameters of which no filter, window or detector can be made.
    #[error(transparent)]
    Dsp(#[from] isochrony_dsp::DspError),
    /// Two fields of rows with one name.
    #[error(
        "{operator}: two fields would be called {field:?}; give one of them another name (windows bring start, end and, \
         where it is known, time)"
    )]
    FieldTwice {
        /// Name of the operator.
        operator: &'static str,
        /// The name.
        field: String,
    },
    /// A field that the rows do not have.
    #[error("{operator}: the rows have no field {field:?}; they have {known}")]
    UnknownField {
        /// Name of the operator.
        operator: &'static str,
        /// The name as given.
        field: String,
        /// Fields that there are.
        known: String,
    },
    /// A filter's expression that is not one bool per window.
    #[error("filter takes one bool per window, got {expression}; {mend}")]
    Predicate {
        /// The expression and its type.
        expression: String,
        /// What to do.
        mend: &'static str,
    },
    /// Something that lives in this process only was to be saved, or was not there when a saved plan was built.
    #[error("{operator} holds {what}, which is not part of a saved plan; {mend}")]
    NotSaveable {
        /// Name of the operator.
        operator: String,
        /// What it holds.
        what: &'static str,
        /// What to do.
        mend: &'static str,
    },
    /// A saved plan that is no plan.
    #[error("the plan cannot be read: {why}; save it again with this version")]
    Unreadable {
        /// What is wrong where.
        why: String,
    },
    /// An operator of the user's own that refuses its inputs, or fails to say what comes of them.
    #[error("{operator} cannot be part of this plan: {why}; mend it, or give it other inputs")]
    Refused {
        /// The operator, as it prints.
        operator: String,
        /// What it said.
        why: String,
    },
    /// A recording that a saved plan names and that is not there.
    #[error(
        "the plan reads {recording}, which cannot be opened: {why}; put it back, or name another store"
    )]
    NoRecording {
        /// Name of the recording.
        recording: String,
        /// Why it cannot be opened.
        why: String,
    },
    /// A recording that a saved plan names and that is there, but cannot be read.
    #[error("the plan reads {recording}, which is there and cannot be opened: {why}")]
    DamagedRecording {
        /// Name of the recording.
        recording: String,
        /// Why it cannot be opened, and what to do about it.
        why: String,
    },
    /// Signals that were said to be sampled by one clock, and are not.
    #[error(
        "{signal} does not have the clock of {other}: {why}; scan it without clock=, and bring it onto the other's samples \
         with align"
    )]
    OtherClock {
        /// Name of the signal.
        signal: String,
        /// The signal whose clock it was to have.
        other: String,
        /// In what they differ.
        why: String,
    },
    /// A plan that would write to a signal that it reads.
    #[error(
        "{operator} would write to {signal:?}, which the plan reads; write to a signal of another name"
    )]
    WritesItsInput {
        /// Name of the operator.
        operator: &'static str,
        /// Name of the signal.
        signal: String,
    },
    /// A parameter that may not change while the plan runs.
    #[error(
        "{operator} runs with the {parameter} that it began with; adjustable of {operator}: {adjustable}. Stop the run and \
         build the plan anew"
    )]
    NotAdjustable {
        /// Name of the operator.
        operator: &'static str,
        /// The parameter as given.
        parameter: String,
        /// Parameters that may change.
        adjustable: String,
    },
    /// A control of a run that was given to another one at the same time.
    #[error(
        "this control belongs to a run that has not ended; give every run at the same time a control of its own"
    )]
    ControlInUse,
    /// A change of an operator that does not run.
    #[error(
        "this {operator} is not part of the plan that runs; name the plan that ends in it, as it was built"
    )]
    NotRunning {
        /// Name of the operator.
        operator: &'static str,
    },
    /// A change after which other operators would not fit.
    #[error(
        "{operator} would change more than itself: it {what}; keep type and form of what it computes, or stop the run and \
         build the plan anew"
    )]
    ChangesPlan {
        /// Name of the operator.
        operator: &'static str,
        /// What would change.
        what: String,
    },
    /// Samples of a merge, some of which its inputs have in common, where stretches are needed.
    #[error(
        "{operator} needs samples that follow one another, but is behind a merge whose inputs {first} and {second} may both \
         have {common}, which then come in turn; put {operator} before the merge, on each of its inputs, or merge ranges \
         that have nothing in common"
    )]
    IndicesRepeat {
        /// Name of the operator.
        operator: &'static str,
        /// Number of an input of the merge.
        first: usize,
        /// Of another.
        second: usize,
        /// What both may have.
        common: String,
    },
    /// A loop in which windows may get lost, so that it could not go on.
    #[error(
        "feedback cannot make progress: {operator} in its loop may leave windows out, and each is waited for; feed back a \
         value for every window, as map gives it, and filter what comes out"
    )]
    LoopMayStall {
        /// Name of the operator.
        operator: &'static str,
    },
    /// What is fed back, used outside of its loop, or a loop that is closed twice.
    #[error(
        "a loop has {closed} ends, so nothing or too much is fed back; use what feedback's function is given in what it \
         returns, and nowhere else alone"
    )]
    LoopNotClosed {
        /// How many `feedback` operators end it.
        closed: usize,
    },
    /// An output that the operator does not have.
    #[error("{operator} has {have} output(s), so there is no output {got}; choose 0 to {}", have - 1)]
    NoSuchOutput {
        /// Name of the operator.
        operator: &'static str,
        /// How many there are.
        have: usize,
        /// The one asked for.
        got: u16,
    },
}

impl PlanError {
    /// That of a recording which a saved plan names and a store does not give.
    #[must_use]
    pub fn recording(name: &str, why: &StoreError) -> Self {
        let (recording, said) = (name.to_owned(), why.to_string());
        match why {
            StoreError::NotAStore { .. } | StoreError::NoSuchSignal { .. } => Self::NoRecording {
                recording,
                why: said,
            },
            _ => Self::DamagedRecording {
                recording,
                why: said,
            },
        }
    }

    /// A stable name of the kind of error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownOperator { .. } => "unknown_operator",
            Self::ControlNeedsOneWorker { .. } => "control_needs_one_worker",
            Self::Inputs { .. } => "inputs",
            Self::InputType { .. } => "input_type",
            Self::InputsDiffer { .. } => "inputs_differ",
            Self::UnknownParameter { .. } => "unknown_parameter",
            Self::MissingParameter { .. } => "missing_parameter",
            Self::Parameter { .. } => "parameter",
            Self::TooLarge { .. } => "too_large",
            Self::Expression { error, .. } => error.code(),
            Self::Dsp(error) => error.code(),
            Self::FieldTwice { .. } => "field_twice",
            Self::UnknownField { .. } => "unknown_field",
            Self::Predicate { .. } => "predicate",
            Self::NotSaveable { .. } => "not_saveable",
            Self::Unreadable { .. } => "unreadable_plan",
            Self::Refused { .. } => "operator_refused",
            Self::NoRecording { .. } => "no_recording",
            Self::DamagedRecording { .. } => "damaged_recording",
            Self::OtherClock { .. } => "other_clock",
            Self::WritesItsInput { .. } => "writes_its_input",
            Self::NotAdjustable { .. } => "not_adjustable",
            Self::ControlInUse => "control_in_use",
            Self::NotRunning { .. } => "not_running",
            Self::ChangesPlan { .. } => "changes_plan",
            Self::IndicesRepeat { .. } => "indices_repeat",
            Self::LoopMayStall { .. } => "loop_may_stall",
            Self::LoopNotClosed { .. } => "loop_not_closed",
            Self::NoSuchOutput { .. } => "no_such_output",
        }
    }
}
