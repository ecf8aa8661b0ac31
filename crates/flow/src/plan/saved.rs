//! Plans as JSON.

use serde_json::{Map, Value, json};

use super::absent_recording::AbsentRecording;
use super::graph::{Graph, GraphNode};
use super::node::{Op, Plan, SEGMENT_SAMPLES};
use super::port_form::Timebases;
use super::sent::{AbsentOperator, STAYS};
use crate::{Catalog, PlanError, PortType, SharedFactory, SharedRecording};

/// Finds the recording of a saved scan.
pub type RecordingResolver<'a> =
    dyn Fn(&Map<String, Value>) -> Result<SharedRecording, PlanError> + 'a;

impl GraphNode {
    pub(super) fn saved(&self, form: &Map<String, Value>) -> Value {
        match &self.op {
            Op::Scan { range, segment, .. } => {
                let range = range.as_ref().map(|r| [r.start, r.end]);
                json!({"op": "scan", "of": form, "range": range, "segment": segment})
            }
            op => json!({"op": op.name(), "params": form, "inputs": self.inputs}),
        }
    }
}

impl Graph {
    pub(super) fn saved(&self, nodes: Vec<Value>) -> Value {
        match &self.outputs[..] {
            [output] => json!({"isochrony_plan": 1, "nodes": nodes, "output": output}),
            outputs => json!({"isochrony_plan": 1, "nodes": nodes, "outputs": outputs}),
        }
    }
}

impl Plan {
    /// The plan as JSON, nodes in topological order.
    ///
    /// # Errors
    /// [`PlanError::NotSaveable`] if it depends on an object of this process.
    pub fn to_json(&self) -> Result<Value, PlanError> {
        let graph = Graph::new(self);
        let nodes = graph.nodes.iter().map(|node| {
            Ok(match &node.op {
                Op::Scan { recording, .. } => {
                    let (what, mend) = match recording.is_feed() {
                        true => (
                            "a source that receives or makes its samples in this process",
                            "record them into a store and scan the signal, or generate them by a function \
                             that can be imported by its name",
                        ),
                        false => ("samples in memory", "store them as a signal and scan that"),
                    };
                    let saved = recording.0.saved().ok_or_else(|| PlanError::NotSaveable {
                        operator: format!("scan of {}", recording.0.port()),
                        what,
                        mend,
                    })?;
                    node.saved(&saved)
                }
                Op::Apply { params, .. } => node.saved(params),
                Op::Factory(kept) => node.saved(&kept.0.saved()?),
            })
        });
        let nodes = nodes.collect::<Result<Vec<_>, PlanError>>()?;
        Ok(graph.saved(nodes))
    }

    /// Reads a saved plan; `resolve` finds the recording of a scan.
    ///
    /// # Errors
    /// [`PlanError::Unreadable`], or the error of adding an operator.
    pub fn from_json(
        saved: &Value,
        catalog: &Catalog,
        resolve: &RecordingResolver<'_>,
    ) -> Result<Self, PlanError> {
        let mut plans = Self::several_from_json(saved, catalog, resolve)?;
        match plans.len() {
            1 => Ok(plans.swap_remove(0)),
            count => Err(PlanError::Unreadable {
                why: format!("it is {count} plans instead of one"),
            }),
        }
    }

    /// Reads several plans of one form.
    ///
    /// # Errors
    /// As [`from_json`](Self::from_json).
    pub fn several_from_json(
        saved: &Value,
        catalog: &Catalog,
        resolve: &RecordingResolver<'_>,
    ) -> Result<Vec<Self>, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        if saved.get("isochrony_plan") != Some(&json!(1)) {
            return Err(unreadable(
                "it has no \"isochrony_plan\": 1, so it is not a plan of this version".into(),
            ));
        }
        let list = saved.get("nodes").and_then(Value::as_array);
        let list = list.ok_or_else(|| unreadable("\"nodes\" is no list".into()))?;
        let mut nodes: Vec<Self> = Vec::with_capacity(list.len());
        let mut timebases = Timebases::default();
        let pick = |nodes: &[Self], edge: &Value| -> Result<Self, PlanError> {
            let (node, output): (usize, u16) = serde_json::from_value(edge.clone())
                .map_err(|why| unreadable(format!("{edge} is not [node, output]: {why}")))?;
            let node = nodes.get(node);
            node.ok_or_else(|| unreadable(format!("{edge} names a node that is not before it")))?
                .output(output)
        };
        for (at, node) in list.iter().enumerate() {
            let name = node.get("op").and_then(Value::as_str);
            let name = name.ok_or_else(|| unreadable(format!("node {at} has no \"op\"")))?;
            let object = |key: &str| match node.get(key) {
                Some(Value::Object(map)) => Ok(map.clone()),
                None => Ok(Map::new()),
                _ => Err(unreadable(format!("{key:?} of node {at} is not an object"))),
            };
            if name == "scan" {
                let form = object("of")?;
                let recording = match AbsentRecording::from_form(&form, &mut timebases) {
                    Some(absent) => SharedRecording::new(absent?),
                    None => resolve(&form)?,
                };
                let range = node.get("range").cloned().unwrap_or(Value::Null);
                let range: Option<[i64; 2]> = serde_json::from_value(range)
                    .map_err(|why| unreadable(format!("range of node {at}: {why}")))?;
                let segment = node
                    .get("segment")
                    .and_then(Value::as_u64)
                    .unwrap_or(SEGMENT_SAMPLES);
                nodes.push(Self::scan_part(
                    recording,
                    range.map(|[a, b]| a..b),
                    segment,
                ));
                continue;
            }
            let inputs = node.get("inputs").and_then(Value::as_array);
            let inputs =
                inputs.ok_or_else(|| unreadable(format!("node {at} has no \"inputs\"")))?;
            let inputs: Vec<Self> = inputs
                .iter()
                .map(|edge| pick(&nodes, edge))
                .collect::<Result<_, _>>()?;
            let Some((first, others)) = inputs.split_first() else {
                return Err(unreadable(format!("node {at} has no input")));
            };
            if name == STAYS {
                nodes.push(first.apply_factory(SharedFactory::new(AbsentOperator), others)?);
                continue;
            }
            let params = object("params")?;
            let applied = match catalog.factory_resolver(name) {
                Some(resolve) => {
                    let types: Vec<PortType> = inputs.iter().map(Self::port).collect();
                    resolve(&params, &types)
                        .and_then(|factory| first.apply_factory(factory, others))
                }
                None => catalog
                    .get(name)
                    .and_then(|declaration| first.apply(declaration, params, others)),
            };
            nodes.push(applied.map_err(|error| PlanError::InNode {
                node: at,
                error: Box::new(error),
            })?);
        }
        match saved.get("outputs").and_then(Value::as_array) {
            Some(outputs) => outputs.iter().map(|output| pick(&nodes, output)).collect(),
            None => Ok(vec![pick(
                &nodes,
                saved.get("output").unwrap_or(&Value::Null),
            )?]),
        }
    }
}
