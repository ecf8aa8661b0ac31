//! Designs against SciPy's, and rejected parameters.
//!
//! `vectors/iir.py` wrote `vectors/iir.json`, which names SciPy's version.

use isochrony_dsp::DspError;
use isochrony_dsp::filter::{
    Band, Family, Iir, Initial, Section, Sections, SosFilter, notch, peak,
};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/iir.json")).expect("JSON")
}

fn numbers(value: &Value) -> Vec<f64> {
    let list = value.as_array().expect("a list");
    list.iter().map(|x| x.as_f64().expect("a number")).collect()
}

fn rows(value: &Value) -> Vec<Vec<f64>> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(numbers)
        .collect()
}

fn design(case: &Value) -> Iir {
    let number = |name: &str| case[name].as_f64().unwrap_or(0.0);
    let corners = numbers(&case["cutoff"]);
    let (ripple_db, attenuation_db) = (number("rp"), number("rs"));
    Iir {
        family: match case["family"].as_str().expect("text") {
            "butter" => Family::Butterworth,
            "cheby1" => Family::Chebyshev1 { ripple_db },
            "cheby2" => Family::Chebyshev2 { attenuation_db },
            _ => Family::Elliptic {
                ripple_db,
                attenuation_db,
            },
        },
        band: match case["band"].as_str().expect("text") {
            "lowpass" => Band::Lowpass(corners[0]),
            "highpass" => Band::Highpass(corners[0]),
            "bandpass" => Band::Bandpass(corners[0], corners[1]),
            _ => Band::Bandstop(corners[0], corners[1]),
        },
        order: case["order"].as_u64().expect("an integer") as usize,
    }
}

/// Tens of roundings of numbers up to 2; for corners far apart SciPy's subtraction of nearly equal roots adds as many.
const COEFFICIENT: f64 = 1e-13;

#[test]
fn designs_equal_scipy() {
    let vectors = vectors();
    let rate = vectors["rate"].as_f64().expect("a rate");
    for case in vectors["designs"].as_array().expect("a list") {
        let sections = design(case).design("iir", rate).expect("a design");
        let (ours, theirs) = (sections.to_sos(), rows(&case["sos"]));
        assert_eq!(ours.len(), theirs.len(), "{case}");
        for (k, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
            // The first section has the gain, with the same relative error.
            let scale = if k == 0 { theirs[0].abs() } else { 1.0 };
            for (at, (x, y)) in ours.iter().zip(theirs).enumerate() {
                let near = COEFFICIENT
                    * if at < 3 { scale } else { 1.0 }
                    * if k == 0 { 10.0 } else { 1.0 };
                assert!(
                    (x - y).abs() <= near,
                    "section {k}, {at}: {x} for {y}, {case}"
                );
            }
        }
    }
}

#[test]
fn notches_and_peaks_equal_scipy() {
    let vectors = vectors();
    let rate = vectors["rate"].as_f64().expect("a rate");
    for case in vectors["one_frequency"].as_array().expect("a list") {
        let number = |name: &str| case[name].as_f64().expect("a number");
        let make = if case["name"] == "notch" { notch } else { peak };
        let sections = make("notch", number("hz"), number("q"), rate).expect("a design");
        let [ours] = sections.to_sos()[..] else {
            panic!("one section");
        };
        let theirs = [numbers(&case["b"]), numbers(&case["a"])].concat();
        assert!(
            ours.iter().zip(&theirs).all(|(x, y)| (x - y).abs() < 1e-15),
            "{ours:?} for {theirs:?}"
        );
    }
}

#[test]
fn filtered_signals_equal_scipy() {
    for case in vectors()["filtered"].as_array().expect("a list") {
        let section = |row: &Vec<f64>| Section {
            b: [row[0], row[1], row[2]],
            a: [row[4], row[5]],
        };
        let sections = rows(&case["sos"]).iter().map(section).collect();
        let sections = Sections::new("iir", sections).expect("stable");
        let x = numbers(&case["x"]);
        for (initial, name) in [(Initial::Zero, "zero"), (Initial::Steady, "steady")] {
            let mut y = vec![0.0; x.len()];
            let mut filter = SosFilter::new(&sections, initial);
            filter.process(&x, &mut y).expect("equal lengths");
            // Amplified by the poles by less than 1e3.
            for (y, theirs) in y.iter().zip(numbers(&case[name])) {
                assert!(
                    (y - theirs).abs() < 1e3 * f64::EPSILON * 20.0,
                    "{name}: {y} for {theirs}"
                );
            }
        }
    }
}

#[test]
fn corners_are_exact_even_at_the_ends_of_the_band() {
    for order in [1, 2, 3, 6] {
        for corner in [1e-4, 0.3, 20.0, 49.99, 49.9999] {
            let half = 0.5f64.sqrt();
            let families = [
                (Family::Butterworth, half),
                (Family::Chebyshev1 { ripple_db: 2.0 }, 10f64.powf(-0.1)),
                (
                    Family::Chebyshev2 {
                        attenuation_db: 30.0,
                    },
                    10f64.powf(-1.5),
                ),
                (
                    Family::Elliptic {
                        ripple_db: 2.0,
                        attenuation_db: 50.0,
                    },
                    10f64.powf(-0.1),
                ),
            ];
            for (family, gain) in families {
                for band in [Band::Lowpass(corner), Band::Highpass(corner)] {
                    let iir = Iir {
                        family,
                        band,
                        order,
                    };
                    let sections = iir.design("iir", 100.0).expect("a design");
                    // Rounding of a coefficient moves the response by its ratio to the pole's distance, about the
                    // corner's angle, squared for a section.
                    let angle = (corner.min(50.0 - corner) * std::f64::consts::PI / 50.0).min(1.0);
                    let near = 64.0 * order as f64 * f64::EPSILON / (angle * angle);
                    let got = sections.response(corner, 100.0).norm();
                    assert!(
                        (got - gain).abs() < near.max(1e-13),
                        "{iir:?}: {got} for {gain}"
                    );
                }
            }
        }
    }
}

