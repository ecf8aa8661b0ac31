//! Errors of building, saving and changing plans.

use isochrony_store::StoreError;

/// Why a plan cannot be made.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No operator has this name.
    #[error("no operator is called {name:?}; choose from {known}")]
    UnknownOperator {
        /// The name as given.
        name: String,
        /// Names that exist.
        known: String,
    },
    /// Wrong number of inputs.
    #[error("{operator} takes {expected} input(s), but {got} are connected; connect {expected}")]
    Inputs {
        /// The operator.
        operator: &'static str,
        /// How many it takes.
        expected: String,
        /// How many were connected.
        got: usize,
    },
    /// The operator cannot process this type of input.
    #[error("{operator} needs {expected} but its input is {got}; {mend}")]
    InputType {
        /// The operator.
        operator: &'static str,
        /// Type of its input.
        expected: &'static str,
        /// Type that was connected.
        got: String,
        /// What to do.
        mend: &'static str,
    },
    /// Inputs whose types do not match.
    #[error("{operator}: input 0 is {first} but input {port} is {other}; {mend}")]
    InputsDiffer {
        /// The operator.
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
    /// No such parameter.
    #[error("{operator} has no parameter {parameter:?}; it takes {known}")]
    UnknownParameter {
        /// The operator.
        operator: &'static str,
        /// The parameter as given.
        parameter: String,
        /// Parameters that exist.
        known: String,
    },
    /// A parameter without default is missing.
    #[error("{operator} needs {parameter} ({doc}); give {parameter}=")]
    MissingParameter {
        /// The operator.
        operator: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What it is.
        doc: &'static str,
    },
    /// A parameter that others call for is missing, or too many of several are given.
    #[error("{operator} {needs}; {mend}")]
    NeedsParameter {
        /// The operator.
        operator: &'static str,
        /// What it needs, and for what.
        needs: String,
        /// What to do.
        mend: &'static str,
    },
    /// A parameter outside its legal range or of a wrong type.
    #[error("{operator}: {parameter}={got} must be {legal}; change {parameter}")]
    Parameter {
        /// The operator.
        operator: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// Its value.
        got: String,
        /// What is legal.
        legal: String,
    },
    /// A parameter whose tables exceed the memory.
    #[error(
        "{operator}{}: {parameter}={value} needs {bytes} bytes of tables, but {limit} bytes {limited_by}; make {parameter} \
         smaller{}",
        node.map_or(String::new(), |node| format!(" (node {node})")),
        if node.is_some() { ", or raise memory=" } else { "" }
    )]
    TooLarge {
        /// The operator.
        operator: &'static str,
        /// Its number in the plan.
        node: Option<usize>,
        /// The parameter that determines the size.
        parameter: &'static str,
        /// Its value.
        value: u64,
        /// Bytes needed.
        bytes: u64,
        /// Bytes available.
        limit: u64,
        /// What limits them.
        limited_by: &'static str,
    },
    /// An expression that does not fit the input.
    #[error("{operator}: {error}")]
    Expression {
        /// The operator.
        operator: &'static str,
        /// What is wrong with it.
        error: isochrony_expr::ExprError,
    },
    /// Parameters that define no filter, window or detector.
    #[error(transparent)]
    Dsp(#[from] isochrony_dsp::DspError),
    /// Two fields of one name.
    #[error(
        "{operator}: two fields have the name {field:?}; give one of them another name (rows of windows begin with start, end \
         and, if civil time is known, time)"
    )]
    FieldTwice {
        /// The operator.
        operator: &'static str,
        /// The name.
        field: String,
    },
    /// The rows have no such field.
    #[error("{operator}: the rows have no field {field:?}; they have {known}")]
    UnknownField {
        /// The operator.
        operator: &'static str,
        /// The name as given.
        field: String,
        /// Fields that exist.
        known: String,
    },
    /// A predicate that is not one bool per window.
    #[error("filter needs an expression that gives one bool per window, got {expression}; {mend}")]
    Predicate {
        /// The expression and its type.
        expression: String,
        /// What to do.
        mend: &'static str,
    },
    /// An object of this process that cannot be saved, or that a saved plan lacks.
    #[error("{operator} uses {what}, which cannot be part of a saved plan; {mend}")]
    NotSaveable {
        /// The operator.
        operator: String,
        /// The object.
        what: &'static str,
        /// What to do.
        mend: &'static str,
    },
    /// Something that cannot leave this process.
    #[error("{operator} uses {what}, which cannot be pickled; {mend}")]
    NotSendable {
        /// The operator.
        operator: String,
        /// The object.
        what: &'static str,
        /// What to do.
        mend: &'static str,
    },
    /// A part of the plan belongs on a host, but the run has no cluster.
    #[error(
        "a part of the plan is to run on({host:?}), but the run has no cluster; give on=, with a Dask client or the address of a \
         scheduler, or leave out .on({host:?})"
    )]
    NoCluster {
        /// The host.
        host: String,
    },
    /// A part of a part on a host.
    #[error(
        "on({inner:?}) is before on({host:?}): results go from a host to the client, and not to another host; leave out one of them"
    )]
    HostWithinHost {
        /// The outer host.
        host: String,
        /// The one before it.
        inner: String,
    },
    /// One feed before two places.
    #[error(
        "{feed} is before on() twice ({hosts}), but a feed is received once; put on() behind what both parts have in common, or \
         listen twice"
    )]
    FeedOnTwoHosts {
        /// The feed.
        feed: String,
        /// The hosts.
        hosts: String,
    },
    /// JSON that is no saved plan.
    #[error("the plan cannot be read: {why}; save the plan again with this version of Isochrony")]
    Unreadable {
        /// What is wrong where.
        why: String,
    },
    /// A user's operator refuses its inputs, or declares no valid outputs.
    #[error(
        "{operator} cannot be part of this plan: {why}; correct {operator}, or connect other inputs to it"
    )]
    Refused {
        /// The operator, as it prints.
        operator: String,
        /// Its message.
        why: String,
    },
    /// A saved plan's recording does not exist.
    #[error(
        "the plan reads {recording}, which cannot be opened: {why}; restore {recording}, or read the plan with a store that has \
         it"
    )]
    NoRecording {
        /// Name of the recording.
        recording: String,
        /// Why it cannot be opened.
        why: String,
    },
    /// A saved plan's recording exists but cannot be opened.
    #[error("the plan reads {recording}, which exists but cannot be opened: {why}")]
    DamagedRecording {
        /// Name of the recording.
        recording: String,
        /// Why it cannot be opened, with a remedy.
        why: String,
    },
    /// Signals declared to share a clock do not.
    #[error(
        "{signal} does not have the clock of {other}: {why}; scan it without clock=, and bring it onto the samples of \
         {other} with align"
    )]
    OtherClock {
        /// Name of the signal.
        signal: String,
        /// The signal whose clock was declared.
        other: String,
        /// In what they differ.
        why: String,
    },
    /// The plan would write to a signal that it reads.
    #[error(
        "{operator} would write to {signal:?}, which the plan reads; give the output another name"
    )]
    WritesItsInput {
        /// The operator.
        operator: &'static str,
        /// Name of the signal.
        signal: String,
    },
    /// The parameter may not change while the plan is executed.
    #[error(
        "{parameter} of {operator} cannot change during a run (adjustable of {operator}: {adjustable}); stop the run and \
         build the plan with another {parameter}"
    )]
    NotAdjustable {
        /// The operator.
        operator: &'static str,
        /// The parameter as given.
        parameter: String,
        /// Parameters that may change.
        adjustable: String,
    },
    /// A branch that cannot be added to the running plan, or removed from it.
    #[error("the branch that ends in {operator} cannot be {change}: {what}; {mend}")]
    Branch {
        /// Its last operator.
        operator: &'static str,
        /// "added" or "removed".
        change: &'static str,
        /// Why.
        what: String,
        /// What to do.
        mend: &'static str,
    },
    /// An implementation whose results differ by more than the execution was granted.
    #[error(
        "{operator} cannot change to method={method:?} during this run: its results differ by up to {needs:e} of the largest \
         values, and the run was granted {granted:e}; give the run tolerance={needs:e} or more"
    )]
    NotWithinTolerance {
        /// The operator.
        operator: &'static str,
        /// The implementation.
        method: String,
        /// By how much it may differ from the default one.
        needs: f64,
        /// The tolerance of the execution.
        granted: f64,
    },
    /// Two concurrent executions use one control.
    #[error(
        "this control is in use by a run that has not ended; create a new Control for each run that is active at the same time"
    )]
    ControlInUse,
    /// A change of stages where none are executed.
    #[error(
        "there are no stages to change or measure: {}",
        if *.running {
            "the running plan is not cut into stages; explain() says why, and workers=2 or more is needed"
        } else {
            "nothing runs with this control; give it to the run with control=, and call this while the run lasts"
        }
    )]
    NoStages {
        /// Whether a plan is being executed.
        running: bool,
    },
    /// A number of replicas that the stage cannot have.
    #[error(
        "stage {stage} cannot have {replicas} replicas: {}",
        if *.most == 0 {
            format!("the stages that can are {can}", can = if .able.is_empty() { "none" } else { .able })
        } else {
            format!("give 1 to {most}, as many as it has room for")
        }
    )]
    NoReplicas {
        /// The stage.
        stage: usize,
        /// Number asked for.
        replicas: usize,
        /// Most; 0 if the stage has no replicas.
        most: usize,
        /// Stages with replicas.
        able: String,
    },
    /// No such link, or a capacity of 0.
    #[error(
        "link {link} of {bytes} bytes cannot be set: give a link from 0 to {last}, and 1 byte or more"
    )]
    NoLink {
        /// The link.
        link: usize,
        /// Capacity asked for.
        bytes: u64,
        /// Number of the last link.
        last: usize,
    },
    /// A plan whose operators cannot be measured.
    #[error(
        "{source_name} gives what it has only once, or has no samples, so its operators cannot be measured; characterise the same \
         plan over a stored signal or an array"
    )]
    CannotCharacterise {
        /// The source.
        source_name: String,
    },
    /// A change of an operator that is not being executed.
    #[error(
        "the control was given a plan that ends with {operator}, but this {operator} is not part of the running plan; give the plan \
         object from which the running plan was built"
    )]
    NotRunning {
        /// The operator.
        operator: &'static str,
    },
    /// A change that other operators would have to follow.
    #[error(
        "the change of {operator} affects other operators: it {what}; keep the type and shape of its results, or stop the run \
         and build the plan anew"
    )]
    ChangesPlan {
        /// The operator.
        operator: &'static str,
        /// What would change.
        what: String,
    },
    /// A change after which an operator starts or ceases to remember earlier items, with several threads.
    #[error(
        "the change of {operator} is refused: it would begin, or cease, to remember earlier items, which several workers cannot          change during a run; give the run workers=1, or set it before the run begins"
    )]
    ChangesMemory {
        /// The operator.
        operator: &'static str,
    },
    /// A change at an index of rows without indices.
    #[error(
        "the change of {operator} cannot take effect at an index: its input has rows without start; keep start in select(...), put          {operator} before group_by(...) or join(how=\"outer\"), or leave out at="
    )]
    NoIndices {
        /// The operator.
        operator: &'static str,
    },
    /// An operator needs contiguous samples behind a merge of overlapping inputs.
    #[error(
        "{operator} needs contiguous samples, but follows a merge whose inputs {first} and {second} may both have {common}; \
         put {operator} before the merge, on each of its inputs, or merge ranges that do not overlap"
    )]
    IndicesRepeat {
        /// The operator.
        operator: &'static str,
        /// Number of an input of the merge.
        first: usize,
        /// Number of another input.
        second: usize,
        /// What both may have.
        common: String,
    },
    /// A loop that may drop windows would wait for them forever.
    #[error(
        "feedback cannot make progress: {operator} in its loop may drop windows, and the loop waits for each; feed back a \
         value for every window, as map does, and filter the result"
    )]
    LoopMayStall {
        /// The operator.
        operator: &'static str,
    },
    /// A loop is not closed, or closed twice.
    #[error(
        "a feedback loop is closed {closed} times instead of once; use the argument of feedback's function in the plan that \
         it returns, and in no other plan"
    )]
    LoopNotClosed {
        /// How many `feedback` operators end it.
        closed: usize,
    },
    /// The operator has no such output.
    #[error("{operator} has no output {got}, only {have} output(s); choose an output from 0 to {}", have - 1)]
    NoSuchOutput {
        /// The operator.
        operator: &'static str,
        /// Number of its outputs.
        have: usize,
        /// The one asked for.
        got: u16,
    },
}

