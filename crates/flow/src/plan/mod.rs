//! Plans: operators and how they are connected, as data.
//!
//! A plan is a node and one of its outputs; a node holds the plans that it takes its inputs from. Cloning shares, so
//! branches and shared sub-plans cost nothing to write, and a plan is a graph, not a chain. Types are checked as each
//! node is added. Nothing is read or computed before a plan runs.

pub(crate) mod catalog;
pub(crate) mod declaration;
pub(crate) mod error;
pub(crate) mod graph;
pub(crate) mod held;
mod index_order;
pub(crate) mod item;
pub(crate) mod operator;
mod operator_macro;
pub(crate) mod parameter;
pub(crate) mod partial;
pub(crate) mod port_type;
pub(crate) mod reference;
pub(crate) mod rows;
pub(crate) mod saved;
pub(crate) mod workspace;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochrony_store::Signal;
use serde_json::{Map, Value};

use crate::{
    Declaration, Declared, Inputs, OpError, Operator, OperatorProperties, PlanError, PortType,
    Recording, Resource, RunOptions, SharedRecording,
};
use graph::Graph;
use held::SharedFactory;
use index_order::Indices;

/// What a node does.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    /// Reads a recording.
    Scan {
        recording: SharedRecording,
        range: Option<Range<i64>>,
        segment: u64,
    },
    /// Processes items.
    Apply {
        declaration: Declaration,
        params: Map<String, Value>,
    },
    /// Processes items by means of something that the plan holds.
    Hold(SharedFactory),
}

impl PartialEq for Op {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Scan {
                    recording,
                    range,
                    segment,
                },
                Self::Scan {
                    recording: r,
                    range: g,
                    segment: s,
                },
            ) => recording == r && range == g && segment == s,
            (
                Self::Apply {
                    declaration,
                    params,
                },
                Self::Apply {
                    declaration: d,
                    params: p,
                },
            ) => declaration.name == d.name && params == p,
            (Self::Hold(one), Self::Hold(other)) => one == other,
            _ => false,
        }
    }
}

impl Op {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Scan { .. } => "scan",
            Self::Apply { declaration, .. } => declaration.name,
            Self::Hold(kept) => kept.0.name(),
        }
    }

    /// The recording that it reads.
    pub(crate) fn recording(&self) -> Option<&SharedRecording> {
        match self {
            Self::Scan { recording, .. } => Some(recording),
            _ => None,
        }
    }

    /// Makes the operator for a run; None of a scan. `reads` is the recording of the indices that come in.
    pub(crate) fn make(
        &self,
        reads: Option<&SharedRecording>,
        run: &RunOptions<'_>,
    ) -> Option<Result<Box<dyn Operator>, PlanError>> {
        match self {
            Self::Scan { .. } => None,
            Self::Apply {
                declaration,
                params,
            } => Some((declaration.build)(params)),
            Self::Hold(kept) => Some(kept.0.make_for(reads, run)),
        }
    }
}

pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<Plan>,
    pub(crate) bound: OperatorProperties,
    pub(crate) indices: Indices,
}

impl Drop for Node {
    /// Takes a long chain apart without recursion.
    fn drop(&mut self) {
        let mut left = std::mem::take(&mut self.inputs);
        while let Some(plan) = left.pop() {
            if let Some(mut node) = Arc::into_inner(plan.node) {
                left.append(&mut node.inputs);
            }
        }
    }
}

/// A plan: what [`Plan::scan`] and the methods that follow it describe. Printing it shows it as it will run.
///
/// ```
/// use isochrony_flow::{Plan, Segments};
/// use isochrony_segment::{SigSeg, Stream};
/// use isochrony_time::{Rate, TimebaseId};
///
/// let stream = Stream::new("stn_10/pressure", TimebaseId(0), Rate::new(2000, 1)?).intern();
/// let before_gap = SigSeg::from_slice(&[1i16, 3, 5, 7, 9], 0, stream)?;
/// let after_gap = SigSeg::from_slice(&[2i16, 4], 100, stream)?;
/// let recording = Segments::new([before_gap, after_gap]).expect("in order");
/// let plan = Plan::scan(recording).rewindow(2)?.count()?;
/// assert_eq!(plan.to_string(), "scan(stn_10/pressure) -> rewindow(window=2) -> count");
/// assert_eq!(plan.collect()?.count(), Some(3)); // sample 4 makes no full window and never meets sample 100
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Plan {
    pub(crate) node: Arc<Node>,
    pub(crate) output: u16,
}

