//! Byte order and calibration against plain loops.

use isochrony_dsp::convert::{ValueType, calibrate, swap_bytes, values};
use isochrony_segment::{Calibration, Complex32, Complex64};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn swapping_reads_big_endian_numbers(numbers in prop::collection::vec(any::<i64>(), 0..300)) {
        fn check<const N: usize>(big: Vec<[u8; N]>, native: Vec<[u8; N]>) -> Result<(), TestCaseError> {
            let mut bytes = big.concat();
            swap_bytes(&mut bytes, N).unwrap();
            let want = if cfg!(target_endian = "big") { native.iter().map(|n| { let mut n = *n; n.reverse(); n }).collect() } else { native };
            prop_assert_eq!(bytes, want.concat());
            Ok(())
        }
        check(numbers.iter().map(|n| (*n as i16).to_be_bytes()).collect(), numbers.iter().map(|n| (*n as i16).to_ne_bytes()).collect())?;
        check(numbers.iter().map(|n| (*n as i32).to_be_bytes()).collect(), numbers.iter().map(|n| (*n as i32).to_ne_bytes()).collect())?;
        check(numbers.iter().map(|n| n.to_be_bytes()).collect(), numbers.iter().map(|n| n.to_ne_bytes()).collect())?;
    }

    #[test]
    fn calibrated_values_equal_the_formula(
        counts in prop::collection::vec(any::<i16>(), 0..500), scale in 1e-9f64..1e9, offset in -1e9f64..1e9,
    ) {
        let mut values = vec![0.0; counts.len()];
        calibrate(&counts, &Calibration::new(scale, offset, "V").unwrap(), &mut values).unwrap();
        for (value, count) in values.iter().zip(&counts) {
            let scaled = f64::from(*count) * scale;
            prop_assert_eq!(*value, scaled + offset);
        }
    }

    #[test]
    fn values_are_calibrated_in_double_precision_and_rounded_once(
        counts in prop::collection::vec(any::<i32>(), 0..500), scale in 1e-9f64..1e9, offset in -1e9f64..1e9,
    ) {
        let calibration = Calibration::new(scale, offset, "V").unwrap();
        let mut single = vec![0f32; counts.len()];
        values(&counts, &calibration, &mut single).unwrap();
        for (value, count) in single.iter().zip(&counts) {
            prop_assert_eq!(*value, (f64::from(*count) * scale + offset) as f32);
        }
    }
}

#[test]
fn uncalibrated_values_are_the_counts() {
    let none = Calibration::default();
    let mut out = [0f64; 3];
    values(&[-0.0f32, 1.5, f32::NAN], &none, &mut out).unwrap();
    assert!(out[0].is_sign_negative() && out[1] == 1.5 && out[2].is_nan());
    let mut out = [Complex32::default(); 1];
    values(&[Complex64::new(1.5, -0.0)], &none, &mut out).unwrap();
    assert_eq!(out[0], Complex32::new(1.5, -0.0));
    assert!(out[0].im.is_sign_negative());
    assert_eq!(f32::between(1.0, 3.0, 0.25), 1.5);
    assert_eq!(
        Complex64::between(Complex64::new(0.0, 2.0), Complex64::new(4.0, 0.0), 0.5),
        Complex64::new(2.0, 1.0)
    );
    // Just above the midpoint of two f32; f64 would round to it.
    let mut out = [0f32; 1];
    values(&[(1i64 << 61) + (1 << 37) + 1], &none, &mut out).unwrap();
    assert_eq!(out[0], (2.0f64.powi(61) + 2.0f64.powi(38)) as f32);
    let error = values(&[1i16], &none, &mut [0f64; 2]).unwrap_err();
    assert_eq!(error.code(), "output_length");
}

#[test]
#[should_panic(expected = "real and complex")]
fn real_counts_are_no_complex_values() {
    let _ = values(
        &[1i16],
        &Calibration::default(),
        &mut [Complex64::default()],
    );
}

#[test]
fn single_bytes_have_no_order() {
    let mut bytes = [1, 2, 3];
    swap_bytes(&mut bytes, 1).unwrap();
    assert_eq!(bytes, [1, 2, 3]);
}

#[test]
fn refuses_partial_numbers_and_other_lengths() {
    let error = swap_bytes(&mut [1, 2, 3], 2).unwrap_err();
    assert_eq!(error.code(), "partial_sample");
    assert!(error.to_string().contains("3 bytes") && error.to_string().contains("whole samples"));
    let error = calibrate(&[1i16], &Calibration::default(), &mut []).unwrap_err();
    assert_eq!(error.code(), "output_length");
}
