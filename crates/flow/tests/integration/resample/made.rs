use isochrony_flow::{Array, Plan, PlanError, Segments, SharedRecording, json, operators};
use isochrony_segment::{Sample, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use serde_json::{Map, Value};

pub(crate) fn stream() -> Stream {
    Stream::new("stn/p", TimebaseId(0), Rate::new(1000, 1).unwrap())
}

pub(crate) fn scan<T: Sample>(stretches: &[(i64, Vec<T>)], cut: usize, stream: StreamId) -> Plan {
    let segments = stretches.iter().flat_map(|(start, samples)| {
        let pieces = samples.chunks(cut).enumerate();
        pieces.map(move |(k, piece)| {
            SigSeg::from_slice(piece, start + (k * cut) as i64, stream).unwrap()
        })
    });
    let recording = Segments::new(segments.collect::<Vec<_>>()).unwrap();
    Plan::scan_part(SharedRecording::new(recording), None, cut as u64)
}

pub(crate) fn params(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

pub(crate) fn resample(plan: &Plan, value: Value) -> Result<Plan, PlanError> {
    plan.then::<operators::Resample>(params(value))
}

pub(crate) fn array(plan: &Plan) -> Array {
    plan.collect().unwrap().array().unwrap().clone()
}

pub(crate) fn noise(count: usize) -> Vec<f64> {
    (0..count)
        .map(|n| ((n * n) as f64 * 0.37).sin() + 0.2)
        .collect()
}

/// Quick: short weights.
pub(crate) fn quick(up: u64, down: u64, edges: &str) -> Value {
    json!({"up": up, "down": down, "edges": edges, "attenuation_db": 50.0, "passband": 0.5})
}
