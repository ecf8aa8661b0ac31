//! Brute-force statistics of columns.

use std::ops::Range;

use isochrony_segment::{Bool8, Complex32, Complex64, DType, Sample, dispatch};

use super::memory::Model;
use crate::views::View;

/// The value, and the value as the type of extrema. `None`: not finite.
pub(super) trait Value: Sample {
    fn value(self) -> Option<f64>;
}
macro_rules! value {
    ($($type:ty: |$x:ident| $value:expr;)*) => {$(impl Value for $type {
        fn value(self) -> Option<f64> { let $x = self; Some($value).filter(|v: &f64| v.is_finite()) }
    })*};
}
value! {
    Bool8: |x| if x.get() { 1.0 } else { 0.0 };
    i8: |x| x.into();
    i16: |x| x.into();
    i32: |x| x.into();
    i64: |x| x as f64;
    u8: |x| x.into();
    u16: |x| x.into();
    u32: |x| x.into();
    f32: |x| x.into();
    f64: |x| x;
    Complex32: |x| f64::from(x.re).hypot(x.im.into());
    Complex64: |x| x.re.hypot(x.im);
}

pub(super) fn close(got: f64, expected: f64, scale: f64) -> bool {
    (got.is_nan() && expected.is_nan()) || (got - expected).abs() <= 1e-12 * scale
}

pub(super) fn check_view<T: Value>(view: &View, model: &Model<T>, parts: &[Range<i64>]) {
    let mut expected_start = parts.iter().filter(|part| !part.is_empty());
    let mut part = 0..0;
    for k in 0..view.len() {
        let column = view.start[k]..view.end[k];
        assert!(column.start < column.end, "column {k} is empty");
        if column.start != part.start || part.is_empty() {
            assert!(part.is_empty(), "columns leave out {part:?}");
            part = expected_start
                .next()
                .expect("a column beyond the last part")
                .clone();
        }
        assert_eq!(column.start, part.start);
        part.start = column.end;
        let range = column.start as usize..column.end as usize;
        let values: Vec<f64> = model.samples[range.clone()]
            .iter()
            .zip(&model.valid[range.clone()])
            .filter(|(_, valid)| **valid)
            .filter_map(|(sample, _)| sample.value())
            .collect();
        assert_eq!(view.count[k], values.len() as u64, "count of {column:?}");
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let std = (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n).sqrt();
        let largest = values.iter().fold(0.0f64, |a, v| a.max(v.abs()));
        assert!(
            close(view.mean[k], mean, largest),
            "mean of {column:?}: {} {mean}",
            view.mean[k]
        );
        assert!(
            close(view.std[k], std, largest),
            "std of {column:?}: {} {std}",
            view.std[k]
        );
        let gaps = model.valid[range].iter().filter(|valid| !**valid).count();
        assert!(close(
            view.gap_fraction[k],
            gaps as f64 / (column.end - column.start) as f64,
            1.0
        ));
        let (min, max) = dispatch!(view.dtype, E => {
            (view.min.samples::<E>().expect("aligned")[k].value(), view.max.samples::<E>().expect("aligned")[k].value())
        });
        if values.is_empty() {
            assert!(min.is_none_or(|v| v == 0.0) && max.is_none_or(|v| v == 0.0));
        } else {
            let (low, high) = values
                .iter()
                .fold((f64::MAX, f64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
            // A magnitude may differ by a rounding or two of its type; real extrema are exact.
            let tolerance = match T::DTYPE {
                DType::C64 => f64::from(f32::EPSILON),
                DType::C128 => 2.0 * f64::EPSILON,
                _ => 0.0,
            };
            for (got, expected) in [(min, low), (max, high)] {
                let got = got.expect("finite");
                assert!(
                    (got - expected).abs() <= expected.abs() * tolerance,
                    "{got} not {expected} in {column:?}"
                );
            }
        }
    }
    assert!(
        part.is_empty() && expected_start.next().is_none(),
        "parts were left out"
    );
}

pub(super) trait Noise: Value {
    fn noise(seed: u64) -> Self;
}
pub(super) fn mix(seed: u64) -> u64 {
    let x = (seed ^ (seed >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (x >> 32)
}
macro_rules! noise {
    ($($type:ty: |$x:ident| $value:expr;)*) => {$(impl Noise for $type {
        fn noise(seed: u64) -> Self { let $x = mix(seed); $value }
    })*};
}
pub(super) fn real(x: u64) -> f64 {
    match x % 97 {
        0 => f64::NAN,
        1 => f64::INFINITY,
        _ => 1e3 + (x >> 40) as f64 / 1e3,
    }
}
noise! {
    Bool8: |x| Bool8::from(x.is_multiple_of(3));
    i8: |x| x as i8;
    i16: |x| x as i16;
    i32: |x| x as i32;
    i64: |x| x as i64;
    u8: |x| x as u8;
    u16: |x| x as u16;
    u32: |x| x as u32;
    f32: |x| real(x) as f32;
    f64: |x| real(x);
    Complex32: |x| Complex32::new(real(x) as f32, (x >> 50) as f32);
    Complex64: |x| Complex64::new(real(x), (x >> 50) as f64);
}
