//! Answers minimum, maximum and count of all samples from stored views.

use isochrony_segment::DType;
use serde_json::Value;

use super::rewriter::{Rewriter, is_operator, param};
use crate::plan::Op;
use crate::{PortType, operators};

/// Statistics independent of summation order.
const EXACT: [&str; 3] = ["min", "max", "count"];

/// Applies if nothing else is wanted of the samples.
pub(super) fn read_extremes(rewriter: &mut Rewriter<'_>, at: usize) -> Option<String> {
    let node = &rewriter.graph().nodes[at];
    if !is_operator::<operators::Stats>(node) {
        return None;
    }
    let names = param(node, "names").and_then(Value::as_array)?;
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let wanted = names.join(", ");
    if !names.iter().all(|name| EXACT.contains(name)) {
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
    // Views keep magnitudes of complex counts, which do not determine calibrated ones.
    if dtype == DType::Bool || dtype.is_complex() && !stream.calibration.is_identity() {
        return None;
    }
    *recording = recording.0.extremes()?;
    Some(format!(
        "stored views: {wanted} of {} come from views, not from samples",
        stream.name
    ))
}
