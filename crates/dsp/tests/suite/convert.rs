//! Byte order and calibration against the obvious loops.

use isochrony_dsp::convert::{calibrate, swap_bytes};
use isochrony_segment::Calibration;
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
