//! Ratios of grids and resampled timebases.

use isochrony_time::{Rate, Ratio, TimeError, TimebaseId};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn positions_round_down_and_first_indices_round_up(
        up in 1u64..1 << 40, down in 1u64..1 << 40, index in -(1i64 << 20)..1 << 20,
    ) {
        let ratio = Ratio::new(up, down).unwrap();
        let (whole, part) = ratio.place(index).unwrap();
        prop_assert!(part < ratio.up());
        // whole + part / up == index * down / up
        let (up, down) = (i128::from(ratio.up()), i128::from(ratio.down()));
        prop_assert_eq!(i128::from(whole) * up + i128::from(part), i128::from(index) * down);
        let first = ratio.first_from(index).unwrap();
        prop_assert!(i128::from(first) * down >= i128::from(index) * up);
        prop_assert!(i128::from(first - 1) * down < i128::from(index) * up);
    }

    #[test]
    fn equal_compositions_share_a_timebase(a in 1u64..50, b in 1u64..50, c in 1u64..50, d in 1u64..50) {
        let step = |up, down| Ratio::new(up, down).unwrap();
        let origin = TimebaseId(5);
        let by_steps = origin.resampled(step(a, b)).unwrap().resampled(step(c, d)).unwrap();
        let at_once = origin.resampled(step(a * c, b * d)).unwrap();
        prop_assert_eq!(by_steps, at_once);
        prop_assert_eq!(at_once == origin, a * c == b * d);
        prop_assert_eq!(at_once.origin(), (origin, step(a * c, b * d)));
        prop_assert_ne!(TimebaseId(6).resampled(step(a, b + 50)).unwrap(), origin.resampled(step(a, b + 50)).unwrap());
    }
}

#[test]
fn ratios_between_rates_are_exact_and_what_needs_more_bits_is_an_error() {
    let rate = |text: &str| text.parse::<Rate>().unwrap();
    let ratio = Ratio::between(rate("100"), rate("100.0000042")).unwrap();
    assert_eq!((ratio.up(), ratio.down()), (500_000_021, 500_000_000));
    assert_eq!(ratio.rate(rate("100")).unwrap(), rate("100.0000042"));
    assert_eq!(ratio.to_string(), "500000021/500000000");
    for error in [
        Ratio::between(rate("9223372036854775807"), rate("1/9")).unwrap_err(),
        Ratio::new(1 << 40, 1)
            .unwrap()
            .rate(rate("1000000000"))
            .unwrap_err(),
    ] {
        assert!(matches!(error, TimeError::Overflow { .. }), "{error}");
    }
    assert_eq!(Ratio::new(0, 3).unwrap_err().code(), "bad_rate");
    assert_eq!(Ratio::new(1 << 62, 1).unwrap().first_from(i64::MAX), None);
    assert_eq!(Ratio::new(1, 1 << 62).unwrap().place(i64::MIN), None);
    assert_eq!(Ratio::new(1, 10).unwrap().first_from(-5), Some(0));
}
