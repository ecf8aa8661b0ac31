//! Conversion against one sample at a time.

use crate::common::{cuts, noise, run};
use isochrony_bytes::convert::{Conversion, convert};
use isochrony_bytes::{Chain, Outcome, Sizes};
use isochrony_segment::{ByteOrder, DType};
use proptest::prelude::*;

fn converted(name: &str, bytes: &[u8], cuts: &[usize]) -> Vec<u8> {
    let (outcomes, output) = run(&[name], bytes, cuts).unwrap();
    let sizes = Sizes {
        bytes_in: bytes.len() as u64,
        bytes_out: output.len() as u64,
    };
    assert_eq!(outcomes, [Outcome::Sizes(sizes)]);
    output
}

/// Bytes of samples.
macro_rules! raw {
    ($order:ident; $($sample:expr),*) => {
        [$(&$sample.$order()[..]),*].concat()
    };
}

#[test]
fn widths_orders_and_kinds_change_the_bytes_and_not_the_numbers() {
    let words = raw!(to_le_bytes; -2i16, 300i16, i16::MAX, i16::MIN);
    assert_eq!(
        converted("convert:<i2:>i4", &words, &[1, 5]),
        raw!(to_be_bytes; -2i32, 300i32, 32_767i32, -32_768i32)
    );
    assert_eq!(
        converted("convert:<i2:<f4", &words, &[3]),
        raw!(to_le_bytes; -2f32, 300f32, 32_767f32, -32_768f32)
    );
    assert_eq!(
        converted("convert:<i2:>i2", &words, &[7]),
        raw!(to_be_bytes; -2i16, 300i16, i16::MAX, i16::MIN)
    );
    let long = raw!(to_le_bytes; i64::MAX, i64::MIN, (1i64 << 53) + 1);
    assert_eq!(
        converted("convert:<i8:>i8", &long, &[]),
        raw!(to_be_bytes; i64::MAX, i64::MIN, (1i64 << 53) + 1)
    );
}

#[test]
fn numbers_become_integers_by_rounding_ties_to_even() {
    let doubles = raw!(to_be_bytes; 0.5f64, 1.5f64, 2.5f64, 0.500_001f64, 254.5f64, 255.499f64);
    assert_eq!(
        converted("convert:>f8:u1", &doubles, &[9, 10, 39]),
        [0, 2, 2, 1, 254, 255]
    );
    let scaled = raw!(to_le_bytes; 10i16, -10i16, 15i16);
    assert_eq!(
        converted("convert,scale=0.5,offset=0.25:<i2:i1", &scaled, &[]),
        raw!(to_le_bytes; 5i8, -5i8, 8i8) // 5.25, -4.75, 7.75
    );
}

#[test]
fn what_does_not_fit_is_an_error_with_its_place() {
    let fails = |name: &str, bytes: &[u8], offset, parts: &[&str]| {
        for cuts in [&[][..], &[1], &[3, 4, 5]] {
            let error = run(&[name], bytes, cuts).unwrap_err();
            assert_eq!(
                (error.code(), error.offset()),
                ("out_of_range", Some(offset))
            );
            for part in parts {
                assert!(error.to_string().contains(part), "{error} lacks {part}");
            }
        }
    };
    let words = raw!(to_le_bytes; 127i16, 128i16, 129i16);
    fails("convert:<i2:i1", &words, 2, &["128", "int8"]);
    fails(
        "convert:<i2:u1",
        &raw!(to_le_bytes; 0i16, 255i16, -1i16),
        4,
        &["-1", "uint8"],
    );
    let singles = raw!(to_le_bytes; 1f32, f32::NAN);
    fails("convert:<f4:<i4", &singles, 4, &["NaN", "int32"]);
    fails("convert,saturate:<f4:<i4", &singles, 4, &["NaN"]);
    fails(
        "convert:<f8:<f4",
        &raw!(to_le_bytes; 1e39f64),
        0,
        &["1", "float32"],
    );
    fails(
        "convert:<f8:<i8",
        &raw!(to_le_bytes; 9_223_372_036_854_775_807f64),
        0,
        &["int64"],
    );
    fails(
        "convert:<f8:u1",
        &raw!(to_le_bytes; 0f64, 255.5f64),
        8,
        &["255.5"],
    );
    fails(
        "convert:<f8:u1",
        &raw!(to_le_bytes; -0.500_001f64),
        0,
        &["-0.5"],
    );
    fails(
        "convert,scale=1e10:<f8:<f8",
        &raw!(to_le_bytes; 0f64, 1e300f64),
        8,
        &["inf", "float64"],
    );
    // In another block of the kernel.
    let mut many = vec![7; 2 * 5000];
    many[2 * 4321 + 1] = 8; // 0x0807 = 2055 where all others are 0x0707 = 1799.
    fails(
        "convert,offset=-1000:<i2:u1",
        &raw!(to_le_bytes; 1000i16, 999i16),
        2,
        &["-1"],
    );
    fails("convert,offset=-1799:<i2:u1", &many, 2 * 4321, &["256"]);
}

