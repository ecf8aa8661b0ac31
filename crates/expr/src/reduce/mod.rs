//! Reductions of windows, block by block.
//!
//! A [`Reducer`] serves several reductions of the same samples, so each block is read once. Results do not depend on
//! other reductions or on blocks:
//! - integers up to 32 bits: exact sums; mean and deviation are rounded once;
//! - floats: [`lanes::LANES`] sums in f64; sample `i` of a window belongs to lane `i % LANES`, and lanes are added in a
//!   fixed tree. NumPy adds pairwise in the samples' type;
//! - mean and deviation of floats sum deviations from the window's first sample, which preserves digits if the mean is
//!   large.

mod complex;
mod exact;
mod extremes;
mod lanes;

use isochrony_dsp::Isa;
use isochrony_segment::{Bool8, Complex32, Complex64, DType, dispatch};

use crate::Reduction;
use crate::kernels::Value;

pub(crate) trait Reducer: Send + Sync {
    fn reset(&mut self);

    fn update(&mut self, isa: Isa, block: &[u8]);

    /// Adds samples by the number that pass; for counts only.
    fn tally(&mut self, _passing: u64, _seen: u64) {}

    fn finish(&self, wanted: Reduction) -> Value;
}

pub(crate) type ReducerConstructor = fn() -> Box<dyn Reducer>;

fn make<R: Reducer + Default + 'static>() -> Box<dyn Reducer> {
    Box::new(R::default())
}

/// Reducers for the wanted reductions: constructors, with the reductions of each.
pub(crate) fn reducers(
    dtype: DType,
    wanted: &[Reduction],
) -> Vec<(ReducerConstructor, Vec<Reduction>)> {
    let mut left: Vec<Reduction> = wanted.to_vec();
    let mut found = Vec::new();
    let mut take = |which: &[Reduction], make: ReducerConstructor| {
        let (given, rest): (Vec<_>, Vec<_>) = left.iter().partition(|op| which.contains(op));
        left = rest;
        if !given.is_empty() {
            found.push((make, given));
        }
    };
    use Reduction::{All, Any, Count, Max, Mean, Min, Rms, Std, Sum, Var};
    let truth = dispatch!(dtype, T => make::<extremes::NonzeroCount<T>> as ReducerConstructor);
    take(&[Any, All, Count], truth);
    let spread = wanted.iter().any(|op| matches!(op, Std | Var));
    macro_rules! extremes {
        ($($type:ident)*) => {
            match (wanted.contains(&Min), wanted.contains(&Max)) {
                (true, true) => take(&[Min, Max], extremes!(@ $($type)*, true, true)),
                (true, false) => take(&[Min], extremes!(@ $($type)*, true, false)),
                (false, true) => take(&[Max], extremes!(@ $($type)*, false, true)),
                (false, false) => {}
            }
        };
        (@ integer, $min:literal, $max:literal) => {
            match dtype {
                DType::I8 => make::<extremes::IntegerExtremes<i8, $min, $max>> as ReducerConstructor,
                DType::I16 => make::<extremes::IntegerExtremes<i16, $min, $max>>,
                DType::I32 => make::<extremes::IntegerExtremes<i32, $min, $max>>,
                DType::I64 => make::<extremes::IntegerExtremes<i64, $min, $max>>,
                DType::U8 => make::<extremes::IntegerExtremes<u8, $min, $max>>,
                DType::U16 => make::<extremes::IntegerExtremes<u16, $min, $max>>,
                _ => make::<extremes::IntegerExtremes<u32, $min, $max>>,
            }
        };
        (@ float, $min:literal, $max:literal) => {
            match dtype {
                DType::F32 => make::<extremes::FloatExtremes<f32, 32, $min, $max>> as ReducerConstructor,
                _ => make::<extremes::FloatExtremes<f64, 16, $min, $max>>,
            }
        };
    }
    macro_rules! exact {
        ($($dtype:ident $type:ident),*) => {
            match dtype {
                $(DType::$dtype => {
                    if spread || wanted.contains(&Rms) {
                        if wanted.contains(&Min) || wanted.contains(&Max) {
                            take(&[Mean, Std, Var, Rms, Min, Max], make::<exact::Moments<$type>>);
                        }
                        take(&[Mean, Std, Var, Rms], make::<exact::Spread<$type>>);
                    }
                    take(&[Mean, Sum], make::<exact::Total<$type>>);
                })*
                _ => {}
            }
        };
    }
    exact!(Bool Bool8, I8 i8, I16 i16, I32 i32, U8 u8, U16 u16, U32 u32);
    match dtype {
        DType::Bool => take(&[Min, Max], make::<extremes::NonzeroCount<Bool8>>),
        DType::I64 => {
            take(&[Mean, Sum], make::<exact::Total<i64>>);
            take(&[Std, Var, Rms], make::<exact::Moments<i64>>);
            extremes!(integer);
        }
        DType::F32 | DType::F64 => {
            extremes!(float);
            macro_rules! sums {
                ($($terms:ident, $which:expr;)*) => {$(
                    take($which, match dtype {
                        DType::F32 => make::<lanes::Sums<f32, lanes::$terms>> as ReducerConstructor,
                        _ => make::<lanes::Sums<f64, lanes::$terms>>,
                    });
                )*};
            }
            if spread {
                sums!(Spread, &[Mean, Std, Var];);
            }
            sums!(Deviation, &[Mean]; Plain, &[Sum]; Squares, &[Rms];);
        }
        DType::C64 => take(wanted, make::<complex::Sums<Complex32>>),
        DType::C128 => take(wanted, make::<complex::Sums<Complex64>>),
        _ => extremes!(integer),
    }
    found
}
