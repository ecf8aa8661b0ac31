//! Figure 6: DETECTAUDIO under each memory manager, with growing batches.
//!
//! Sources push a batch of each channel at once. So sync accumulates the whole batch, segment by segment, before the
//! detector's ranges let go of it: what appending costs decides. Sync forgets once a batch, as under run to completion.

use serde_json::{Value, json};

use crate::data::{CHANNELS, SEGMENT, audio, detect_audio};
use crate::kernels::{Detector, Spectrum, WINDOW, digest_samples};
use crate::measure::{Contestant, contest, rates, show};
use crate::memory::{CopyAlways, Pooled, RefCountCopy, RefCountLazy, RefCountRealloc, Segment};
use crate::product;

/// The query of figure 2 over whole batches, with nothing of an engine but the segments that pass.
fn detect<S: Segment>(channels: &[Vec<f32>], batch: usize) -> u64 {
    let mut memory = S::Memory::default();
    let (spectrum, mut detector) = (Spectrum::default(), Detector::default());
    let mut accumulators: [Option<S>; CHANNELS] = Default::default();
    let mut windows = Vec::new();
    let mut carry: Option<S> = None;
    let mut ranges = Vec::new();
    let mut sum = 0u64;
    let total = channels[0].len();
    for begin in (0..total).step_by(batch) {
        let mut waiting = Vec::new();
        for start in (begin..total.min(begin + batch)).step_by(SEGMENT) {
            for (channel, samples) in channels.iter().enumerate() {
                let part = &samples[start..total.min(start + SEGMENT)];
                let segment = S::make(&mut memory, start as i64, part);
                if channel == 0 {
                    waiting.push(segment.pass());
                }
                let before = accumulators[channel].take();
                let passed = segment.pass();
                accumulators[channel] = Some(match before {
                    Some(before) => before.append(passed),
                    None => passed,
                });
            }
        }
        // Windows are cut from segments joined to what was left over, and passed on.
        for segment in waiting {
            let joined = match carry.take() {
                Some(rest) => rest.append(segment),
                None => segment,
            };
            let mut at = joined.start();
            while at + WINDOW as i64 <= joined.end() {
                windows.push(joined.cut(at, at + WINDOW as i64));
                at += WINDOW as i64;
            }
            carry = (at < joined.end()).then(|| joined.cut(at, joined.end()));
            for window in windows.drain(..) {
                let score = spectrum.score(&window.window());
                ranges.extend(detector.push(window.start(), score));
            }
        }
        for (channel, accumulator) in accumulators.iter_mut().enumerate() {
            let Some(all) = accumulator.take() else {
                continue;
            };
            for range in &ranges {
                let selected = all.cut(range.start, range.end.min(all.end())).pass();
                let mut at = selected.start();
                selected.visit(&mut |part| {
                    sum = sum.wrapping_add(digest_samples(channel, at, part));
                    at += part.len() as i64;
                });
            }
            let keep = detector.upto().clamp(all.start(), all.end());
            *accumulator = (keep < all.end()).then(|| all.cut(keep, all.end()));
        }
        ranges.clear();
    }
    sum
}

/// Every manager at every size of a batch.
pub fn run(quick: bool) -> Value {
    let count = if quick { 1 << 17 } else { 3 << 18 };
    let channels = audio(CHANNELS, count);
    let expected = detect_audio(&channels);
    let kilobytes: &[usize] = if quick {
        &[15, 150]
    } else {
        &[4, 15, 30, 60, 100, 150, 200, 300, 450, 1000]
    };
    let rounds = if quick { 1 } else { 7 };
    // All sizes take turns, too, so that a busy moment of the machine makes no step in a curve.
    let mut contestants = Vec::new();
    for &kb in kilobytes {
        let (own, batch) = (&channels, whole_segments(kb));
        contestants.extend([
            Contestant::new("CopyAlways", move || detect::<CopyAlways>(own, batch)),
            Contestant::new("RefCount-Copy", move || detect::<RefCountCopy>(own, batch)),
            Contestant::new("RefCount-Realloc", move || {
                detect::<RefCountRealloc>(own, batch)
            }),
            Contestant::new("RefCount-Lazy", move || detect::<RefCountLazy>(own, batch)),
            Contestant::new("Isochrony's segments", move || detect::<Pooled>(own, batch)),
            Contestant::new(
                "Isochrony's engine",
                product::detect_audio_in_batches(own, batch),
            ),
        ]);
    }
    let times = contest("memory", rounds, expected, &mut contestants);
    let each = times.chunks(contestants.len() / kilobytes.len());
    let points = kilobytes.iter().zip(each).map(|(&kb, times)| {
        let rates = rates(times, (CHANNELS * count) as u64, "Isochrony's segments");
        let kilobytes = (whole_segments(kb) * 4) as f64 / 1000.0;
        show(&format!("memory/{kilobytes:.0}-kB"), &rates);
        json!({"kilobytes": kilobytes, "rates": rates})
    });
    json!(points.collect::<Vec<_>>())
}

/// Samples of a batch of so many kilobytes.
fn whole_segments(kilobytes: usize) -> usize {
    (kilobytes * 1000 / 4 / SEGMENT).max(1) * SEGMENT
}
