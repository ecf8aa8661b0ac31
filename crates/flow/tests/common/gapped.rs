//! A recording with gaps, and options for many tasks.

use std::ops::Range;

use isochrony_flow::{Plan, RunOptions, Segments, SharedRecording};
use isochrony_segment::{SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};

pub(crate) const SAMPLES: i64 = 40_000;

pub(crate) fn recording() -> SharedRecording {
    let stream = Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern();
    let piece = |range: Range<i64>| {
        let samples: Vec<i16> = range.clone().map(|k| (k % 1000) as i16).collect();
        SigSeg::from_slice(&samples, range.start, stream).unwrap()
    };
    let pieces = [0..12_345, 12_346..30_000, 31_000..SAMPLES];
    SharedRecording::new(Segments::new(pieces.map(piece)).unwrap())
}

pub(crate) fn windows() -> Plan {
    Plan::scan_part(recording(), None, 500)
        .rewindow(100)
        .unwrap()
}

pub(crate) fn options(workers: usize) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    (options.workers, options.task) = (workers, 2000);
    options
}

pub(crate) fn named(plan: &Plan, name: &str, params: serde_json::Value) -> Plan {
    let declaration = *isochrony_flow::Catalog::standard().get(name).unwrap();
    let params = params.as_object().unwrap().clone();
    plan.apply(&declaration, params, &[]).unwrap()
}
