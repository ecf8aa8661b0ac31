//! Figure 6: DETECTAUDIO and PIPELINE under each memory manager, with growing batches.
//!
//! Sources push a batch of each channel at once. DETECTAUDIO's sync accumulates the whole batch: the cost of appending
//! decides. PIPELINE appends only the rest of a window, and its windows overlap: the cost of cutting decides.

use isochrony::Sample;
use serde_json::{Value, json};

use crate::data::{self, CHANNELS, HOP, LONG, SEGMENT, SENSORS, audio, vibration};
use crate::kernels::{Detector, Spectrum, WINDOW, digest_samples, haar, trim_peak};
use crate::measure::{Contestant, contest, rates, show};
use crate::memory::{CopyAlways, Pooled, RefCountCopy, RefCountLazy, RefCountRealloc, Segment};
use crate::models::common::Leaks;
use crate::product;

/// The query of figure 2 over whole batches.
fn detect<S: Segment<f32>>(channels: &[Vec<f32>], batch: usize) -> u64 {
    let mut memory = S::Memory::default();
    let (spectrum, mut detector) = (Spectrum::default(), Detector::default());
    let mut accumulators: [Option<S>; CHANNELS] = Default::default();
    let mut windows = Windows::new(WINDOW, WINDOW);
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
        for segment in waiting {
            windows.push(segment);
            for window in windows.cut.drain(..) {
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

/// The query of figure 3: each operator takes a whole batch before the next begins.
fn leaks<S: Segment<f64>>(sensors: &[Vec<f64>], batch: usize) -> u64 {
    let mut memory = S::Memory::default();
    let mut windows: Vec<_> = (0..SENSORS).map(|_| Windows::new(LONG, HOP)).collect();
    let mut scratch = vec![0.0; LONG];
    let mut found = Leaks::default();
    let total = sensors[0].len();
    for begin in (0..total).step_by(batch) {
        for (sensor, samples) in sensors.iter().enumerate() {
            for start in (begin..total.min(begin + batch)).step_by(SEGMENT) {
                let part = &samples[start..total.min(start + SEGMENT)];
                windows[sensor].push(S::make(&mut memory, start as i64, part).pass());
            }
            let coefficients: Vec<S> = windows[sensor]
                .cut
                .drain(..)
                .map(|window| {
                    let mut column = window.window::<LONG>();
                    haar(&mut column, &mut scratch);
                    S::make(&mut memory, window.start(), &column).pass()
                })
                .collect();
            for segment in coefficients {
                // One block, as it was made.
                segment.visit(&mut |part| found.push(sensor, segment.start(), trim_peak(part)));
            }
        }
    }
    found.sum()
}

/// Cuts segments into windows, joined to the rest of the last.
struct Windows<S> {
    window: i64,
    hop: i64,
    carry: Option<S>,
    cut: Vec<S>,
}

impl<S> Windows<S> {
    fn new(window: usize, hop: usize) -> Self {
        Self {
            window: window as i64,
            hop: hop as i64,
            carry: None,
            cut: Vec::new(),
        }
    }

    fn push<T: Sample>(&mut self, segment: S)
    where
        S: Segment<T>,
    {
        let joined = match self.carry.take() {
            Some(rest) => rest.append(segment),
            None => segment,
        };
        let mut at = joined.start();
        while at + self.window <= joined.end() {
            self.cut.push(joined.cut(at, at + self.window));
            at += self.hop;
        }
        self.carry = (at < joined.end()).then(|| joined.cut(at, joined.end()));
    }
}

/// Every manager at every size of a batch, for both applications.
pub fn run(quick: bool) -> Value {
    let channels = audio(CHANNELS, if quick { 1 << 17 } else { 3 << 18 });
    let sensors = vibration(if quick { 1 << 15 } else { 1 << 18 });
    let (own, read) = (&channels, &sensors);
    let detected = points(
        "detectaudio",
        own,
        data::detect_audio(own),
        quick,
        |batch| {
            [
                Contestant::new("CopyAlways", move || detect::<CopyAlways<_>>(own, batch)),
                Contestant::new("RefCount-Copy", move || {
                    detect::<RefCountCopy<_>>(own, batch)
                }),
                Contestant::new("RefCount-Realloc", move || {
                    detect::<RefCountRealloc<_>>(own, batch)
                }),
                Contestant::new("RefCount-Lazy", move || {
                    detect::<RefCountLazy<_>>(own, batch)
                }),
                Contestant::new(SEGMENTS, move || detect::<Pooled>(own, batch)),
                Contestant::new(ENGINE, product::detect_audio_in_batches(own, batch)),
            ]
        },
    );
    let leaking = points("pipeline", read, data::pipeline(read), quick, |batch| {
        [
            Contestant::new("CopyAlways", move || leaks::<CopyAlways<_>>(read, batch)),
            Contestant::new("RefCount-Copy", move || {
                leaks::<RefCountCopy<_>>(read, batch)
            }),
            Contestant::new("RefCount-Realloc", move || {
                leaks::<RefCountRealloc<_>>(read, batch)
            }),
            Contestant::new("RefCount-Lazy", move || {
                leaks::<RefCountLazy<_>>(read, batch)
            }),
            Contestant::new(SEGMENTS, move || leaks::<Pooled>(read, batch)),
            Contestant::new(ENGINE, product::pipeline_in_batches(read, batch)),
        ]
    });
    json!({"detectaudio": detected, "pipeline": leaking})
}

const SEGMENTS: &str = "Isochrony's segments";
const ENGINE: &str = "Isochrony's engine";

/// All take turns, so that a busy machine makes no step in a curve.
fn points<'a, T: Sample, const N: usize>(
    what: &str,
    channels: &'a [Vec<T>],
    expected: u64,
    quick: bool,
    managers: impl Fn(usize) -> [Contestant<'a>; N],
) -> Value {
    let kilobytes: &[usize] = if quick {
        &[15, 150]
    } else {
        &[4, 15, 30, 60, 100, 150, 200, 300, 450, 1000]
    };
    let whole_segments =
        |kilobytes: usize| (kilobytes * 1000 / size_of::<T>() / SEGMENT).max(1) * SEGMENT;
    let mut contestants: Vec<_> = kilobytes
        .iter()
        .flat_map(|&kb| managers(whole_segments(kb)))
        .collect();
    let times = contest(what, if quick { 1 } else { 7 }, expected, &mut contestants);
    let samples = (channels.len() * channels[0].len()) as u64;
    let points = kilobytes.iter().zip(times.chunks(N)).map(|(&kb, times)| {
        let rates = rates(times, samples, SEGMENTS);
        let kilobytes = (whole_segments(kb) * size_of::<T>()) as f64 / 1000.0;
        show(&format!("memory/{what}/{kilobytes:.0}-kB"), &rates);
        json!({"kilobytes": kilobytes, "rates": rates})
    });
    json!(points.collect::<Vec<_>>())
}
