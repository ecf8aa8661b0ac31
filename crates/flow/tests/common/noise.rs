//! A recording with loud and quiet parts, determined by indices.

use std::ops::Range;

use isochrony_flow::{Segments, SharedRecording};
use isochrony_segment::{SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn value(index: i64) -> i16 {
    let noise = (index.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 48) as i16;
    noise >> (4 + (index / 37).rem_euclid(4))
}

pub(crate) fn recording(stretches: &[Range<i64>], cut: i64) -> SharedRecording {
    let pieces = stretches.iter().flat_map(|range| {
        let starts = (range.start..range.end).step_by(cut as usize);
        starts.map(|start| {
            let end = range.end.min(start + cut);
            let samples: Vec<i16> = (start..end).map(value).collect();
            SigSeg::from_slice(&samples, start, stream()).unwrap()
        })
    });
    SharedRecording::new(Segments::new(pieces.collect::<Vec<_>>()).unwrap())
}
