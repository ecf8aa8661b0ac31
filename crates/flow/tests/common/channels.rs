//! Channels of one recording, equally loud, each with its own samples and gaps.

use std::ops::Range;

use isochrony_flow::{Segments, SharedRecording};
use isochrony_segment::{SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

pub(crate) fn value(channel: i64, index: i64) -> i16 {
    let place = index.wrapping_add(channel * 100_003);
    let noise = (place.wrapping_mul(0x9E37_79B9_7F4A_7C15u64 as i64) >> 48) as i16;
    noise >> (4 + (index / 37).rem_euclid(4))
}

/// Segments are separate in memory.
pub(crate) fn channel(nth: i64, stretches: &[Range<i64>], cut: i64) -> SharedRecording {
    SharedRecording::new(segments(nth, stretches, cut))
}

#[allow(dead_code)]
pub(crate) fn segments(channel: i64, stretches: &[Range<i64>], cut: i64) -> Segments {
    let pieces = stretches.iter().flat_map(|range| {
        let starts = (range.start..range.end).step_by(cut as usize);
        starts.map(|start| {
            let end = range.end.min(start + cut);
            let samples: Vec<i16> = (start..end).map(|index| value(channel, index)).collect();
            SigSeg::from_slice(&samples, start, stream()).unwrap()
        })
    });
    Segments::new(pieces.collect::<Vec<_>>()).unwrap()
}
