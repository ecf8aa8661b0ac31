//! Correlations and delays.

use isochrony_dsp::correlate::{Correlator, Delays, Kind, Refine};
use proptest::prelude::*;
use std::f64::consts::PI;

fn slow(x: &[f64], y: &[f64], max_lag: usize) -> Vec<f64> {
    let at = |lag: i64| {
        let pairs = x.iter().enumerate().filter_map(|(i, x)| {
            let other = usize::try_from(i as i64 + lag).ok()?;
            Some(x * y.get(other)?)
        });
        pairs.sum()
    };
    (-(max_lag as i64)..=max_lag as i64).map(at).collect()
}

fn row(x: &[f64], y: &[f64], max_lag: usize, kind: Kind) -> Vec<f64> {
    let mut correlator = Correlator::new(x.len(), max_lag, kind).unwrap();
    let mut row = vec![0.0; correlator.lags()];
    correlator.row(x, y, &mut row);
    row
}

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// A sum of sines up to a fraction of the rate: noise with an exact delay.
struct Noise {
    phases: Vec<f64>,
    top: f64,
}

impl Noise {
    fn new(seed: u64, top: f64) -> Self {
        let mut state = seed | 1;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        Self {
            phases: (0..200).map(|_| 2.0 * PI * random()).collect(),
            top,
        }
    }

    fn at(&self, width: usize, delay: f64) -> Vec<f64> {
        let middle = (width as f64 - 1.0) / 2.0;
        let count = self.phases.len() as f64;
        (0..width)
            .map(|i| {
                let t = i as f64 - middle - delay;
                let soft = (-0.5 * (t / (width as f64 / 10.0)).powi(2)).exp();
                let sines = self.phases.iter().enumerate();
                let sum: f64 = sines
                    .map(|(k, phase)| {
                        (2.0 * PI * self.top * (k as f64 + 0.5) / count * t + phase).cos()
                    })
                    .sum();
                soft * sum
            })
            .collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn correlation_equals_its_definition(
        both in prop::collection::vec((-100.0f64..100.0, -100.0f64..100.0), 1..150), share in 0.0f64..1.0,
    ) {
        let (x, y): (Vec<f64>, Vec<f64>) = both.into_iter().unzip();
        let max_lag = ((x.len() - 1) as f64 * share) as usize;
        let (want, size) = (slow(&x, &y, max_lag), norm(&x) * norm(&y));
        for (got, want) in row(&x, &y, max_lag, Kind::Correlation).iter().zip(&want) {
            // Three transforms of up to 2^9, a few roundings of the norms.
            prop_assert!((got - want).abs() <= 1e-13 * size, "{} {}", got, want);
        }
        for (got, want) in row(&x, &y, max_lag, Kind::Coefficient).iter().zip(&want) {
            prop_assert!((got - want / size).abs() <= 1e-13);
        }
    }

    #[test]
    fn delays_of_band_limited_noise_are_found(seed in any::<u64>(), delay in -20.0f64..20.0, top in 0.1f64..0.4) {
        let noise = Noise::new(seed, top);
        let (x, y) = (noise.at(512, 0.0), noise.at(512, delay));
        let find = |kind, refine| Delays::new(512, 40, kind, refine).unwrap().of(&x, &y);
        // The taper is 4e-5 at the cuts.
        let exact = find(Kind::Coefficient, Refine::BandLimited);
        prop_assert!((exact.lag - delay).abs() < 1e-3, "{} {}", exact.lag, delay);
        prop_assert!((exact.peak - 1.0).abs() < 1e-3);
        // The documented bias.
        let bias = if top <= 0.25 { 0.035 } else { 0.12 };
        let parabola = find(Kind::Coefficient, Refine::Parabola);
        prop_assert!((parabola.lag - delay).abs() < bias, "{} {} {}", parabola.lag, delay, top);
        let phat = find(Kind::Phat { regularise: 1e-3, band: (0.02, 0.9 * top) }, Refine::BandLimited);
        prop_assert!((phat.lag - delay).abs() < 0.02, "{} {}", phat.lag, delay);
    }

    #[test]
    fn swapped_windows_have_the_opposite_lag(seed in any::<u64>(), delay in 0.5f64..15.0) {
        let noise = Noise::new(seed, 0.3);
        let (x, y) = (noise.at(256, 0.0), noise.at(256, delay));
        let mut delays = Delays::new(256, 30, Kind::Coefficient, Refine::BandLimited).unwrap();
        let (there, back) = (delays.of(&x, &y), delays.of(&y, &x));
        prop_assert!(there.lag > 0.0 && (there.lag + back.lag).abs() < 1e-6);
    }
}

#[test]
fn the_phase_transform_of_a_pure_delay_peaks_at_one_whatever_the_powers() {
    // An impulse has all frequencies.
    let (mut x, mut y) = (vec![0.0; 64], vec![0.0; 64]);
    (x[20], y[27]) = (5.0, 0.01);
    let got = row(
        &x,
        &y,
        10,
        Kind::Phat {
            regularise: 0.0,
            band: (0.0, 0.5),
        },
    );
    for (lag, value) in (-10..=10).zip(got) {
        let want = f64::from(lag == 7);
        assert!((value - want).abs() < 1e-12, "{lag}: {value}");
    }
    let narrow = Kind::Phat {
        regularise: 0.0,
        band: (0.1, 0.3),
    };
    let delay = Delays::new(64, 10, narrow, Refine::BandLimited)
        .unwrap()
        .of(&x, &y);
    assert!((delay.lag - 7.0).abs() < 1e-9 && (delay.peak - 1.0).abs() < 1e-12);
}

#[test]
fn undefined_delays_are_nan() {
    let mut delays = Delays::new(8, 3, Kind::Coefficient, Refine::Parabola).unwrap();
    let (zero, ramp) = ([0.0; 8], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let none = delays.of(&zero, &ramp);
    assert!(none.lag.is_nan() && none.peak == 0.0);
    let mut broken = ramp;
    broken[3] = f64::NAN;
    let nan = delays.of(&ramp, &broken);
    assert!(nan.lag.is_nan() && nan.peak.is_nan());
}

#[test]
fn parameters_out_of_range_are_errors_that_name_them() {
    let said = |kind, max_lag, part: &str| {
        let text = Correlator::<f64>::new(16, max_lag, kind)
            .err()
            .unwrap()
            .to_string();
        assert!(text.contains(part), "{text}");
    };
    let phat = |regularise, low, high| Kind::Phat {
        regularise,
        band: (low, high),
    };
    said(
        Kind::Correlation,
        16,
        "max_lag=16 must be samples below the window's 16",
    );
    said(phat(-1.0, 0.0, 0.5), 3, "regularise=-1");
    said(phat(0.0, 0.3, 0.2), 3, "0.3 to 0.2 of the rate");
    said(phat(0.0, 0.2, 0.6), 3, "half the rate");
    said(phat(0.0, 0.2001, 0.2002), 3, "wide enough");
    assert_eq!(Refine::named("x"), None);
}
