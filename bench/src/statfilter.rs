//! flow/statfilter: XStream's synthetic query, a filter of windows by deviation and mean, against a bare loop on the
//! same instruction set.

use std::hint::black_box;
use std::path::Path;

use isochrony::expr::Expr;
use isochrony::flow::{Plan, Segments, SharedRecording};
use isochrony::prelude::*;
use isochrony::segment::Stream;
use isochrony::time::TimebaseId;

use crate::measure::{Results, interleave, noise, ratio};

const WINDOW: usize = 4096;

/// Exact: 8,192 squares of 12-bit samples fit 32 bits.
#[inline(always)]
fn passes(window: &[i16]) -> bool {
    let (mut sum, mut squares) = (0i64, 0i64);
    for part in window.chunks(512) {
        let (mut s, mut q) = (0i32, 0i32);
        for &x in part {
            s += i32::from(x);
            q += i32::from(x) * i32::from(x);
        }
        (sum, squares) = (sum + i64::from(s), squares + i64::from(q));
    }
    let n = window.len() as f64;
    let mean = sum as f64 / n;
    let variance = squares as f64 / n - mean * mean;
    variance.sqrt() > 1182.0 && mean < 0.0
}

#[inline(always)]
fn by_hand(samples: &[i16]) -> u64 {
    samples
        .chunks_exact(WINDOW)
        .filter(|window| passes(window))
        .count() as u64
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn by_hand_avx2(samples: &[i16]) -> u64 {
    by_hand(samples)
}

pub fn run(_: &Path, quick: bool, results: &mut Results) -> Result<(), Box<dyn std::error::Error>> {
    let count = if quick { 1 << 20 } else { 1 << 28 };
    let stream = Stream::new("noise", TimebaseId(0), Rate::from_hz(48_000)?).intern();
    let block = noise(9, 1 << 20);
    let samples: Vec<i16> = block.iter().copied().cycle().take(count).collect();
    let segment = SigSeg::from_slice(&samples, 0, stream)?;
    drop(samples);
    let samples = segment.as_contiguous::<i16>().ok_or("several buffers")?;
    let live = SharedRecording::new(Segments::new([segment.clone()]).ok_or("no segment")?);
    let s = Expr::input();
    let plan = Plan::scan_part(live, None, isochrony::flow::SEGMENT_SAMPLES)
        .rewindow(WINDOW as u64)?
        .filter(&s.std().gt(1182.0))?
        .filter(&s.mean().lt(0.0))?
        .count()?;
    let expected = by_hand(samples);
    assert!(expected > 0 && (expected as usize) < count / WINDOW / 3);
    let ours = || assert_eq!(plan.collect().expect("ran").count(), Some(expected));
    let bare = || {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return assert_eq!(black_box(unsafe { by_hand_avx2(samples) }), expected);
        }
        assert_eq!(black_box(by_hand(samples)), expected);
    };
    let (a, b) = interleave(if quick { 3 } else { 15 }, ours, bare);
    let met = ratio(&a, &b) >= 0.85;
    let name = "flow/statfilter/16-bit/4096";
    results.compare(
        name,
        &a,
        "the bare loop on the same instruction set",
        &b,
        Some(2 * count as u64),
        Some((">= 0.85", met)),
    );
    Ok(())
}
