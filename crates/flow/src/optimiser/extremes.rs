//! Optimiser rule: reads minimum, maximum and count of a scan from the stored pyramid instead of its samples.

use isochrony_segment::DType;
use serde_json::Value;

use super::rewriter::{Rewriter, is_operator, param};
use crate::plan::Op;
use crate::{PortType, operators};

/// Statistics that are exact in whatever order samples are combined. The mean and std depend on it by rounding.
const ORDER_INDEPENDENT: [&str; 3] = ["min", "max", "count"];

/// Applies if the scan has no other consumer. Returns the line for `explain`.
pub(super) fn read_extremes(rewriter: &mut Rewriter<'_>, at: usize) -> Option<String> {
    let node = &rewriter.graph().nodes[at];
    if !is_operator::<operators::Stats>(node) {
        return None;
    }
    let names = param(node, "names").and_then(Value::as_array)?;
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let wanted = names.join(", ");
    if !names.iter().all(|name| ORDER_INDEPENDENT.contains(name)) {
        return None;
    }
    let scan = rewriter.only_input(at)?;
    let Op::Scan { recording, .. } = &mut rewriter.graph_mut().nodes[scan].op else {
        return None;
    };
    let PortType::Samples { dtype, stream } = recording.0.port() else {
        return None;
    };
    let stream = stream.get();
    // The pyramid has no bools, and of complex counts the extremes of |count|: with an offset, those of |value| do not
    // follow from them.
    if dtype == DType::Bool || dtype.is_complex() && !stream.calibration.is_identity() {
        return None;
    }
    *recording = recording.0.extremes()?;
    Some(format!(
        "stored pyramid: {wanted} of {} are read from it, not from the samples",
        stream.name
    ))
}
