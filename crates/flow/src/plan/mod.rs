//! Plans: operators and their connections, as data.
//!
//! A [`Plan`] is a node and one of its outputs; a node holds the plans of its inputs. Clones share nodes. Types are
//! checked when a node is added; nothing is read or computed before execution. `node` defines nodes, `operator` the
//! contract with the engine, `graph` the form for optimiser and engine.

mod absent_recording;
pub(crate) mod catalog;
pub(crate) mod declaration;
pub(crate) mod error;
pub(crate) mod graph;
mod index_order;
pub(crate) mod item;
pub(crate) mod length;
mod node;
pub(crate) mod operator;
pub(crate) mod operator_factory;
mod operator_macro;
pub(crate) mod parameter;
pub(crate) mod parameter_range;
pub(crate) mod partial_result;
mod port_form;
pub(crate) mod port_type;
pub(crate) mod reference;
pub(crate) mod rows;
pub(crate) mod saved;
pub(crate) mod sent;
pub(crate) mod sent_objects;
pub(crate) mod workspace;

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochrony_store::Signal;
use serde_json::{Map, Value};

use crate::{
    Declaration, Inputs, OperatorProperties, OperatorType, PlanError, PortType, Recording,
    Resource, SharedRecording,
};
pub(crate) use absent_recording::AbsentRecording;
pub(crate) use declaration::METHOD_PARAMETER;
use graph::Graph;
use index_order::EdgeIndices;
use node::Node;
pub(crate) use node::{Op, open, register_clock};
pub use node::{Plan, SEGMENT_SAMPLES};
use operator_factory::SharedFactory;

impl Plan {
    /// Reads a whole recording.
    pub fn scan(recording: impl Recording + 'static) -> Self {
        Self::scan_part(SharedRecording::new(recording), None, SEGMENT_SAMPLES)
    }

    /// Reads a whole shared recording.
    #[must_use]
    pub fn scan_shared(recording: SharedRecording) -> Self {
        Self::scan_part(recording, None, SEGMENT_SAMPLES)
    }

    /// Reads the indices in `range`, in segments of at most `segment` samples.
    #[must_use]
    pub fn scan_part(recording: SharedRecording, range: Option<Range<i64>>, segment: u64) -> Self {
        let mut properties = OperatorProperties::new([recording.0.port()]);
        properties.needs = recording.0.needs();
        register_clock(&recording);
        let indices = EdgeIndices::of_scan(recording.0.within(), range.as_ref());
        Self {
            node: Arc::new(Node {
                op: Op::Scan {
                    recording,
                    range,
                    segment,
                },
                inputs: Vec::new(),
                properties,
                indices,
            }),
            output: 0,
        }
    }

    /// Adds a declared operator with this plan and `others` as inputs.
    ///
    /// # Errors
    /// [`PlanError`] if the operator rejects a parameter or an input's type.
    pub fn apply(
        &self,
        declaration: &Declaration,
        params: Map<String, Value>,
        others: &[Self],
    ) -> Result<Self, PlanError> {
        let mut inputs = vec![self.clone()];
        inputs.extend_from_slice(others);
        let accepted = match declaration.inputs {
            Inputs::Exactly(n) => inputs.len() == n,
            Inputs::AtLeast(n) => inputs.len() >= n,
        };
        if !accepted {
            return Err(PlanError::Inputs {
                operator: declaration.name,
                expected: match declaration.inputs {
                    Inputs::Exactly(n) => n.to_string(),
                    Inputs::AtLeast(n) => format!("{n} or more"),
                },
                got: inputs.len(),
            });
        }
        let mut params = declaration.check(params)?;
        let types: Vec<PortType> = inputs.iter().map(Self::port).collect();
        declaration.resolve_lengths(&mut params, &types)?;
        let properties = (declaration.build)(&params)?.bind(&types)?;
        let op = Op::Apply {
            declaration: *declaration,
            params,
            changes: None,
        };
        let indices = EdgeIndices::of_operator(op.name(), &properties, &index_ranges(&inputs))?;
        let plan = Self {
            node: Arc::new(Node {
                op,
                inputs,
                properties,
                indices,
            }),
            output: 0,
        };
        if plan.node.properties.closes_loop {
            let graph = Graph::new(&plan);
            graph.check_loop(graph.outputs[0].0)?;
        }
        Ok(plan)
    }

