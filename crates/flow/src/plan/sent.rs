//! Plans sent to another process.
//!
//! The form is a saved plan's, with references by position to a list of non-JSON objects: a signal's snapshot, samples
//! in memory, a function. Writers and feeds stay in their process; where only tasks and blocks are computed, stand-ins
//! take their place.

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

pub(super) const STAYS: &str = "stays_with_the_client";

/// Passes items on, and is never called in tasks.
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
    /// Whether a part is executed on a named host.
    #[must_use]
    pub fn has_hosts(&self) -> bool {
        let nodes = Graph::new(self).nodes;
        nodes.iter().any(|node| node.properties.host.is_some())
    }

    /// The plan for another process: JSON, and the objects it refers to. Read by [`from_json`](Self::from_json), with a
    /// catalog and a resolver that know them.
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if an operator writes or is bound to this process.
    pub fn to_sent(&self) -> Result<(Value, SentObjects), PlanError> {
        sent(&Graph::new(self), false, |_| false)
    }

    /// Several plans for a process that executes only their tasks and blocks; common parts are sent once. Writers,
    /// operators of the caller's thread, feeds and results of hosts stay here, replaced there by operators that do
    /// nothing and unread recordings. Read by [`several_from_json`](Self::several_from_json).
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if another operator, or a source of tasks, is bound to this process.
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
