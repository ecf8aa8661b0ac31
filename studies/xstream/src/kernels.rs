//! Computations of the paper's applications, shared by every variant and the oracle.
//!
//! Not inlined, so that all contestants run the same instructions here.

use std::f32::consts::PI;
use std::ops::Range;

/// Samples of a window of DETECTAUDIO.
pub const WINDOW: usize = 32;
/// Samples kept before and after a detection.
pub const PAD: i64 = 256;
/// Windows that end a detection: two pads, so that ranges never overlap.
const HANGOVER: i64 = 2 * PAD / WINDOW as i64;
/// Windows that only estimate the noise.
const WARM_UP: u32 = 64;
/// Standard deviations above the noise.
const THRESHOLD: f32 = 6.0;

/// A sample or coefficient, in a column, or in a row beside its time stamp.
pub trait Cell: Copy {
    fn get(self) -> f64;
    fn set(&mut self, value: f64);
}

impl Cell for f64 {
    fn get(self) -> f64 {
        self
    }

    fn set(&mut self, value: f64) {
        *self = value;
    }
}

/// Fourier transform of 32 real samples, and a score of its magnitudes.
pub struct Spectrum {
    twiddles: [(f32, f32); WINDOW / 2],
    reversed: [usize; WINDOW],
    weights: [f32; WINDOW / 2],
}

impl Default for Spectrum {
    fn default() -> Self {
        let angle = |k: usize| -2.0 * PI * k as f32 / WINDOW as f32;
        Self {
            twiddles: std::array::from_fn(|k| (angle(k).cos(), angle(k).sin())),
            reversed: std::array::from_fn(|k| k.reverse_bits() >> (usize::BITS - 5)),
            weights: std::array::from_fn(|k| 1.0 / (1.0 + (k as f32 - 8.0).abs())),
        }
    }
}

impl Spectrum {
    /// Weighted sum of the magnitudes of a window's frequencies.
    #[inline(never)]
    pub fn score(&self, window: &[f32; WINDOW]) -> f32 {
        let mut re: [f32; WINDOW] = std::array::from_fn(|k| window[self.reversed[k]]);
        let mut im = [0f32; WINDOW];
        let mut half = 1;
        while half < WINDOW {
            let step = WINDOW / 2 / half;
            for start in (0..WINDOW).step_by(2 * half) {
                for k in 0..half {
                    let (wr, wi) = self.twiddles[k * step];
                    let (a, b) = (start + k, start + k + half);
                    let (xr, xi) = (re[b] * wr - im[b] * wi, re[b] * wi + im[b] * wr);
                    (re[b], im[b]) = (re[a] - xr, im[a] - xi);
                    (re[a], im[a]) = (re[a] + xr, im[a] + xi);
                }
            }
            half *= 2;
        }
        let bins = re
            .iter()
            .zip(&im)
            .map(|(re, im)| (re * re + im * im).sqrt());
        bins.zip(&self.weights)
            .map(|(magnitude, weight)| magnitude * weight)
            .sum()
    }
}

/// Detection at a constant false alarm rate: Gaussian noise with running estimates of mean and deviation.
#[derive(Default)]
pub struct Detector {
    seen: u32,
    mean: f32,
    variance: f32,
    /// First and last window above the threshold.
    event: Option<(i64, i64)>,
    /// No later detection begins before this.
    upto: i64,
}

impl Detector {
    /// Takes the score of the window at `start`; returns the range of an event that has ended.
    pub fn push(&mut self, start: i64, score: f32) -> Option<Range<i64>> {
        let window = WINDOW as i64;
        let above =
            self.seen >= WARM_UP && score > self.mean + THRESHOLD * self.variance.max(0.0).sqrt();
        if above {
            let first = self.event.map_or(start, |(first, _)| first);
            self.event = Some((first, start));
        } else {
            self.seen += 1;
            let weight = (1.0 / self.seen as f32).max(1.0 / 1024.0);
            let off = score - self.mean;
            self.mean += weight * off;
            self.variance += weight * (off * off - self.variance);
        }
        let ended = match self.event {
            Some((first, last)) if start - last >= HANGOVER * window => {
                self.event = None;
                Some((first - PAD).max(0)..last + window + PAD)
            }
            _ => None,
        };
        let oldest = self.event.map_or(start + window, |(first, _)| first);
        self.upto = oldest - PAD;
        ended
    }

