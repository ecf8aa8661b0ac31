//! Branches added by a control, and where they are tapped.

use std::sync::Arc;

use serde_json::Value;

use super::{ActivePlan, rewritten};
use crate::engine::branches::{Tap, TapInbox, TapRecording};
use crate::engine::report::BranchReport;
use crate::plan::Op;
use crate::plan::graph::{Edge, Graph, GraphNode};
use crate::plan::rows::START;
use crate::{
    OperatorProperties, Plan, PlanError, PortType, Resource, SEGMENT_SAMPLES, SharedRecording,
};

pub(super) struct AddedBranch {
    plan: Plan,
    pub(super) tap: Arc<Tap>,
    edge: Edge,
    /// Upstream operator; its number in the plan as written.
    tapped: (&'static str, usize),
    inbox: Option<Arc<TapInbox>>,
    is_removed: bool,
}

fn refused(operator: &'static str, what: impl Into<String>, mend: &'static str) -> PlanError {
    PlanError::Branch {
        operator,
        change: "added",
        what: what.into(),
        mend,
    }
}

fn has_effect(node: &GraphNode) -> bool {
    matches!(node.op, Op::Factory(_)) || node.properties.needs == Resource::Interpreter
}

fn has_indices(port: &PortType) -> bool {
    match port {
        PortType::Rows { fields, stream } => stream.is_some() && fields.find(START).is_some(),
        _ => true,
    }
}

impl AddedBranch {
    pub(super) fn is_of(&self, plan: &Plan) -> bool {
        Arc::ptr_eq(&self.plan.node, &plan.node)
    }

    pub(super) fn is_removed(&self) -> bool {
        self.is_removed
    }

    fn operator(&self) -> &'static str {
        self.plan.node.op.name()
    }

    /// Ends it before an index; None: with what it has received.
    pub(super) fn remove(&mut self, at: Option<i64>) {
        self.is_removed = true;
        self.tap.remove(at);
        if let Some(inbox) = &self.inbox {
            inbox.notice();
        }
    }

    /// Chooses among the executors, the caller's thread last.
    pub(super) fn attach(&mut self, inboxes: &[Arc<TapInbox>]) -> Result<(), PlanError> {
        let mut able = inboxes.iter().rev();
        let Some(inbox) = able.find(|inbox| inbox.has(self.edge)) else {
            let (name, number) = self.tapped;
            let what = format!(
                "{name} (node {number}), whose results it needs, is computed by several threads at a time, in tasks or replicas"
            );
            let mend = "give the run workers=1, or put the branch behind a later operator";
            return Err(refused(self.operator(), what, mend));
        };
        inbox.add(self.edge, &self.tap);
        self.inbox = Some(Arc::clone(inbox));
        Ok(())
    }

    pub(super) fn report(&self) -> BranchReport {
        let (from, upto, items) = self.tap.passed();
        BranchReport {
            operator: self.operator(),
            tap: self.tapped.0,
            node: self.tapped.1,
            from,
            upto,
            items,
        }
    }
}

impl ActivePlan {
    /// Refuses to write what any part of the plan reads.
    fn check_writer(&self, node: &GraphNode) -> Result<(), PlanError> {
        let Op::Factory(factory) = &node.op else {
            return Ok(());
        };
        let scans = self.written.nodes.iter();
        let mut read = scans.filter_map(|node| node.op.recording()?.0.saved());
        match read.find(|saved| factory.0.is_writer() && factory.0.writes(saved)) {
            None => Ok(()),
            Some(saved) => Err(PlanError::WritesItsInput {
                operator: factory.0.name(),
                signal: (saved.get("signal").and_then(Value::as_str))
                    .unwrap_or_default()
                    .into(),
            }),
        }
    }

    /// A branch, and the graph of what the plan lacks.
    pub(super) fn branch(
        &self,
        plan: &Plan,
        at: Option<i64>,
    ) -> Result<(AddedBranch, Graph), PlanError> {
        let operator = plan.node.op.name();
        let whole = Graph::new(plan);
        whole.check_loops()?;
        let found = self.written.common(&whole);
        if found.iter().all(Option::is_none) {
            return Err(PlanError::NotRunning { operator });
        }
        let last = whole.outputs[0].0;
        if found[last].is_some() {
            let mend = "give a plan with other operators at its end";
            return Err(refused(operator, "it is part of the plan", mend));
        }
        if !has_effect(&whole.nodes[last]) {
            let mend = "end it in sink(...), a file, send(...) or each(...)";
            return Err(refused(operator, "nothing would receive its results", mend));
        }
        let own = || (0..whole.nodes.len()).filter(|&node| found[node].is_none());
        let inputs = own().flat_map(|node| whole.nodes[node].inputs.iter().copied());
        let mut shared: Vec<Edge> = inputs.filter(|&(from, _)| found[from].is_some()).collect();
        shared.sort_unstable();
        shared.dedup();
        let reads_more = own().any(|node| whole.nodes[node].inputs.is_empty());
        let ([edge], false) = (&shared[..], reads_more) else {
            let what = "it reads more than the results of one operator of the plan";
            let mend = "begin it behind one operator of the plan, and with nothing else";
            return Err(refused(operator, what, mend));
        };
        let types = whole.nodes[edge.0].properties.outputs[usize::from(edge.1)];
        let name = whole.nodes[edge.0].op.name();
        if at.is_some() && !has_indices(&types) {
            return Err(PlanError::NoIndices { operator });
        }
        let (written, reads) = (found[edge.0].unwrap_or(0), whole.recording_of_edge(*edge));
        // With the parameters as changed so far.
        let before = rewritten(&self.changed.upto((written, edge.1)), self.optimised);
        let executed = self.executed.find(&before).zip(before.outputs.first());
        let (Some((executed, &(_, output))), Some(reads)) = (executed, reads) else {
            let what = format!(
                "the optimiser has rewritten {name} (node {written}), whose results it needs"
            );
            let mend = "give the run optimise=False, or put the branch behind another operator";
            return Err(refused(operator, what, mend));
        };
        let tap = Arc::new(Tap::new(at));
        let scan = GraphNode {
            properties: OperatorProperties::new([types]),
            op: Op::Scan {
                recording: SharedRecording::new(TapRecording {
                    tap: Arc::clone(&tap),
                    types,
                    reads,
                }),
                range: None,
                segment: SEGMENT_SAMPLES,
            },
            inputs: Vec::new(),
        };
        for node in own() {
            self.check_writer(&whole.nodes[node])?;
        }
        let (mut nodes, mut plan_nodes) = (vec![scan], vec![(name, written)]);
        let mut numbers = vec![0; whole.nodes.len()];
        for node in own() {
            let inputs = whole.nodes[node].inputs.iter();
            let inputs = inputs.map(|from| match from == edge {
                true => (0, 0),
                false => (numbers[from.0], from.1),
            });
            let inputs = inputs.collect();
            numbers[node] = nodes.len();
            let one = &whole.nodes[node];
            plan_nodes.push((one.op.name(), self.written.nodes.len() + nodes.len() - 1));
            nodes.push(GraphNode {
                inputs,
                ..one.clone()
            });
        }
        let graph = Graph {
            nodes,
            outputs: vec![(numbers[last], plan.output)],
            plan_nodes,
        };
        let branch = AddedBranch {
            plan: plan.clone(),
            tap,
            edge: (executed, output),
            tapped: (name, written),
            inbox: None,
            is_removed: false,
        };
        Ok((branch, graph))
    }
}
