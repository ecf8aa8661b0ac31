//! Detrending of windows.

use std::fmt;

use super::Precision;
use crate::isa::{Kernel, Level};
use crate::sums::lanes;

/// Subtracted from a window; from real and imaginary parts separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detrend {
    /// Nothing.
    #[default]
    None,
    /// The mean.
    Constant,
    /// The least-squares line.
    Linear,
}

impl Detrend {
    /// Names, in order.
    pub const NAMES: [&'static str; 3] = ["none", "constant", "linear"];

    /// Parses a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::None, Self::Constant, Self::Linear]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }
}

impl fmt::Display for Detrend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(Self::NAMES[*self as usize])
    }
}

/// The value in the middle has two parts, for exact subtraction from f32.
#[derive(Clone, Copy)]
struct Line<T> {
    high: T,
    low: T,
    slope: T,
}

/// Mean and slope of every `PARTS`-th number, in fixed lanes.
#[inline(always)]
fn line<T: Precision, const PARTS: usize>(
    detrend: Detrend,
    numbers: &[[T; PARTS]],
    part: usize,
) -> Line<T> {
    let count = numbers.len() as f64;
    let mean = match detrend {
        Detrend::None => 0.0,
        _ => lanes(numbers, |_, of| of[part].into()) / count,
    };
    let slope = if detrend == Detrend::Linear && numbers.len() > 1 {
        let middle = (count - 1.0) / 2.0;
        let rise = lanes(numbers, |at, of| {
            (at as f64 - middle) * (of[part].into() - mean)
        });
        rise / (count * (count * count - 1.0) / 12.0)
    } else {
        0.0
    };
    let high = T::of(mean);
    Line {
        high,
        low: T::of(mean - high.into()),
        slope: T::of(slope),
    }
}

/// Writes `(sample - line) * factor`; empty factors are ones.
pub(crate) struct Prepare<'a, T, const PARTS: usize> {
    pub(crate) detrend: Detrend,
    pub(crate) window: &'a [[T; PARTS]],
    pub(crate) factors: &'a [T],
    pub(crate) out: &'a mut [[T; PARTS]],
}

impl<T: Precision, const PARTS: usize> Kernel for Prepare<'_, T, PARTS> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self {
            detrend,
            window,
            factors,
            out,
        } = self;
        if detrend != Detrend::None {
            let none = T::of(0.0);
            let mut lines = [Line {
                high: none,
                low: none,
                slope: none,
            }; PARTS];
            // `array::from_fn`'s closure may be compiled without this level's instructions.
            for (part, one) in lines.iter_mut().enumerate() {
                *one = line(detrend, window, part);
            }
            if detrend == Detrend::Linear {
                let middle = (window.len() as f64 - 1.0) / 2.0;
                for (at, (out, sample)) in out.iter_mut().zip(window).enumerate() {
                    let from_middle = T::of(at as f64 - middle);
                    for part in 0..PARTS {
                        let line = &lines[part];
                        out[part] =
                            (sample[part] - line.high) - (line.low + line.slope * from_middle);
                    }
                }
            } else if factors.is_empty() {
                for (out, sample) in out.iter_mut().zip(window) {
                    for part in 0..PARTS {
                        out[part] = (sample[part] - lines[part].high) - lines[part].low;
                    }
                }
            } else {
                for ((out, sample), &factor) in out.iter_mut().zip(window).zip(factors) {
                    for part in 0..PARTS {
                        out[part] = ((sample[part] - lines[part].high) - lines[part].low) * factor;
                    }
                }
            }
            if detrend == Detrend::Linear && !factors.is_empty() {
                for (out, &factor) in out.iter_mut().zip(factors) {
                    *out = out.map(|number| number * factor);
                }
            }
        } else if factors.is_empty() {
            out.copy_from_slice(window);
        } else {
            for ((out, sample), &factor) in out.iter_mut().zip(window).zip(factors) {
                *out = sample.map(|number| number * factor);
            }
        }
    }
}