    /// No later range begins before this index.
    pub fn upto(&self) -> i64 {
        self.upto
    }
}

/// Haar's wavelet transform in place, all levels: averages first, then details from coarse to fine.
#[inline(never)]
pub fn haar<C: Cell>(data: &mut [C], scratch: &mut [f64]) {
    let mut len = data.len();
    while len >= 2 {
        let half = len / 2;
        for k in 0..half {
            let (a, b) = (data[2 * k].get(), data[2 * k + 1].get());
            data[k].set((a + b) * 0.5);
            scratch[k] = (a - b) * 0.5;
        }
        for k in 0..half {
            data[half + k].set(scratch[k]);
        }
        len = half;
    }
}

/// Greatest detail coefficient, and energy of the rest.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Peak {
    pub peak: f64,
    pub rest: f64,
}

#[inline(never)]
pub fn trim_peak<C: Cell>(coefficients: &[C]) -> Peak {
    // In four lanes, whatever the layout.
    let (mut peaks, mut energies) = ([0f64; 4], [0f64; 4]);
    for part in coefficients[4..].chunks_exact(4) {
        for lane in 0..4 {
            let value = part[lane].get();
            peaks[lane] = peaks[lane].max(value.abs());
            energies[lane] += value * value;
        }
    }
    let peak = peaks.into_iter().fold(0.0, f64::max);
    let energy: f64 = energies.into_iter().sum();
    Peak {
        peak,
        rest: energy - peak * peak,
    }
}

/// Whether the transients of all sensors stand out.
pub fn is_leak(peaks: &[Peak]) -> bool {
    peaks.iter().all(|p| p.peak * p.peak > 0.02 * p.rest)
}

/// Whether a window's deviation is above a threshold.
#[inline(never)]
pub fn deviates(window: &[f32], above: f32) -> bool {
    let (sum, squares) = moments(window);
    let mean = sum / window.len() as f32;
    squares / window.len() as f32 - mean * mean > above * above
}

/// Whether a window's mean is below a threshold.
#[inline(never)]
pub fn mean_below(window: &[f32], below: f32) -> bool {
    moments(window).0 / (window.len() as f32) < below
}

fn moments(window: &[f32]) -> (f32, f32) {
    let (mut sum, mut squares) = ([0f32; 32], [0f32; 32]);
    for part in window.chunks_exact(32) {
        for lane in 0..32 {
            sum[lane] += part[lane];
            squares[lane] += part[lane] * part[lane];
        }
    }
    (sum.into_iter().sum(), squares.into_iter().sum())
}

/// Sum of the samples' bits, in any order: reads each.
#[inline(never)]
pub fn bits(samples: &[f32]) -> u64 {
    let parts = samples.chunks(4096).map(|part| {
        let sum = part
            .iter()
            .fold(0u32, |sum, x| sum.wrapping_add(x.to_bits()));
        u64::from(sum)
    });
    parts.fold(0, u64::wrapping_add)
}

/// A result's summand in a digest that does not depend on order.
pub fn digest(channel: usize, time: i64, value: u64) -> u64 {
    let mut x =
        value ^ (time as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ((channel as u64) << 56);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 29)
}

/// Digest of selected samples, cheap, and independent of the pieces: the sum of their bits times their indices.
#[inline(never)]
pub fn digest_samples(channel: usize, start: i64, samples: &[f32]) -> u64 {
    let mut sum = 0u64;
    for (x, k) in samples.iter().zip(0u32..) {
        let index = (start as u32).wrapping_add(k);
        sum = sum.wrapping_add(u64::from(x.to_bits()) * u64::from(index));
    }
    sum.wrapping_mul(2 * channel as u64 + 1)
}