#[test]
fn saturating_gives_the_nearest_value() {
    let words = raw!(to_le_bytes; -500i16, 127i16, 500i16);
    assert_eq!(
        converted("convert,saturate:<i2:i1", &words, &[3]),
        raw!(to_le_bytes; -128i8, 127i8, 127i8)
    );
    let doubles = raw!(to_le_bytes; 1e300f64, -1e300f64, f64::INFINITY, 255.5f64);
    assert_eq!(
        converted("convert,saturate:<f8:u1", &doubles, &[]),
        [255, 0, 255, 255]
    );
    assert_eq!(
        converted("convert,saturate:<f8:<f4", &doubles, &[]),
        raw!(to_le_bytes; f32::MAX, f32::MIN, f32::INFINITY, 255.5f32)
    );
    assert_eq!(
        converted("convert,saturate,scale=1e10:<f8:<f8", &doubles, &[]),
        raw!(to_le_bytes; f64::MAX, f64::MIN, f64::INFINITY, 2.555e12f64)
    );
    let long = raw!(to_le_bytes; i64::MAX, i64::MIN);
    assert_eq!(
        converted("convert,saturate:<i8:<i4", &long, &[5]),
        raw!(to_le_bytes; i32::MAX, i32::MIN)
    );
}

#[test]
fn floats_that_are_not_finite_stay_what_they_are() {
    let singles = raw!(to_le_bytes; f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
    let doubles = converted("convert:<f4:<f8", &singles, &[2]);
    let numbers: Vec<f64> = doubles
        .chunks(8)
        .map(|bytes| f64::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(numbers[..2], [f64::INFINITY, f64::NEG_INFINITY]);
    assert!(numbers[2].is_nan());
}

#[test]
fn a_stream_that_ends_inside_a_sample_is_refused() {
    let error = run(&["convert:<f8:<f4"], &[0; 20], &[17]).unwrap_err();
    assert_eq!((error.code(), error.offset()), ("partial_sample", Some(16)));
}

#[test]
fn nothing_becomes_nothing() {
    assert!(converted("convert:<i2:<f8", &[], &[0, 0]).is_empty());
}

#[test]
fn conversions_that_cannot_be_are_refused() {
    let little = |dtype| (dtype, ByteOrder::Little);
    let mut conversion = Conversion::new(little(DType::I16), little(DType::F32));
    conversion.scale = f64::INFINITY;
    let error = convert(conversion).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("scale=inf is refused; give a finite"),
        "{error}"
    );
    let conversion = Conversion::new(little(DType::I16), little(DType::C64));
    let error = convert(conversion).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("to=complex64 is refused; give one of i1"),
        "{error}"
    );
}

