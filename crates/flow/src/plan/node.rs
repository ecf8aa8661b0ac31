//! Nodes of plans: operation and input plans.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::index_order::EdgeIndices;
use super::operator_factory::SharedFactory;
use super::rows;
use crate::engine::control::changeable::changeable_operator;
use crate::engine::control::changes::ParameterChanges;
use crate::{
    Declaration, OpError, Operator, OperatorProperties, PlanError, RunOptions, SharedRecording,
    Source,
};

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Scan {
        recording: SharedRecording,
        range: Option<Range<i64>>,
        segment: u64,
    },
    Apply {
        declaration: Declaration,
        params: Map<String, Value>,
        changes: Option<Arc<ParameterChanges>>,
    },
    Factory(SharedFactory),
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
                    ..
                },
                Self::Apply {
                    declaration: d,
                    params: p,
                    ..
                },
            ) => declaration.name == d.name && params == p,
            (Self::Factory(one), Self::Factory(other)) => one == other,
            _ => false,
        }
    }
}

impl Op {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Scan { .. } => "scan",
            Self::Apply { declaration, .. } => declaration.name,
            Self::Factory(factory) => factory.0.name(),
        }
    }

    pub(crate) fn recording(&self) -> Option<&SharedRecording> {
        match self {
            Self::Scan { recording, .. } => Some(recording),
            _ => None,
        }
    }

    /// None for a scan. `reads`: recording of the items' indices.
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
                changes: None,
            } => Some((declaration.build)(params)),
            Self::Apply {
                declaration,
                params,
                changes: Some(changes),
            } => Some(changeable_operator(*declaration, params, changes)),
            Self::Factory(factory) => Some(factory.0.make_for(reads, run)),
        }
    }
}

pub(crate) struct Node {
    pub(crate) op: Op,
    pub(crate) inputs: Vec<Plan>,
    pub(crate) properties: OperatorProperties,
    pub(crate) indices: EdgeIndices,
}

impl Drop for Node {
    /// Without recursion, for long chains.
    fn drop(&mut self) {
        let mut remaining = std::mem::take(&mut self.inputs);
        while let Some(plan) = remaining.pop() {
            if let Some(mut node) = Arc::into_inner(plan.node) {
                remaining.append(&mut node.inputs);
            }
        }
    }
}

/// A plan, built by [`Plan::scan`] and the methods that add operators. Prints as a chain or a list of nodes.
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

/// Default segment: long enough to hide the engine's cost, short enough that an operator's output is still cached for
/// the next.
pub const SEGMENT_SAMPLES: u64 = 1 << 17;

pub(crate) fn register_clock(recording: &SharedRecording) {
    if !recording.0.registers_clock() {
        return;
    }
    if let (Some(stream), Some(clock)) = (recording.0.port().stream_id(), recording.0.clock()) {
        rows::register(stream, &clock);
    }
}

pub(crate) fn open(op: &Op) -> Option<Result<Box<dyn Source>, OpError>> {
    match op {
        Op::Scan {
            recording,
            range,
            segment,
        } => {
            let source = recording.0.open(range.clone(), *segment);
            register_clock(recording);
            Some(source)
        }
        Op::Apply { .. } | Op::Factory(_) => None,
    }
}
