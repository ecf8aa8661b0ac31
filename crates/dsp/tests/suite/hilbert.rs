//! Hilbert transformer taps against gain and phase.

use std::f64::consts::TAU;

use isochrony_dsp::filter::hilbert;

/// Imaginary part without the delay; antisymmetric taps have no other. Ideal: -1.
fn gain(taps: &[f64], cycles: f64) -> f64 {
    let middle = (taps.len() / 2) as f64;
    let terms = taps.iter().enumerate();
    terms
        .map(|(k, tap)| -tap * (TAU * cycles * (k as f64 - middle)).sin())
        .sum()
}

#[test]
fn band_is_shifted_by_a_quarter_turn_within_the_stated_error() {
    let lows = [
        0.003, 0.01, 0.05, 0.1, 0.15, 0.2, 0.22, 0.24, 0.245, 0.249, 0.2499,
    ];
    let attenuations = [20.0, 30.0, 40.0, 60.0, 80.0, 100.0, 130.0];
    for (attenuation, low) in attenuations
        .into_iter()
        .flat_map(|attenuation| lows.map(|low| (attenuation, low)))
    {
        let taps = hilbert("envelope", attenuation, low * 1000.0, 1000.0).unwrap();
        let bound = 10f64.powf(-attenuation / 20.0);
        let mut worst = 0.0f64;
        for step in 0..=2000 {
            let cycles = low + (0.5 - 2.0 * low) * f64::from(step) / 2000.0;
            worst = worst.max((gain(&taps, cycles) + 1.0).abs());
        }
        assert!(worst < bound, "{attenuation} dB from {low}: {worst}");
        // Not many more taps than needed.
        let fewest = (attenuation + 6.0 - 7.95) / 2.285 / (TAU * 2.0 * low);
        let taps = taps.len() as f64;
        assert!(
            taps <= 1.1 * fewest + 9.0,
            "{attenuation} dB from {low}: {taps} taps"
        );
    }
}

#[test]
fn rejects_empty_bands() {
    for low in [0.0, -1.0, 25.0, 30.0, f64::NAN] {
        let error = hilbert("envelope", 60.0, low, 100.0)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("low_hz=") && error.contains("a quarter of the rate"),
            "{error}"
        );
    }
}

#[test]
fn too_many_taps_are_reported_as_low_hz() {
    let error = hilbert("envelope", 60.0, 1e-12, 100.0)
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("envelope: low_hz=0.000000000001 Hz must be wide enough"),
        "{error}"
    );
    assert!(error.ends_with("change low_hz"), "{error}");
}