impl PlanError {
    /// The error of a saved plan's recording that a store cannot open.
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
            Self::Inputs { .. } => "inputs",
            Self::InputType { .. } => "input_type",
            Self::InputsDiffer { .. } => "inputs_differ",
            Self::UnknownParameter { .. } => "unknown_parameter",
            Self::MissingParameter { .. } => "missing_parameter",
            Self::Parameter { .. } | Self::NeedsParameter { .. } => "parameter",
            Self::TooLarge { .. } => "too_large",
            Self::Expression { error, .. } => error.code(),
            Self::Dsp(error) => error.code(),
            Self::FieldTwice { .. } => "field_twice",
            Self::UnknownField { .. } => "unknown_field",
            Self::Predicate { .. } => "predicate",
            Self::NotSaveable { .. } => "not_saveable",
            Self::NotSendable { .. } => "not_picklable",
            Self::NoCluster { .. } => "no_cluster",
            Self::HostWithinHost { .. } => "host_within_host",
            Self::FeedOnTwoHosts { .. } => "feed_on_two_hosts",
            Self::Unreadable { .. } => "unreadable_plan",
            Self::Refused { .. } => "operator_refused",
            Self::NoRecording { .. } => "no_recording",
            Self::DamagedRecording { .. } => "damaged_recording",
            Self::OtherClock { .. } => "other_clock",
            Self::WritesItsInput { .. } => "writes_its_input",
            Self::NotAdjustable { .. } => "not_adjustable",
            Self::Branch { .. } => "branch",
            Self::NotWithinTolerance { .. } => "not_within_tolerance",
            Self::ControlInUse => "control_in_use",
            Self::NoStages { .. } => "no_stages",
            Self::NoReplicas { .. } => "no_replicas",
            Self::NoLink { .. } => "no_link",
            Self::ChangesMemory { .. } => "changes_memory",
            Self::NoIndices { .. } => "no_indices",
            Self::CannotCharacterise { .. } => "cannot_characterise",
            Self::NotRunning { .. } => "not_running",
            Self::ChangesPlan { .. } => "changes_plan",
            Self::IndicesRepeat { .. } => "indices_repeat",
            Self::LoopMayStall { .. } => "loop_may_stall",
            Self::LoopNotClosed { .. } => "loop_not_closed",
            Self::NoSuchOutput { .. } => "no_such_output",
        }
    }
}
