//! A recording with gaps, stored or generated during a run, for controls that change it.

use std::time::Duration;

use isochrony_flow::{GeneratedRecording, Plan, Segments, SharedRecording};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};

pub(crate) const SAMPLES: i64 = 12_000;

pub(crate) fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

pub(crate) fn value(index: i64) -> f64 {
    (index.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 44) as f64
}

pub(crate) fn ranges(gaps: &[i64]) -> Vec<(i64, i64)> {
    let mut ends = gaps.to_vec();
    ends.push(SAMPLES);
    ends.sort_unstable();
    let mut start = 0;
    let mut ranges = Vec::new();
    for end in ends {
        if end > start {
            ranges.push((start, end));
            start = end + 13;
        }
    }
    ranges
}

pub(crate) fn segment(from: i64, to: i64) -> SigSeg {
    let values: Vec<f64> = (from..to).map(value).collect();
    SigSeg::from_slice(&values, from, stream()).unwrap()
}

pub(crate) fn stored(ranges: &[(i64, i64)], length: u64) -> Plan {
    let segments = ranges.iter().map(|&(from, to)| segment(from, to));
    let recording = Segments::new(segments).unwrap();
    Plan::scan_part(SharedRecording::new(recording), None, length)
}

/// `pause` after each segment lets another thread make changes.
pub(crate) fn made(ranges: &[(i64, i64)], length: i64, pause: Duration) -> Plan {
    let parts = ranges.iter().flat_map(|&(from, to)| {
        let starts = (from..to).step_by(length as usize);
        starts.map(move |start| (start, to.min(start + length)))
    });
    let parts: Vec<(i64, i64)> = parts.collect();
    Plan::scan(GeneratedRecording::new(DType::F64, stream(), move || {
        let mut parts = parts.clone().into_iter();
        Ok(Box::new(move || {
            std::thread::sleep(pause);
            Ok(parts.next().map(|(from, to)| segment(from, to)))
        }))
    }))
}
