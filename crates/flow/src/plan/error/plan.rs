//! Errors of building, saving and changing plans.

use isochrony_store::{StoreError, nearest};

/// Why a plan is invalid.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Unknown operator.
    #[error("no operator is called {name:?}; {}", operator_choice(name, known))]
    UnknownOperator {
        /// Given name.
        name: String,
        /// Known names.
        known: String,
    },
    /// An operator of a saved plan is refused.
    #[error("node {node} of the saved plan: {error}")]
    InNode {
        /// Node number in the saved plan.
        node: usize,
        /// Cause.
        error: Box<Self>,
    },
    /// Wrong number of inputs.
    #[error("{operator} takes {expected} input(s), but {got} are connected; connect {expected}")]
    Inputs {
        /// Operator.
        operator: &'static str,
        /// Expected number.
        expected: String,
        /// Connected number.
        got: usize,
    },
    /// Unsupported input type.
    #[error("{operator} needs {expected} but its input is {got}; {mend}")]
    InputType {
        /// Operator.
        operator: &'static str,
        /// Expected type.
        expected: &'static str,
        /// Connected type.
        got: String,
        /// Remedy.
        mend: &'static str,
    },
    /// Mismatched input types.
    #[error("{operator}: input 0 is {first} but input {port} is {other}; {mend}")]
    InputsDiffer {
        /// Operator.
        operator: &'static str,
        /// First input's type.
        first: String,
        /// Number of the other input.
        port: usize,
        /// Its type.
        other: String,
        /// Remedy.
        mend: &'static str,
    },
    /// Unknown parameter.
    #[error(
        "{operator} has no parameter {parameter:?}{}; it takes {known}",
        nearest(parameter, known.split(", ").filter(|one| *one != "none")).map_or(String::new(), |near| format!(" (did you mean {near}?)"))
    )]
    UnknownParameter {
        /// Operator.
        operator: &'static str,
        /// Given parameter.
        parameter: String,
        /// Known parameters.
        known: String,
    },
    /// Missing required parameter.
    #[error("{operator} needs {parameter} ({}); give {parameter}=", doc.trim_end_matches('.'))]
    MissingParameter {
        /// Operator.
        operator: &'static str,
        /// Parameter.
        parameter: &'static str,
        /// Its description.
        doc: &'static str,
    },
    /// Missing parameter, or too many alternatives.
    #[error("{operator} {needs}; {mend}")]
    NeedsParameter {
        /// Operator.
        operator: &'static str,
        /// What it needs, and why.
        needs: String,
        /// Remedy.
        mend: &'static str,
    },
    /// Parameter out of range or of a wrong type.
    #[error("{operator}: {parameter}={got} must be {legal}; change {parameter}")]
    Parameter {
        /// Operator.
        operator: &'static str,
        /// Parameter.
        parameter: &'static str,
        /// Value.
        got: String,
        /// Legal values.
        legal: String,
    },
    /// Parameter whose tables exceed the memory.
    #[error(
        "{operator}{}: {parameter}={value} needs {bytes} bytes of tables, but {limit} bytes {limited_by}; make {parameter} \
         smaller{}",
        node.map_or(String::new(), |node| format!(" (node {node})")),
        if node.is_some() { ", or raise memory=" } else { "" }
    )]
    TooLarge {
        /// Operator.
        operator: &'static str,
        /// Node number in the plan.
        node: Option<usize>,
        /// Parameter that sets the size.
        parameter: &'static str,
        /// Value.
        value: u64,
        /// Bytes needed.
        bytes: u64,
        /// Bytes available.
        limit: u64,
        /// Reason for the limit.
        limited_by: &'static str,
    },
    /// Expression that does not fit the input.
    #[error("{operator}: {error}")]
    Expression {
        /// Operator.
        operator: &'static str,
        /// Cause.
        error: isochrony_expr::ExprError,
    },
    /// Parameters that define no filter, window or detector.
    #[error(transparent)]
    Dsp(#[from] isochrony_dsp::DspError),
    /// Duplicate field name.
    #[error(
        "{operator}: two fields have the name {field:?}; give one of them another name (rows of windows begin with start, end \
         and, if civil time is known, time)"
    )]
    FieldTwice {
        /// Operator.
        operator: &'static str,
        /// Field name.
        field: String,
    },
    /// Unknown field.
    #[error("{operator}: the rows have no field {field:?}; they have {known}")]
    UnknownField {
        /// Operator.
        operator: &'static str,
        /// Given name.
        field: String,
        /// Known fields.
        known: String,
    },
    /// Predicate that is not one bool per window.
    #[error("filter needs an expression that gives one bool per window, got {expression}; {mend}")]
    Predicate {
        /// The expression and its type.
        expression: String,
        /// Remedy.
        mend: &'static str,
    },
    /// Object that a saved plan cannot hold, or lacks.
    #[error("{operator} uses {what}, which cannot be part of a saved plan; {mend}")]
    NotSaveable {
        /// Operator.
        operator: String,
        /// Object.
        what: &'static str,
        /// Remedy.
        mend: &'static str,
    },
    /// Object that cannot leave this process.
    #[error("{operator} uses {what}, which cannot be pickled; {mend}")]
    NotSendable {
        /// Operator.
        operator: String,
        /// Object.
        what: &'static str,
        /// Remedy.
        mend: &'static str,
    },
    /// Part of a plan on a host, without a cluster.
    #[error(
        "a part of the plan is to run on({host:?}), but the run has no cluster; give on=, with a Dask client or the address of a \
         scheduler, or leave out .on({host:?})"
    )]
    NoCluster {
        /// Host.
        host: String,
    },
    /// Nested parts on hosts.
    #[error(
        "on({inner:?}) is before on({host:?}): results go from a host to the client, and not to another host; leave out one of them"
    )]
    HostWithinHost {
        /// Outer host.
        host: String,
        /// Inner host.
        inner: String,
    },
    /// One feed upstream of two hosts.
    #[error(
        "{feed} is before on() twice ({hosts}), but a feed is received once; put on() behind what both parts have in common, or \
         listen twice"
    )]
    FeedOnTwoHosts {
        /// Feed.
        feed: String,
        /// Hosts.
        hosts: String,
    },
    /// Invalid JSON of a saved plan.
    #[error(
        "the plan cannot be read: {why}; save the plan again with `Plan.to_json` of this version of Isochrony"
    )]
    Unreadable {
        /// What is wrong, and where.
        why: String,
    },
    /// User operator that refuses its inputs, or has invalid outputs.
    #[error(
        "{operator} cannot be part of this plan: {why}; correct {operator}, or connect other inputs to it"
    )]
    Refused {
        /// Printed operator.
        operator: String,
        /// Its message.
        why: String,
    },
    /// Missing recording of a saved plan.
    #[error(
        "the plan reads {recording}, which cannot be opened: {why}; restore {recording}, or read the plan with a store that has \
         it"
    )]
    NoRecording {
        /// Recording name.
        recording: String,
        /// Cause.
        why: String,
    },
    /// Existing recording that cannot be opened.
    #[error("the plan reads {recording}, which exists but cannot be opened: {why}")]
    DamagedRecording {
        /// Recording name.
        recording: String,
        /// Cause, with a remedy.
        why: String,
    },
    /// Signals that do not share a clock as declared.
    #[error(
        "{signal} does not have the clock of {other}: {why}; scan it without clock=, and bring it onto the samples of \
         {other} with align"
    )]
    OtherClock {
        /// Signal name.
        signal: String,
        /// Signal of the declared clock.
        other: String,
        /// Difference.
        why: String,
    },
    /// Output to a signal that the plan reads.
    #[error(
        "{operator} would write to {signal:?}, which the plan reads; give the output another name"
    )]
    WritesItsInput {
        /// Operator.
        operator: &'static str,
        /// Signal name.
        signal: String,
    },
    /// Parameter that cannot change during execution.
    #[error(
        "{parameter} of {operator} cannot change during a run (adjustable of {operator}: {adjustable}); stop the run and \
         build the plan with another {parameter}"
    )]
    NotAdjustable {
        /// Operator.
        operator: &'static str,
        /// Given parameter.
        parameter: String,
        /// Adjustable parameters.
        adjustable: String,
    },
    /// Branch that cannot be added or removed.
    #[error("the branch that ends in {operator} cannot be {change}: {what}; {mend}")]
    Branch {
        /// Its last operator.
        operator: &'static str,
        /// "added" or "removed".
        change: &'static str,
        /// Reason.
        what: String,
        /// Remedy.
        mend: &'static str,
    },
    /// Implementation beyond the granted tolerance.
    #[error(
        "{operator} cannot change to method={method:?} during this run: its results differ by up to {needs:e} of the largest \
         values, and the run was granted {granted:e}; give the run tolerance={needs:e} or more"
    )]
    NotWithinTolerance {
        /// Operator.
        operator: &'static str,
        /// Implementation.
        method: String,
        /// Its deviation from the default.
        needs: f64,
        /// Granted tolerance.
        granted: f64,
    },
    /// Control used by two executions at once.
    #[error(
        "this control is in use by a run that has not ended; create a new Control for each run that is active at the same time"
    )]
    ControlInUse,
    /// Change of stages where none are executed.
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
    /// Invalid number of replicas.
    #[error(
        "stage {stage} cannot have {replicas} replicas: {}",
        if *.most == 0 {
            format!("the stages that can are {can}", can = if .able.is_empty() { "none" } else { .able })
        } else {
            format!("give 1 to {most}, as many as it has room for")
        }
    )]
    NoReplicas {
        /// Stage.
        stage: usize,
        /// Requested number.
        replicas: usize,
        /// Maximum; 0 without replicas.
        most: usize,
        /// Stages with replicas.
        able: String,
    },
    /// Unknown link, or capacity of 0.
    #[error(
        "link {link} cannot be set to {bytes} bytes; give a link from 0 to {last}, and at least 1 byte"
    )]
    NoLink {
        /// Link.
        link: usize,
        /// Requested capacity.
        bytes: u64,
        /// Last link's number.
        last: usize,
    },
    /// Plan whose operators cannot be measured.
    #[error(
        "{source_name} can be read only once, or has no samples, so the operators of the plan cannot be measured; characterise the same \
         plan over a stored signal or an array"
    )]
    CannotCharacterise {
        /// Source.
        source_name: String,
    },
    /// Change of an operator that is not running.
    #[error(
        "the control was given a plan that ends with {operator}, but this {operator} is not part of the running plan; give the plan \
         object from which the running plan was built"
    )]
    NotRunning {
        /// Operator.
        operator: &'static str,
    },
    /// Change that affects other operators.
    #[error(
        "the change of {operator} affects other operators: it {what}; keep the type and shape of its results, or stop the run \
         and build the plan again"
    )]
    ChangesPlan {
        /// Operator.
        operator: &'static str,
        /// Effect.
        what: String,
    },
    /// Change of memory of earlier items, with several threads.
    #[error(
        "the change of {operator} is refused: it would start or stop remembering earlier items, which several workers cannot change during a run; give the run workers=1, or set it before the run begins"
    )]
    ChangesMemory {
        /// Operator.
        operator: &'static str,
    },
    /// Change at an index of rows without indices.
    #[error(
        "the change of {operator} cannot take effect at an index: its input has rows without start; keep start in select(...), put {operator} before group_by(...) or join(how=\"outer\"), or leave out at="
    )]
    NoIndices {
        /// Operator.
        operator: &'static str,
    },
    /// Contiguous samples required after a merge of overlapping inputs.
    #[error(
        "{operator} needs contiguous samples, but follows a merge whose inputs {first} and {second} may both have {common}; \
         put {operator} before the merge, on each of its inputs, or merge ranges that do not overlap"
    )]
    IndicesRepeat {
        /// Operator.
        operator: &'static str,
        /// An input of the merge.
        first: usize,
        /// Another input.
        second: usize,
        /// Their overlap.
        common: String,
    },
    /// Loop that would wait forever for dropped windows.
    #[error(
        "feedback cannot make progress: {operator} in its loop may drop windows, and the loop waits for each; feed back a \
         value for every window, as map does, and filter the result"
    )]
    LoopMayStall {
        /// Operator.
        operator: &'static str,
    },
    /// Loop not closed, or closed twice.
    #[error(
        "a feedback loop is closed {closed} times instead of once; use the argument of feedback's function in the plan that \
         it returns, and in no other plan"
    )]
    LoopNotClosed {
        /// How many `feedback` operators close it.
        closed: usize,
    },
    /// Unknown output.
    #[error("{operator} has no output {got}, only {have} output(s); choose an output from 0 to {}", have - 1)]
    NoSuchOutput {
        /// Operator.
        operator: &'static str,
        /// Number of outputs.
        have: usize,
        /// Requested output.
        got: u16,
    },
}

impl PlanError {
    /// A recording of a saved plan that a store cannot open.
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

    /// Stable error code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownOperator { .. } => "unknown_operator",
            Self::InNode { error, .. } => error.code(),
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

fn operator_choice(name: &str, known: &str) -> String {
    match nearest(name, known.split(", ")) {
        Some(near) => format!("did you mean {near:?}? `isochrony operators` lists all"),
        None => format!("choose from {known}"),
    }
}