    /// Adds an operator of one input, possibly of another crate.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    pub fn then<O: OperatorType>(&self, params: Map<String, Value>) -> Result<Self, PlanError> {
        self.apply(&O::DECLARATION, params, &[])
    }

    /// Adds an operator of a factory, with this plan and `others` as inputs.
    ///
    /// # Errors
    /// [`PlanError`] if the operator rejects an input, or [`PlanError::WritesItsInput`].
    pub fn apply_factory(
        &self,
        factory: SharedFactory,
        others: &[Self],
    ) -> Result<Self, PlanError> {
        let mut inputs = vec![self.clone()];
        inputs.extend_from_slice(others);
        let types: Vec<PortType> = inputs.iter().map(Self::port).collect();
        // Only for writers: a plan can be a long chain.
        for input in inputs.iter().filter(|_| factory.0.is_writer()) {
            for node in Graph::new(input).nodes {
                let saved = node.op.recording().and_then(|live| live.0.saved());
                if let Some(saved) = saved.filter(|saved| factory.0.writes(saved)) {
                    let name = saved.get("signal").and_then(Value::as_str);
                    return Err(PlanError::WritesItsInput {
                        operator: factory.0.name(),
                        signal: name.unwrap_or_default().into(),
                    });
                }
            }
        }
        let properties = factory.0.make(None)?.bind(&types)?;
        let op = Op::Factory(factory);
        let indices = EdgeIndices::of_operator(op.name(), &properties, &index_ranges(&inputs))?;
        Ok(Self {
            node: Arc::new(Node {
                op,
                inputs,
                properties,
                indices,
            }),
            output: 0,
        })
    }

    /// The same plans of signals as they are now, without later appends.
    ///
    /// # Errors
    /// [`PlanError::NoRecording`], [`PlanError::DamagedRecording`].
    pub fn at_snapshots(plans: &[Self]) -> Result<Vec<Self>, PlanError> {
        let mut done: HashMap<*const Node, Arc<Node>> = HashMap::new();
        // Recursion would overflow on plans of thousands of operators.
        let mut stack: Vec<_> = plans.iter().map(|plan| (&plan.node, false)).collect();
        while let Some((node, inputs_done)) = stack.pop() {
            if done.contains_key(&Arc::as_ptr(node)) {
                continue;
            }
            if !inputs_done {
                stack.push((node, true));
                stack.extend(node.inputs.iter().map(|input| (&input.node, false)));
                continue;
            }
            let mut op = node.op.clone();
            if let Op::Scan { recording, .. } = &mut op
                && let Some(pinned) = recording.0.at_snapshot()?
            {
                *recording = pinned;
            }
            let inputs = node.inputs.iter().map(|input| Self {
                node: Arc::clone(&done[&Arc::as_ptr(&input.node)]),
                output: input.output,
            });
            let new = Node {
                op,
                inputs: inputs.collect(),
                properties: node.properties.clone(),
                indices: node.indices.clone(),
            };
            done.insert(Arc::as_ptr(node), Arc::new(new));
        }
        let plans = plans.iter().map(|plan| Self {
            node: Arc::clone(&done[&Arc::as_ptr(&plan.node)]),
            output: plan.output,
        });
        Ok(plans.collect())
    }

    /// Ranges of stored signals that it reads.
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

    /// Whether execution occupies the Python interpreter.
    #[must_use]
    pub fn needs_interpreter(&self) -> bool {
        let mut nodes = Graph::new(self).nodes.into_iter();
        nodes.any(|node| node.properties.needs == Resource::Interpreter)
    }

    /// Another output of the last operator.
    ///
    /// # Errors
    /// [`PlanError::NoSuchOutput`].
    pub fn output(&self, output: u16) -> Result<Self, PlanError> {
        let have = self.node.properties.outputs.len();
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

    /// Number of outputs of the last operator.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.node.properties.outputs.len()
    }

    /// Inputs of the last operator.
    #[must_use]
    pub fn inputs(&self) -> &[Self] {
        &self.node.inputs
    }

    /// Type of this output.
    #[must_use]
    pub fn port(&self) -> PortType {
        self.node.properties.outputs[usize::from(self.output)]
    }

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

/// Ranges of a stored signal that a plan reads.
#[derive(Debug, Clone)]
pub struct ScannedSignal {
    /// At the commit at which the plan was built.
    pub signal: Signal,
    /// Index ranges, in read order.
    pub ranges: Vec<Range<i64>>,
    /// Reads all that exists at execution; a [`RepeatedPlan`](crate::RepeatedPlan) can narrow this.
    pub whole: bool,
}

fn index_ranges(inputs: &[Plan]) -> Vec<(PortType, &EdgeIndices)> {
    let inputs = inputs.iter();
    inputs
        .map(|plan| (plan.port(), &plan.node.indices))
        .collect()
}
