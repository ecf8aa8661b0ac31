//! Throughput of spectra and window features against plain realfft: `cargo bench -p isochrony-dsp --bench spectrum`.
//!
//! Pairs run interleaved. Results are asserted; without `--bench` cases run once.

use std::hint::black_box;
use std::time::Instant;

use isochrony_dsp::correlate::{Correlator, Kind};
use isochrony_dsp::features::{
    Envelope, Haar, HaarOutput, Normalise, Quantiles, Score, rms, zero_crossings,
};
use isochrony_dsp::spectrum::{Detrend, Forward, Power, Precision, Scaling};
use isochrony_dsp::window::Taper;
use num_complex::Complex;
use realfft::{RealFftPlanner, RealToComplex};
use std::sync::Arc;

struct Case {
    samples: usize,
    rounds: usize,
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn quantile(values: &mut [f64], q: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * q) as usize]
}

/// Prints the speed-up of the first of two interleaved loops.
fn interleaved(name: &str, case: &Case, mut ours: impl FnMut(), mut bare: impl FnMut()) {
    let (mut rates, mut ratios) = (vec![], vec![]);
    for round in 0..case.rounds {
        let (time, bare_time);
        if round % 2 == 0 {
            time = seconds(&mut ours);
            bare_time = seconds(&mut bare);
        } else {
            bare_time = seconds(&mut bare);
            time = seconds(&mut ours);
        }
        rates.push(case.samples as f64 / time / 1e6);
        ratios.push(bare_time / time);
    }
    println!(
        "{name}: {:.0} Msamples/s; of the bare loop {:.2} ({:.2}..{:.2})",
        quantile(&mut rates, 0.5),
        quantile(&mut ratios, 0.5),
        quantile(&mut ratios, 0.25),
        quantile(&mut ratios, 0.75),
    );
}

/// The window is copied to a buffer that may be overwritten.
struct PlainTransform<T: Precision> {
    plan: Arc<dyn RealToComplex<T>>,
    row: Vec<T>,
    spectrum: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

impl<T: Precision> PlainTransform<T> {
    fn new(width: usize) -> Self {
        let plan = RealFftPlanner::new().plan_fft_forward(width);
        Self {
            row: plan.make_input_vec(),
            spectrum: plan.make_output_vec(),
            scratch: plan.make_scratch_vec(),
            plan,
        }
    }

    #[inline(never)]
    fn transform(&mut self, samples: &[T], width: usize) {
        for window in samples.chunks_exact(width) {
            self.row.copy_from_slice(window);
            self.plan
                .process_with_scratch(&mut self.row, &mut self.spectrum, &mut self.scratch)
                .unwrap();
            black_box(&mut self.spectrum);
        }
    }

