//! Values against independent arithmetic.

use isochrony_time::{Derived, Fixed, Rate, TimeError, civil};
use num_bigint::BigInt;
use num_rational::BigRational;
use proptest::prelude::*;

fn rational(x: Fixed) -> BigRational {
    BigRational::new(BigInt::from(x.to_bits()), BigInt::from(1u64 << 32))
}

fn decimal(text: &str) -> BigRational {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |d| (-1, d));
    let (whole, frac) = digits.split_once('.').unwrap_or((digits, ""));
    let scaled: BigInt = format!("{whole}{frac}").parse().unwrap();
    BigRational::new(scaled * sign, BigInt::from(10).pow(frac.len() as u32))
}

#[test]
fn fixed_floors_rounds_and_ceils_as_stated() {
    for (text, floor, round, ceil) in [
        ("2.25", 2, 2, 3),
        ("2.5", 2, 3, 3),
        ("-2.5", -3, -2, -2),
        ("-2.75", -3, -3, -2),
        ("7", 7, 7, 7),
        ("-0.5", -1, 0, 0),
    ] {
        let x: Fixed = text.parse().unwrap();
        assert_eq!(
            (x.floor(), x.round(), x.ceil()),
            (floor, round, ceil),
            "{text}"
        );
        assert_eq!(x.to_string(), text);
    }
    assert_eq!(Fixed::from_parts(-1, 0xC000_0000).to_string(), "-0.25");
    assert_eq!(Fixed::from_i128(1 << 70).unwrap().floor_i64(), None);
}

#[test]
fn fixed_takes_floats_exactly_or_says_why_not() {
    assert_eq!(Fixed::from_f64(-1.5).unwrap().to_string(), "-1.5");
    assert!(matches!(
        Fixed::from_f64(0.1),
        Err(TimeError::NotRepresentable { .. })
    ));
    assert!(matches!(
        Fixed::from_f64(f64::NAN),
        Err(TimeError::NotFinite { .. })
    ));
    assert!(matches!(
        Fixed::from_f64(1e300),
        Err(TimeError::NotRepresentable { .. })
    ));
    assert!((Fixed::from_f64_nearest(0.1).unwrap().to_f64() - 0.1).abs() < 2f64.powi(-33));
}

#[test]
fn fixed_rejects_invalid_text() {
    for text in [
        "", ".", "-", "1e5", "1.2.3", "0x10", "١", "1_000", "+-1", " 1",
    ] {
        assert!(
            matches!(
                Fixed::from_decimal_str(text),
                Err(TimeError::BadNumber { .. })
            ),
            "{text:?}"
        );
    }
    assert!(Fixed::from_decimal_str("99999999999999999999999999999999999").is_err());
}

