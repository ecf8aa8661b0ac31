//! Plans sent to another process.
//!
//! The form is that of a saved plan, with references to objects that are no JSON: a snapshot of a signal, samples in
//! memory, a function. They lie in a list beside the form, which names them by position. What writes, or waits for a
//! feed, stays in its process; where only tasks and blocks are computed, stand-ins take its place.

use serde_json::{Value, json};

use super::absent_recording::absent_recording;
use super::graph::{Graph, GraphNode};
use super::node::Plan;
use super::sent_objects::SentObjects;
use crate::scheduler::remote::host;
use crate::{
    Contract, Item, Next, OpError, Operator, OperatorFactory, OperatorProperties, Out, Parallelism,
    PlanError, Port, PortType, RunOptions, SharedRecording,
};

/// The name of an operator that stays in the process that sent the plan.
pub(super) const STAYS: &str = "stays_with_the_client";

/// Takes the place of an operator of another process, which passes on what it gets and is never called in tasks.
pub(super) struct AbsentOperator;

impl OperatorFactory for AbsentOperator {
    fn name(&self) -> &'static str {
        STAYS
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self))
    }
}

impl Operator for AbsentOperator {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}

impl Plan {
    /// Whether a part of it is executed on a host that it names.
    #[must_use]
    pub fn has_hosts(&self) -> bool {
        let nodes = Graph::new(self).nodes;
        nodes.iter().any(|node| node.properties.host.is_some())
    }

    /// The plan for another process: JSON, and the objects it refers to by position. [`from_json`](Self::from_json)
    /// reads it, with a catalog and a resolver that know the objects.
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if an operator writes, or exists in this process only.
    pub fn to_sent(&self) -> Result<(Value, SentObjects), PlanError> {
        sent(&Graph::new(self), false, |_| false)
    }

    /// The same of several plans for a process that executes their tasks and blocks only. What they have in common is sent once.
    /// What writes, or is called in the caller's thread, stays here, and so do feeds and what hosts give; there, operators that
    /// do nothing and recordings that are never read take their places.
    /// [`several_from_json`](Self::several_from_json) reads it.
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if another operator exists in this process only, or a source that tasks would read.
    pub fn to_sent_for_tasks(plans: &[Self]) -> Result<(Value, SentObjects), PlanError> {
        let options = RunOptions {
            workers: 2,
            ..RunOptions::default()
        };
        let mut graph = Graph::of(plans);
        host::replace_with_stand_ins(&mut graph);
        sent(&graph, true, |node| {
            let (super::Op::Factory(factory), [(from, output)]) = (&node.op, &node.inputs[..])
            else {
                return false;
            };
            let input = graph.nodes[*from].properties.outputs[usize::from(*output)];
            let stays = matches!(
                factory.0.parallelism(&options),
                Parallelism::CallingThread(_)
            );
            stays && node.properties.outputs[..] == [input]
        })
    }
}

pub(crate) fn sent(
    graph: &Graph,
    feeds_stay: bool,
    stays: impl Fn(&GraphNode) -> bool,
) -> Result<(Value, SentObjects), PlanError> {
    let mut objects = SentObjects::default();
    let mut nodes = Vec::with_capacity(graph.nodes.len());
    for node in &graph.nodes {
        if stays(node) {
            nodes.push(json!({"op": STAYS, "inputs": node.inputs}));
            continue;
        }
        nodes.push(match &node.op {
            super::Op::Scan { recording, .. } => match recording.0.sent(&mut objects) {
                Err(PlanError::NotSendable { .. })
                    if feeds_stay && !recording.0.is_splittable() =>
                {
                    node.saved(&absent_recording(graph, recording))
                }
                form => node.saved(&form?),
            },
            super::Op::Factory(factory) => node.saved(&factory.0.sent(&mut objects)?),
            super::Op::Apply { params, .. } => node.saved(params),
        });
    }
    Ok((graph.saved(nodes), objects))
}