#[test]
fn elliptic_filters_keep_within_ripple_and_attenuation() {
    for order in [2, 3, 5, 8, 13] {
        for (ripple_db, attenuation_db) in [(0.01, 120.0), (1.0, 40.0), (3.0, 10.0)] {
            let family = Family::Elliptic {
                ripple_db,
                attenuation_db,
            };
            let iir = Iir {
                family,
                band: Band::Lowpass(10.0),
                order,
            };
            let sections = iir.design("iir", 100.0).expect("a design");
            let gains = (0..=10_000).map(|k| {
                let hz = f64::from(k) * 0.005;
                (hz, sections.response(hz, 100.0).norm())
            });
            let (least, most) = (
                10f64.powf(-ripple_db / 20.0),
                10f64.powf(-attenuation_db / 20.0),
            );
            let mut stops = None;
            for (hz, gain) in gains {
                if hz < 10.0 {
                    assert!(
                        gain > least - 1e-9 && gain < 1.0 + 1e-9,
                        "{iir:?} at {hz} Hz: {gain}"
                    );
                } else if stops.is_none() && gain < most {
                    stops = Some(hz);
                }
                if stops.is_some() {
                    assert!(gain < most + 1e-9, "{iir:?} at {hz} Hz: {gain}");
                }
            }
            assert!(stops.is_some(), "{iir:?}");
        }
    }
}

#[test]
fn impulse_response_after_settling_is_below_the_error() {
    for order in [1, 2, 4, 8] {
        for corner in [0.05, 2.0, 30.0] {
            for band in [
                Band::Lowpass(corner),
                Band::Highpass(corner),
                Band::Bandpass(corner, corner + 5.0),
            ] {
                let family = Family::Chebyshev1 { ripple_db: 1.0 };
                let sections = Iir {
                    family,
                    band,
                    order,
                }
                .design("iir", 100.0)
                .expect("a design");
                let settled = sections.settling(1e-6) as usize;
                let mut impulse = vec![0.0; 3 * settled];
                impulse[0] = 1.0;
                let mut response = vec![0.0f64; impulse.len()];
                let mut filter = SosFilter::new(&sections, Initial::Zero);
                filter
                    .process(&impulse, &mut response)
                    .expect("equal lengths");
                let total: f64 = response.iter().map(|y| y.abs()).sum();
                let left: f64 = response[settled..].iter().map(|y| y.abs()).sum();
                assert!(
                    left <= 1e-6 * total,
                    "order {order}, {band:?}: {left} of {total} after {settled}"
                );
            }
        }
    }
}

#[test]
fn rejects_impossible_designs() {
    let butter = |band, order| Iir {
        family: Family::Butterworth,
        band,
        order,
    };
    let cases = [
        (
            butter(Band::Lowpass(50.0), 2),
            "cutoff_hz=50 Hz must be above 0 and below half the rate, 50 Hz",
        ),
        (butter(Band::Highpass(0.0), 2), "cutoff_hz=0 Hz"),
        (butter(Band::Lowpass(f64::NAN), 2), "cutoff_hz=NaN Hz"),
        (
            butter(Band::Bandpass(20.0, 10.0), 2),
            "cutoff_hz=[20, 10] must be two ascending",
        ),
        (butter(Band::Bandstop(20.0, 20.0), 2), "two ascending"),
        (
            butter(Band::Lowpass(20.0), 0),
            "order=0 must be from 1 to 32",
        ),
        (butter(Band::Lowpass(20.0), 33), "order=33"),
        (
            Iir {
                family: Family::Chebyshev1 { ripple_db: 0.0 },
                ..butter(Band::Lowpass(1.0), 2)
            },
            "ripple_db=0 dB",
        ),
        (
            Iir {
                family: Family::Chebyshev2 {
                    attenuation_db: -3.0,
                },
                ..butter(Band::Lowpass(1.0), 2)
            },
            "attenuation_db=-3 dB",
        ),
        (
            Iir {
                family: Family::Elliptic {
                    ripple_db: 3.0,
                    attenuation_db: 3.0,
                },
                ..butter(Band::Lowpass(1.0), 2)
            },
            "attenuation_db=3 dB must be above 3 and at most 600 dB",
        ),
        (
            butter(Band::Lowpass(1e-15), 8),
            "pole on or outside the unit circle",
        ),
    ];
    for (iir, part) in cases {
        let error = iir.design("iir", 100.0).expect_err(part).to_string();
        assert!(error.contains(part), "{error:?} lacks {part:?}");
    }
    assert!(matches!(
        notch("notch", 50.0, 30.0, 100.0),
        Err(DspError::Parameter {
            parameter: "hz",
            ..
        })
    ));
    assert!(matches!(
        notch("notch", 40.0, 0.8, 100.0),
        Err(DspError::Parameter { parameter: "q", .. })
    ));
    assert!(notch("notch", 40.0, 0.81, 100.0).is_ok());
}