/// Samples of a segment where nobody says otherwise: large enough that the engine is not seen, small enough that
/// what one operator wrote the next finds in the cache.
pub const SEGMENT_SAMPLES: u64 = 1 << 17;

impl Plan {
    /// Reads a recording, all of it, from its first sample to its last.
    pub fn scan(recording: impl Recording + 'static) -> Self {
        Self::scan_part(SharedRecording::new(recording), None, SEGMENT_SAMPLES)
    }

    /// Reads all samples of a shared recording.
    #[must_use]
    pub fn scan_shared(recording: SharedRecording) -> Self {
        Self::scan_part(recording, None, SEGMENT_SAMPLES)
    }

    /// Reads the samples of a recording with indices in `range`, in segments of at most `segment` samples.
    #[must_use]
    pub fn scan_part(recording: SharedRecording, range: Option<Range<i64>>, segment: u64) -> Self {
        let mut bound = OperatorProperties::new([recording.0.port()]);
        bound.needs = recording.0.needs();
        announce(&recording);
        let indices = Indices::read(recording.0.within(), range.as_ref());
        Self {
            node: Arc::new(Node {
                op: Op::Scan {
                    recording,
                    range,
                    segment,
                },
                inputs: Vec::new(),
                bound,
                indices,
            }),
            output: 0,
        }
    }

    /// Adds an operator by its declaration; its inputs are this plan and `others`.
    ///
    /// # Errors
    /// [`PlanError`] if a parameter or the type of an input is not what the operator takes.
    pub fn apply(
        &self,
        declaration: &Declaration,
        params: Map<String, Value>,
        others: &[Self],
    ) -> Result<Self, PlanError> {
        let mut inputs = vec![self.clone()];
        inputs.extend_from_slice(others);
        let right = match declaration.inputs {
            Inputs::Exactly(n) => inputs.len() == n,
            Inputs::AtLeast(n) => inputs.len() >= n,
        };
        if !right {
            return Err(PlanError::Inputs {
                operator: declaration.name,
                expected: match declaration.inputs {
                    Inputs::Exactly(n) => n.to_string(),
                    Inputs::AtLeast(n) => format!("{n} or more"),
                },
                got: inputs.len(),
            });
        }
        let params = declaration.check(params)?;
        let types: Vec<PortType> = inputs.iter().map(Self::port).collect();
        let bound = (declaration.build)(&params)?.bind(&types)?;
        let op = Op::Apply {
            declaration: *declaration,
            params,
        };
        let indices = Indices::given(&op, &bound, &inputs)?;
        let plan = Self {
            node: Arc::new(Node {
                op,
                inputs,
                bound,
                indices,
            }),
            output: 0,
        };
        if plan.node.bound.closes_loop {
            let graph = Graph::new(&plan);
            graph.check_loop(graph.outputs[0].0)?;
        }
        Ok(plan)
    }