/// In 128 bits or in f64.
fn slow(from: (DType, bool), to: (DType, bool), scale: f64, offset: f64, bytes: &[u8]) -> Vec<u8> {
    let size = from.0.component_size();
    let mut out = vec![];
    for sample in bytes.chunks_exact(size) {
        let mut sample = sample.to_vec();
        if from.1 {
            sample.reverse();
        }
        let mut wide = [0; 8];
        wide[..size].copy_from_slice(&sample);
        let bits = u64::from_le_bytes(wide);
        let shift = 64 - 8 * size as u32;
        let (whole, number) = match from.0 {
            DType::F32 => (None, f64::from(f32::from_bits(bits as u32))),
            DType::F64 => (None, f64::from_bits(bits)),
            DType::U8 | DType::U16 | DType::U32 => (Some(i128::from(bits)), bits as f64),
            _ => {
                let signed = (bits << shift) as i64 >> shift;
                (Some(i128::from(signed)), signed as f64)
            }
        };
        let scaled = number * scale + offset;
        let plain = scale == 1.0 && offset == 0.0;
        let (least, most): (i128, i128) = match to.0 {
            DType::U8 => (0, 255),
            DType::U16 => (0, 65_535),
            DType::U32 => (0, i128::from(u32::MAX)),
            DType::I8 => (-128, 127),
            DType::I16 => (-32_768, 32_767),
            DType::I32 => (i128::from(i32::MIN), i128::from(i32::MAX)),
            _ => (i128::from(i64::MIN), i128::from(i64::MAX)),
        };
        // `as` rounds to the nearest 128-bit integer.
        let integer = match whole {
            Some(whole) if plain => whole.clamp(least, most),
            _ => (scaled.round_ties_even() as i128).clamp(least, most),
        };
        let mut bytes = match to.0 {
            DType::F32 if scaled.is_finite() => {
                { scaled.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32 }
                    .to_le_bytes()
                    .to_vec()
            }
            DType::F32 => (scaled as f32).to_le_bytes().to_vec(),
            DType::F64 => scaled.to_le_bytes().to_vec(),
            _ => integer.to_le_bytes()[..to.0.component_size()].to_vec(),
        };
        if to.1 {
            bytes.reverse();
        }
        out.extend(bytes);
    }
    out
}

const REAL: [(DType, &str); 9] = [
    (DType::I8, "i1"),
    (DType::I16, "i2"),
    (DType::I32, "i4"),
    (DType::I64, "i8"),
    (DType::U8, "u1"),
    (DType::U16, "u2"),
    (DType::U32, "u4"),
    (DType::F32, "f4"),
    (DType::F64, "f8"),
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every pair of types in both orders, saturating, so that any bits but NaN are legal.
    #[test]
    fn any_cutting_converts_each_sample_as_if_alone(
        from in prop::sample::select(REAL.to_vec()), from_big in any::<bool>(),
        to in prop::sample::select(REAL.to_vec()), to_big in any::<bool>(),
        scale in prop::sample::select(vec![1.0, 0.001, -3.0]),
        offset in prop::sample::select(vec![0.0, 100.5]),
        cuts in cuts(16_000),
    ) {
        let size = from.0.component_size();
        let mut bytes = noise(16_000);
        if matches!(from.0, DType::F32 | DType::F64) {
            for sample in bytes.chunks_exact_mut(size) {
                let exponent = if from_big { 0 } else { size - 1 };
                sample[exponent] &= 0xbf; // Of every size up to 2, and no NaN.
                if sample[0] % 4 == 0 {
                    sample[exponent] = 0x46; // Great ones, too.
                }
            }
        }
        let order = |big| if big { '>' } else { '<' };
        let name = format!("convert,saturate,scale={scale},offset={offset}:{}{}:{}{}", order(from_big), from.1, order(to_big), to.1);
        let want = slow((from.0, from_big), (to.0, to_big), scale, offset, &bytes);
        let got = converted(&name, &bytes, &cuts);
        prop_assert!(got == want, "{}", name);
    }
}

#[test]
fn a_part_stays_within_what_it_says() {
    let chain = Chain::parse(&["convert:i1:<f8"]).unwrap();
    assert!(chain.part_bytes(1 << 20) >= 8 << 20);
    assert!(chain.part_bytes(1 << 20) < 9 << 20);
}