#[test]
fn fixed_and_rate_survive_json() {
    let x: Fixed = "-1267401607000128000.00000000023283064365386962890625"
        .parse()
        .unwrap();
    let back: Fixed = serde_json::from_str(&serde_json::to_string(&x).unwrap()).unwrap();
    assert_eq!(back, x);
    let rate: Rate = "44100000/1001".parse().unwrap();
    let text = serde_json::to_string(&rate).unwrap();
    assert_eq!(serde_json::from_str::<Rate>(&text).unwrap(), rate);
    assert!(serde_json::from_str::<Rate>(r#"{"num":0,"den":1}"#).is_err());
}

#[test]
fn rates_are_read_as_people_write_them() {
    for (text, num, den) in [
        ("2000", 2000, 1),
        ("100.0000042", 500_000_021, 5_000_000),
        ("44100000/1001", 6_300_000, 143),
        ("2k", 2000, 1),
        ("2 kHz", 2000, 1),
        ("1.5MHz", 1_500_000, 1),
        ("0.1", 1, 10),
        ("30000/1001 Hz", 30_000, 1001),
        (".5", 1, 2),
        ("1/0.25", 4, 1),
    ] {
        let rate: Rate = text.parse().unwrap();
        assert_eq!((rate.num(), rate.den()), (num, den), "{text}");
    }
    for text in [
        "", "0", "-5", "fast", "1/0", "0/3", "k", "Hz", "1e400", "nan", "1//2", ".",
    ] {
        assert!(
            matches!(text.parse::<Rate>(), Err(TimeError::BadRate { .. })),
            "{text:?}"
        );
    }
    assert_eq!(Rate::from_f64(0.1).unwrap(), Rate::new(1, 10).unwrap());
    assert_eq!(Rate::from_f64(2000.033).unwrap().to_string(), "2000.033");
    assert!(Rate::from_f64(f64::INFINITY).is_err() && Rate::from_f64(-1.0).is_err());
}

#[test]
fn known_civil_times() {
    for (text, s, ns) in [
        ("1970-01-01T00:00:00Z", 0i128, 0i128),
        ("2010-03-01T00:00:07.000128Z", 1_267_401_607, 128_000),
        ("2010-060T00:00:07", 1_267_401_607, 0),
        ("20100301T000007,5", 1_267_401_607, 500_000_000),
        ("2010-03-01 01:00:07+01:00", 1_267_401_607, 0),
        ("2010-03-01T00:00:07-0030", 1_267_403_407, 0),
        ("2010-03-01", 1_267_401_600, 0),
        ("2010-03-01T24:00:00Z", 1_267_488_000, 0),
        ("2016-12-31T23:59:60Z", 1_483_228_800, 0),
        ("2000-02-29T00:00Z", 951_782_400, 0),
        ("0000-01-01T00:00:00Z", -62_167_219_200, 0),
        ("-9999-01-01T00:00:00Z", -377_705_116_800, 0),
        (
            "9999-12-31T23:59:59.999999999Z",
            253_402_300_799,
            999_999_999,
        ),
        ("1969-12-31T23:59:59.25Z", -1, 250_000_000),
    ] {
        let time = civil::parse(text).unwrap();
        assert_eq!(
            time,
            Fixed::from_i128(s * 1_000_000_000 + ns).unwrap(),
            "{text}"
        );
    }
}

#[test]
fn civil_fractions_have_any_length() {
    let time =
        civil::parse("1970-01-01T00:00:00.0000000012500000000000000000000000000001Z").unwrap();
    assert_eq!(time.to_string(), "1.25");
    assert_eq!(civil::format(time), "1970-01-01T00:00:00.00000000125Z");
    let long = format!("1970-01-01T00:00:00.{}Z", "3".repeat(500));
    assert_eq!(civil::parse(&long).unwrap().floor(), 333_333_333);
}

#[test]
fn digits_state_a_resolution() {
    for (text, resolution) in [
        ("2010-03-01T00:00:07Z", "1000000000"),
        ("2010-03-01T00:00:07.000128Z", "1000"),
        ("2010-03-01T00:00:07.5", "100000000"),
        ("2010-03-01T00:00", "60000000000"),
        ("2010-03-01", "86400000000000"),
    ] {
        assert_eq!(
            civil::parse_with_resolution(text).unwrap().1,
            resolution.parse().unwrap(),
            "{text}"
        );
    }
}

#[test]
fn refuses_civil_times_that_do_not_exist() {
    for text in [
        "",
        "201003",
        "2010-3",
        "2010-13",
        "2010Z",
        "2010-W09",
        "2010-13-01",
        "2010-02-29",
        "2010-366",
        "2010-000",
        "2010-03-01T25",
        "10-03-01",
        "2010-03-01T00:60",
        "2010-03-01T00:00:61",
        "2010-03-01T00:00:00.Z",
        "2010-03-01T00:00:00X",
        "2010-03-01T00:00:00+25:00",
        "2010-03-01T00:00:00Zjunk",
        "2010-03-01X00:00",
        "2010-0301",
        "2010-03-01T24:00:01",
        "yesterday",
        "２０１０-03-01",
        "2010-03-01T00:00:00+01:00x",
    ] {
        assert!(
            matches!(civil::parse(text), Err(TimeError::BadCivil { .. })),
            "{text:?}"
        );
    }
}

#[test]
fn years_and_months_are_their_first_instant_but_no_stamps() {
    for (text, whole) in [
        ("2010", "2010-01-01"),
        (" 2010 ", "2010-01-01"),
        ("2010-12", "2010-12-01"),
        ("-0044-03", "-0044-03-01"),
        ("+2010", "2010-01-01"),
    ] {
        assert_eq!(
            civil::parse(text).unwrap(),
            civil::parse(whole).unwrap(),
            "{text:?}"
        );
        assert!(civil::parse_with_resolution(text).is_err(), "{text:?}");
    }
}

#[test]
fn refuses_maps_without_slope() {
    assert!(matches!(
        Derived::new(0, 1, Fixed::ZERO),
        Err(TimeError::ZeroSlope { .. })
    ));
    assert!(matches!(
        Derived::new(1, 0, Fixed::ZERO),
        Err(TimeError::ZeroSlope { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn decimal_text_reads_back(bits in any::<i128>()) {
        let x = Fixed::from_bits(bits >> 1);
        prop_assert_eq!(x.to_string().parse::<Fixed>().unwrap(), x);
        prop_assert_eq!(decimal(&x.to_string()), rational(x));
    }

    #[test]
    fn decimal_text_rounds_to_the_nearest(text in "-?[0-9]{1,20}\\.[0-9]{1,60}") {
        let off = rational(text.parse().unwrap()) - decimal(&text);
        let half = BigRational::new(1.into(), BigInt::from(1u64 << 33));
        prop_assert!(off <= half && -off <= half);
    }

    #[test]
    fn rates_print_and_read_back(num in 1u64.., den in 1u64..) {
        let rate = Rate::new(num, den).unwrap();
        prop_assert_eq!(rate.to_string().parse::<Rate>().unwrap(), rate);
    }

    #[test]
    fn periods_are_exact_or_as_near_as_63_bits_allow(num in 1u64..1 << 62, den in 1u64..1 << 30) {
        let rate = Rate::new(num, den).unwrap();
        let (n, d) = rate.period_ns();
        let want = BigRational::new(BigInt::from(den) * 1_000_000_000, num.into());
        let off = BigRational::new(n.into(), d.into()) / want - BigRational::from(BigInt::from(1));
        let least = BigRational::new(1.into(), BigInt::from(1u64 << 61));
        prop_assert!(off <= least && -off <= least, "{} gives {}/{}", rate, n, d);
    }

    #[test]
    fn civil_text_reads_back(s in -377_705_116_800i64..253_402_300_799, ns in 0i64..1_000_000_000, frac in any::<u32>(), whole in any::<bool>()) {
        let bits = (i128::from(s) * 1_000_000_000 + i128::from(ns)) << 32;
        let time = Fixed::from_bits(bits | if whole { 0 } else { i128::from(frac) });
        prop_assert_eq!(civil::parse(&civil::format(time)).unwrap(), time);
    }

    #[test]
    fn calendar_days_follow_one_another(days in -4_371_587i64..2_932_895) {
        // Counting by days defines the calendar.
        let (y, m, d) = civil::ymd_from_days(days);
        prop_assert_eq!(civil::days_from_ymd(y as i32, m, d), Some(days));
        let (y2, m2, d2) = civil::ymd_from_days(days + 1);
        let follows = (y2, m2, d2) == (y, m, d + 1)
            || (d2 == 1 && d >= 28 && ((y2, m2) == (y, m + 1) || (y2, m2, m) == (y + 1, 1, 12)));
        prop_assert!(follows);
        let (oy, doy) = civil::ordinal_from_days(days);
        prop_assert_eq!(civil::days_from_ordinal(oy as i32, doy), Some(days));
    }

    #[test]
    fn parsing_never_panics(text in "[-0-9T:.,Z+ ]{0,40}|\\PC{0,20}") {
        let _ = civil::parse(&text);
        let _ = text.parse::<Fixed>();
        let _ = text.parse::<Rate>();
    }

    #[test]
    fn derived_maps_equal_rationals(bits in -(1i128 << 100)..1 << 100, num in any::<i64>().prop_filter("zero", |n| *n != 0), den in 1u64.., off in -(1i128 << 90)..1 << 90) {
        let map = Derived::new(num, den, Fixed::from_bits(off)).unwrap();
        let x = Fixed::from_bits(bits);
        let want = rational(x) * BigRational::new(num.into(), den.into()) + rational(Fixed::from_bits(off));
        let half = BigRational::new(1.into(), BigInt::from(1u64 << 33));
        if let Ok(y) = map.forward(x) {
            let e = rational(y) - want;
            prop_assert!(e <= half && -e <= half);
        }
        let want = (rational(x) - rational(Fixed::from_bits(off))) * BigRational::new(den.into(), num.into());
        if let Ok(y) = map.backward(x) {
            let e = rational(y) - want;
            prop_assert!(e <= half && -e <= half);
        }
    }
}

#[test]
fn a_leap_second_is_read_only_where_there_can_be_one() {
    for (text, seconds) in [
        ("2016-12-31T23:59:60Z", 1_483_228_800),
        ("2015-07-01T01:59:60+02:00", 1_435_708_800),
        ("2016-12-31T16:59:60-07:00", 1_483_228_800),
    ] {
        assert_eq!(
            civil::parse(text).unwrap(),
            Fixed::from_int(seconds * civil::NS_PER_S)
        );
    }
    for text in [
        "2016-06-15T12:00:60",
        "2016-12-31T23:58:60",
        "2016-12-31T22:59:60Z",
        "2016-03-31T23:59:60Z",
        "2016-12-31T23:59:60+01:00",
        "20160615T120060Z",
    ] {
        let error = civil::parse(text).unwrap_err().to_string();
        assert!(error.contains("leap second"), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Oracle: the float's shortest decimal as a big rational.
    #[test]
    fn seconds_are_the_decimals_that_they_are_written_as(
        digits in 1u64..10_000_000,
        places in 0u32..12,
        rate in 1u64..3_000_000,
        den in 1u64..2000,
        hop in 1u64..5000,
    ) {
        let text = format!("{digits}e-{places}");
        let seconds: f64 = text.parse().unwrap();
        let exact = BigRational::new((digits * rate).into(), (u128::from(den) * u128::from(hop) * 10u128.pow(places)).into());
        let count = Rate::new(rate, den).unwrap().samples_in_seconds(seconds).unwrap().per(hop);
        let whole = |value: BigRational| u64::try_from(value.to_integer()).unwrap();
        let half = BigRational::new(1.into(), 2.into());
        prop_assert_eq!(count.floor(), Some(whole(exact.floor())));
        prop_assert_eq!(count.ceil(), Some(whole(exact.ceil())));
        prop_assert_eq!(count.round(), Some(whole((exact + half).floor())));
    }
}

#[test]
fn durations_of_any_size_are_counted_or_refused() {
    let rate = Rate::from_hz(100).unwrap();
    let tiny = rate.samples_in_seconds(5e-324).unwrap();
    assert_eq!(
        (tiny.floor(), tiny.ceil(), tiny.round()),
        (Some(0), Some(1), Some(0))
    );
    let none = rate.samples_in_seconds(0.0).unwrap();
    assert_eq!((none.floor(), none.ceil()), (Some(0), Some(0)));
    assert_eq!(rate.samples_in_seconds(1e30).unwrap().floor(), None);
    for bad in [1e300, f64::NAN, f64::INFINITY, -0.5] {
        assert!(rate.samples_in_seconds(bad).is_err(), "{bad}");
    }
}