    /// Adds an operator of one input, which may be of the user's own crate.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn then<O: Declared>(&self, params: Map<String, Value>) -> Result<Self, PlanError> {
        self.apply(&O::DECLARATION, params, &[])
    }

    /// Adds an operator that holds something of this process; its inputs are this plan and `others`.
    ///
    /// # Errors
    /// [`PlanError`] if an input is not what it takes, or [`PlanError::WritesItsInput`].
    pub fn apply_factory(&self, kept: SharedFactory, others: &[Self]) -> Result<Self, PlanError> {
        let mut inputs = vec![self.clone()];
        inputs.extend_from_slice(others);
        let types: Vec<PortType> = inputs.iter().map(Self::port).collect();
        // Of what writes nothing, plans may be long chains.
        for input in inputs.iter().filter(|_| kept.0.is_writer()) {
            for node in Graph::new(input).nodes {
                let saved = node.op.recording().and_then(|live| live.0.saved());
                if let Some(saved) = saved.filter(|saved| kept.0.writes(saved)) {
                    let name = saved.get("signal").and_then(Value::as_str);
                    return Err(PlanError::WritesItsInput {
                        operator: kept.0.name(),
                        signal: name.unwrap_or_default().into(),
                    });
                }
            }
        }
        let bound = kept.0.make(None)?.bind(&types)?;
        let op = Op::Hold(kept);
        let indices = Indices::given(&op, &bound, &inputs)?;
        Ok(Self {
            node: Arc::new(Node {
                op,
                inputs,
                bound,
                indices,
            }),
            output: 0,
        })
    }

    /// What it reads of stored signals.
    #[must_use]
    pub fn stored(&self) -> Vec<ScannedSignal> {
        let graph = Graph::new(self);
        let scans = graph.nodes.iter().filter_map(|node| match &node.op {
            Op::Scan {
                recording, range, ..
            } => Some((recording.0.stored()?, range.clone())),
            _ => None,
        });
        let scans = scans.map(|((signal, ranges), range)| {
            let all = 0..signal.end_index();
            let within = range.unwrap_or_else(|| all.clone());
            let whole = ranges.is_none();
            let ranges = ranges.map_or_else(|| vec![all], <[_]>::to_vec);
            let cut = ranges
                .into_iter()
                .map(|one| one.start.max(within.start)..one.end.min(within.end));
            ScannedSignal {
                signal: signal.clone(),
                ranges: cut.filter(|one| !one.is_empty()).collect(),
                whole,
            }
        });
        scans.collect()
    }

    /// Whether running it occupies the Python interpreter.
    #[must_use]
    pub fn needs_interpreter(&self) -> bool {
        let mut nodes = Graph::new(self).nodes.into_iter();
        nodes.any(|node| node.bound.needs == Resource::Interpreter)
    }

    /// Another output of the last operator.
    ///
    /// # Errors
    /// [`PlanError::NoSuchOutput`].
    pub fn output(&self, output: u16) -> Result<Self, PlanError> {
        let have = self.node.bound.outputs.len();
        if usize::from(output) >= have {
            return Err(PlanError::NoSuchOutput {
                operator: self.node.op.name(),
                have,
                got: output,
            });
        }
        Ok(Self {
            node: self.node.clone(),
            output,
        })
    }

    /// How many outputs the last operator has.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.node.bound.outputs.len()
    }

    /// The plans that the last operator takes its inputs from.
    #[must_use]
    pub fn inputs(&self) -> &[Self] {
        &self.node.inputs
    }

    /// Type of what comes out.
    #[must_use]
    pub fn port(&self) -> PortType {
        self.node.bound.outputs[usize::from(self.output)]
    }

    /// Its nodes in order, each once.
    pub(crate) fn graph(&self) -> Graph {
        Graph::new(self)
    }
}

impl PartialEq for Plan {
    fn eq(&self, other: &Self) -> bool {
        let (a, b) = (Graph::new(self), Graph::new(other));
        a.outputs == b.outputs && a.nodes == b.nodes
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.graph().fmt(f)
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({self})")
    }
}

/// What a plan reads of a stored signal.
#[derive(Debug, Clone)]
pub struct ScannedSignal {
    /// The signal, as it was when it was scanned.
    pub signal: Signal,
    /// Indices of it.
    pub ranges: Vec<Range<i64>>,
    /// All that there is when the plan runs, which [`RepeatedPlan`](crate::RepeatedPlan) may narrow.
    pub whole: bool,
}

/// Lets operators behind a scan find its recording's clock.
fn announce(recording: &SharedRecording) {
    if let (Some(stream), Some(clock)) = (recording.0.port().stream_id(), recording.0.clock()) {
        rows::register(stream, &clock);
    }
}

/// What an open scan needs.
pub(crate) fn open(op: &Op) -> Option<Result<Box<dyn crate::Source>, OpError>> {
    match op {
        Op::Scan {
            recording,
            range,
            segment,
        } => {
            let source = recording.0.open(range.clone(), *segment);
            announce(recording);
            Some(source)
        }
        Op::Apply { .. } | Op::Hold(_) => None,
    }
}