    #[inline(never)]
    fn power(&mut self, samples: &[T], width: usize, taper: &[T], out: &mut [T]) {
        for window in samples.chunks_exact(width) {
            for ((to, from), factor) in self.row.iter_mut().zip(window).zip(taper) {
                *to = *from * *factor;
            }
            self.plan
                .process_with_scratch(&mut self.row, &mut self.spectrum, &mut self.scratch)
                .unwrap();
            for (to, from) in out.iter_mut().zip(&self.spectrum) {
                *to = from.norm_sqr();
            }
            black_box(&mut *out);
        }
    }
}

fn spectra<T: Precision>(name: &str, width: usize, case: &Case) {
    let noise = |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / 65_536.0 - 128.0;
    let samples: Vec<T> = (0..case.samples).map(|i| T::of(noise(i))).collect();
    let bins = width / 2 + 1;
    let factors = Taper::Hann.periodic(width);
    let taper: Vec<T> = factors.iter().map(|&factor| T::of(factor)).collect();
    let (mut one, mut other) = (
        PlainTransform::<T>::new(width),
        PlainTransform::<T>::new(width),
    );
    let (mut row, mut bare_row) = (vec![T::zero(); bins], vec![T::zero(); bins]);

    let mut forward = Forward::<T>::new(width, false, &[], Detrend::None);
    let mut spectrum = vec![Complex::new(T::zero(), T::zero()); bins];
    interleaved(
        &format!("spectrum/fft/{width}/{name} of realfft alone"),
        case,
        || {
            for window in samples.chunks_exact(width) {
                forward.transform(window, &mut spectrum);
                black_box(&mut spectrum);
            }
        },
        || one.transform(&samples, width),
    );
    let last = samples.chunks_exact(width).next_back().unwrap();
    one.transform(last, width);
    assert_eq!(spectrum, one.spectrum);
    for (detrend, against) in [
        (Detrend::None, "taper, realfft and squares"),
        (Detrend::Constant, "taper, realfft and squares"),
        (Detrend::Constant, "realfft alone"),
    ] {
        let mut power = Power::<T>::new(&factors, false, detrend, Scaling::Spectrum, 1.0);
        interleaved(
            &format!("spectrum/power/{width}/{name}/{detrend} of {against}"),
            case,
            || {
                for window in samples.chunks_exact(width) {
                    power.row(window, &mut row);
                    black_box(&mut row);
                }
            },
            || {
                if against == "realfft alone" {
                    other.transform(&samples, width);
                } else {
                    other.power(&samples, width, &taper, &mut bare_row);
                }
            },
        );
    }
    let mut power = Power::<T>::new(&factors, false, Detrend::None, Scaling::Spectrum, 1.0);
    power.row(last, &mut row);
    other.power(last, width, &taper, &mut bare_row);
    let scale = 2.0 * factors.iter().sum::<f64>().powi(-2);
    for (got, bare) in row[1..bins - 1].iter().zip(&bare_row[1..]) {
        let (got, bare): (f64, f64) = ((*got).into(), (*bare).into());
        assert!((got - scale * bare).abs() <= 1e-6 * scale * bare);
    }
}

fn features<T: Precision>(name: &str, width: usize, case: &Case) {
    let noise = |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / 65_536.0 - 128.0;
    let samples: Vec<T> = (0..case.samples).map(|i| T::of(noise(i))).collect();
    let squares = || {
        for window in samples.chunks_exact(width) {
            black_box(window.iter().fold(T::zero(), |sum, &x| sum + x * x));
        }
    };
    let each = |what: &str, row: &mut dyn FnMut(&[T])| {
        interleaved(
            &format!("features/{what}/{width}/{name} of adding squares one by one"),
            case,
            || samples.chunks_exact(width).for_each(&mut *row),
            squares,
        );
    };
    each("rms", &mut |window| {
        black_box(rms(window, false));
    });
    each("zero_crossings", &mut |window| {
        black_box(zero_crossings(window));
    });
    let mut haar = Haar::<T>::new(width, 5, HaarOutput::Energies).unwrap();
    let mut energies = vec![T::zero(); 6];
    each("haar", &mut |window| {
        haar.row(window, black_box(&mut energies))
    });
    let weights = vec![1.0; width / 2 + 1];
    let mut score = Score::<T>::new(
        &vec![1.0; width],
        false,
        Detrend::None,
        &weights,
        Normalise::None,
    )
    .unwrap();
    each("spectral_score", &mut |window| {
        black_box(score.of(window));
    });
    let mut envelope = Envelope::<T>::new(width);
    let mut row = vec![T::zero(); width];
    each("envelope", &mut |window| {
        envelope.row(window, black_box(&mut row))
    });
    let mut quantiles = Quantiles::<T>::new(&[0.5]).unwrap();
    let mut median = [T::zero()];
    each("median", &mut |window| {
        quantiles.row(window, black_box(&mut median))
    });
    let mut correlator = Correlator::<T>::new(width, width / 4, Kind::Coefficient).unwrap();
    let mut lags = vec![T::zero(); correlator.lags()];
    each("xcorr", &mut |window| {
        correlator.row(window, window, black_box(&mut lags))
    });
    let middle: f64 = lags[width / 4].into();
    assert!((middle - 1.0).abs() < 1e-4);
}

fn main() {
    let case = if std::env::args().any(|argument| argument == "--bench") {
        Case {
            samples: 1 << 18,
            rounds: 101,
        }
    } else {
        Case {
            samples: 1 << 13,
            rounds: 1,
        }
    };
    for width in [32, 256, 4096] {
        spectra::<f32>("float32", width, &case);
        spectra::<f64>("float64", width, &case);
    }
    for width in [32, 1024] {
        features::<f32>("float32", width, &case);
        features::<f64>("float64", width, &case);
    }
}
