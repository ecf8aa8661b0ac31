//! Names measured costs of operators: equal for equal operators, parameters and input types, whatever plan they are in.

use serde_json::{Map, Value, json};

use crate::plan::Op;
use crate::plan::graph::Graph;

pub(super) fn key(graph: &Graph, node: usize) -> String {
    let one = &graph.nodes[node];
    let none = Map::new();
    let params = match &one.op {
        Op::Apply { params, .. } => params,
        _ => &none,
    };
    let inputs = one.inputs.iter().map(|&(from, output)| {
        let port = &graph.nodes[from].properties.outputs[usize::from(output)];
        let text = port.to_string();
        text.split(" of ").next().unwrap_or_default().to_owned()
    });
    let inputs: Vec<String> = inputs.collect();
    let params = Value::Object(params.clone());
    format!("{} {} {}", one.op.name(), params, json!(inputs))
}
