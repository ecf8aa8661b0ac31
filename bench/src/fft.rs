//! flow/fft and flow/power: plans bound by the transform, against a bare loop over the same library.

use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isochrony::flow::{Cause, Item, Plan, Segments, SharedRecording};
use isochrony::prelude::*;
use isochrony::segment::{Complex32, Stream};
use isochrony::time::TimebaseId;
use realfft::{RealFftPlanner, RealToComplex};

use crate::measure::{Results, interleave, noise, ratio};

const WINDOW: usize = 4096;
const BINS: usize = WINDOW / 2 + 1;
/// Rows kept at once, as in the plan's blocks.
const BLOCK_ROWS: usize = 32;
/// Frequency whose values are added up.
const CHECKED_BIN: usize = 77;

/// Prevents the compiler from leaving out the work.
fn added(sum: &AtomicU64, value: f32) {
    let before = f64::from_bits(sum.load(Ordering::Relaxed));
    sum.store((before + f64::from(value)).to_bits(), Ordering::Relaxed);
}

/// Adds the value of each result row; pairs of numbers are complex.
fn look(sum: &Arc<AtomicU64>) -> impl Fn(&Item) -> Result<(), Cause> + Send + Sync + 'static {
    let sum = sum.clone();
    move |item| {
        if let Item::Frames(frames) = item {
            if let Some(values) = frames.values::<f32>() {
                let rows = values.chunks_exact(frames.stride());
                rows.for_each(|row| added(&sum, row[CHECKED_BIN]));
            }
            if let Some(values) = frames.values::<Complex32>() {
                let rows = values.chunks_exact(frames.stride());
                rows.for_each(|row| added(&sum, row[CHECKED_BIN].re));
            }
        }
        Ok(())
    }
}

struct Bare {
    plan: Arc<dyn RealToComplex<f32>>,
    row: Vec<f32>,
    scratch: Vec<Complex32>,
    spectra: Vec<Complex32>,
    powers: Vec<f32>,
    taper: Vec<f32>,
}

impl Bare {
    fn new() -> Self {
        let plan = RealFftPlanner::new().plan_fft_forward(WINDOW);
        let phase = |k: usize| std::f64::consts::TAU * k as f64 / WINDOW as f64;
        Self {
            row: plan.make_input_vec(),
            scratch: plan.make_scratch_vec(),
            spectra: vec![Complex32::default(); BLOCK_ROWS * BINS],
            powers: vec![0.0; BLOCK_ROWS * BINS],
            taper: (0..WINDOW)
                .map(|k| (0.5 - 0.5 * phase(k).cos()) as f32)
                .collect(),
            plan,
        }
    }

    fn fft(&mut self, samples: &[f32]) -> f64 {
        let mut sum = 0.0;
        for (window, k) in samples.chunks_exact(WINDOW).zip((0..BLOCK_ROWS).cycle()) {
            self.row.copy_from_slice(window);
            let spectrum = &mut self.spectra[k * BINS..][..BINS];
            let _ = self
                .plan
                .process_with_scratch(&mut self.row, spectrum, &mut self.scratch);
            sum += f64::from(black_box(&self.spectra)[k * BINS + CHECKED_BIN].re);
        }
        sum
    }

    fn power(&mut self, samples: &[f32], rate: f64) -> f64 {
        let mut sum = 0.0;
        let weight: f64 = self
            .taper
            .iter()
            .map(|&w| f64::from(w) * f64::from(w))
            .sum();
        let scale = (1.0 / (rate * weight)) as f32;
        for (window, k) in samples.chunks_exact(WINDOW).zip((0..BLOCK_ROWS).cycle()) {
            let mut lanes = [0.0f32; 16];
            for part in window.chunks_exact(16) {
                lanes.iter_mut().zip(part).for_each(|(lane, x)| *lane += x);
            }
            let mean = lanes.iter().sum::<f32>() / WINDOW as f32;
            for ((to, x), w) in self.row.iter_mut().zip(window).zip(&self.taper) {
                *to = (x - mean) * w;
            }
            let spectrum = &mut self.spectra[..BINS];
            let _ = self
                .plan
                .process_with_scratch(&mut self.row, spectrum, &mut self.scratch);
            let powers = &mut self.powers[k * BINS..][..BINS];
            for (to, x) in powers.iter_mut().zip(&*spectrum) {
                *to = x.norm_sqr() * (2.0 * scale);
            }
            powers[0] *= 0.5;
            powers[BINS - 1] *= 0.5;
            sum += f64::from(black_box(&self.powers)[k * BINS + CHECKED_BIN]);
        }
        sum
    }
}

pub fn run(_: &Path, quick: bool, results: &mut Results) -> Result<(), Box<dyn std::error::Error>> {
    let count = if quick { 1 << 20 } else { 1 << 25 };
    let rate = Rate::from_hz(48_000)?;
    let stream = Stream::new("noise", TimebaseId(0), rate).intern();
    let samples: Vec<f32> = noise(9, 1 << 20)
        .iter()
        .map(|&x| f32::from(x))
        .cycle()
        .take(count)
        .collect();
    let segment = SigSeg::from_slice(&samples, 0, stream)?;
    drop(samples);
    let samples = segment.as_contiguous::<f32>().ok_or("several buffers")?;
    let live = SharedRecording::new(Segments::new([segment.clone()]).ok_or("no segment")?);
    let windows =
        Plan::scan_part(live, None, isochrony::flow::SEGMENT_SAMPLES).rewindow(WINDOW as u64)?;
    let sum = Arc::new(AtomicU64::new(0));
    let mut bare = Bare::new();
    let close = |got: f64, want: f64| {
        let most = samples.len() as f64 / WINDOW as f64;
        assert!(
            (got - want).abs() <= 1e-4 * want.abs() + 1e-3 * most,
            "{got} instead of {want}"
        );
    };
    for (name, power) in [("flow/fft/f32/4096", false), ("flow/power/f32/4096", true)] {
        let plan = if power {
            windows.power()?
        } else {
            windows.fft()?
        };
        let plan = plan.each(look(&sum))?;
        let mut bare_loop = || {
            if power {
                bare.power(samples, rate.to_f64())
            } else {
                bare.fft(samples)
            }
        };
        let expected = bare_loop();
        let ours = || {
            sum.store(0, Ordering::Relaxed);
            plan.run().expect("ran");
            close(f64::from_bits(sum.load(Ordering::Relaxed)), expected);
        };
        let (a, b) = interleave(if quick { 3 } else { 15 }, ours, || {
            close(black_box(bare_loop()), expected);
        });
        let met = ratio(&a, &b) >= 0.85;
        let other = if power {
            "a bare loop over realfft that does the same work"
        } else {
            "a bare loop over realfft"
        };
        results.compare(
            name,
            &a,
            other,
            &b,
            Some(4 * count as u64),
            Some((">= 0.85", met)),
        );
    }
    Ok(())
}
