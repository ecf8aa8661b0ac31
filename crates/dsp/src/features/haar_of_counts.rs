//! The Haar transform of integers: exact sums, scaled once.
//!
//! Conversion to f64 first takes three times as long as the sums.

use std::ops::{Add, Sub};

use isochrony_segment::{Calibration, Sample};

use super::haar::{HaarOutput, bins, check_levels, factor};
use crate::DspError;
use crate::isa::{Isa, Kernel, Level};
use crate::prefetch::PagePrefetch;
use crate::sums::lanes;

/// A type with exact sums of samples.
pub trait Wide: Copy + Default + Add<Output = Self> + Sub<Output = Self> + Send {
    /// Sums are in `-2^BITS..2^BITS`, exact in f64.
    const BITS: u32;

    /// Exact conversion to f64.
    fn value(self) -> f64;

    /// Conversion to i64.
    fn long(self) -> i64;
}

impl Wide for i32 {
    const BITS: u32 = 31;

    #[inline(always)]
    fn value(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn long(self) -> i64 {
        i64::from(self)
    }
}

impl Wide for i64 {
    const BITS: u32 = 53;

    #[inline(always)]
    fn value(self) -> f64 {
        self as f64
    }

    #[inline(always)]
    fn long(self) -> i64 {
        self
    }
}

/// An integer sample.
pub trait Count: Sample {
    /// Type of sums.
    type Wide: Wide;
    /// Samples are in `-2^BITS..2^BITS`.
    const BITS: u32;

    /// Conversion to the type of sums.
    fn wide(self) -> Self::Wide;
}

macro_rules! count {
    ($($type:ty => $wide:ty, $bits:literal;)*) => {$(
        impl Count for $type {
            type Wide = $wide;
            const BITS: u32 = $bits;

            #[inline(always)]
            fn wide(self) -> $wide {
                <$wide>::from(self)
            }
        }
    )*};
}

count! {
    i8 => i32, 7;
    u8 => i32, 8;
    i16 => i32, 15;
    u16 => i32, 16;
    i32 => i64, 31;
    u32 => i64, 32;
}

/// As [`Haar`](super::Haar) of the values in f64.
///
/// Without calibration, same bits as `Haar<f64>`. A calibration is applied once, where `Haar<f64>` rounds every value:
/// results differ by that rounding.
pub struct HaarOfCounts<T: Count> {
    width: usize,
    levels: usize,
    output: HaarOutput,
    scale: f64,
    offset: f64,
    sums: Vec<T::Wide>,
    next: Vec<T::Wide>,
    isa: Isa,
}

impl<T: Count> HaarOfCounts<T> {
    /// For windows of `width` counts; None if sums might be inexact.
    ///
    /// # Errors
    /// As [`Haar::new`](super::Haar::new).
    ///
    /// ```
    /// use isochrony_dsp::features::{HaarOfCounts, HaarOutput};
    /// use isochrony_segment::Calibration;
    /// let counts = Calibration::default();
    /// let haar = HaarOfCounts::<i16>::new(4, 2, HaarOutput::Energies, &counts)?;
    /// let mut energies = [0.0; 3];
    /// haar.expect("few and small").row(&[1, 3, 5, 5], &mut energies);
    /// assert_eq!(energies, [2.0, 9.0, 49.0]);
    /// # Ok::<(), isochrony_dsp::DspError>(())
    /// ```
    pub fn new(
        width: usize,
        levels: usize,
        output: HaarOutput,
        calibration: &Calibration,
    ) -> Result<Option<Self>, DspError> {
        check_levels(width, levels)?;
        let bits = T::BITS + levels as u32;
        // A level has width / 2^level differences of bits + 1 - level bits; squares have twice as many.
        let squares = bits + T::BITS + width.next_power_of_two().ilog2();
        let exact = match output {
            HaarOutput::Energies => squares <= f64::MANTISSA_DIGITS,
            HaarOutput::Details | HaarOutput::Coefficients => true,
        };
        if bits > T::Wide::BITS || !exact {
            return Ok(None);
        }
        let room = match output {
            HaarOutput::Details => 0,
            HaarOutput::Energies | HaarOutput::Coefficients => width / 2,
        };
        Ok(Some(Self {
            width,
            levels,
            output,
            scale: calibration.scale(),
            offset: calibration.offset(),
            sums: vec![T::Wide::default(); room],
            next: vec![T::Wide::default(); room],
            isa: Isa::best(),
        }))
    }

    /// Selects an instruction set, for tests.
    #[must_use]
    pub fn on(self, isa: Isa) -> Self {
        Self { isa, ..self }
    }

    /// Length of a row.
    #[must_use]
    pub fn bins(&self) -> usize {
        bins(self.output, self.width, self.levels)
    }

    /// Transforms a window. Other lengths leave `out` unchanged.
    pub fn row(&mut self, window: &[T], out: &mut [f64]) {
        if window.len() == self.width && out.len() == self.bins() {
            let (isa, output) = (self.isa, self.output);
            let row = Row {
                haar: self,
                window,
                out,
            };
            // Measured: equal for details, half the time for energies, a quarter more for coefficients.
            match output {
                HaarOutput::Details | HaarOutput::Energies => isa.run_narrow(row),
                HaarOutput::Coefficients => isa.run(row),
            }
        }
    }
}

struct Row<'a, T: Count> {
    haar: &'a mut HaarOfCounts<T>,
    window: &'a [T],
    out: &'a mut [f64],
}

const LANES: usize = 16;

#[inline(always)]
fn sum<T: Count>(counts: &[T]) -> T::Wide {
    let (groups, rest) = counts.as_chunks::<LANES>();
    let mut lanes = [T::Wide::default(); LANES];
    let prefetch = PagePrefetch::new();
    for group in groups {
        prefetch.ahead_of(group);
        for (lane, &count) in lanes.iter_mut().zip(group) {
            *lane = *lane + count.wide();
        }
    }
    let all = lanes
        .into_iter()
        .fold(T::Wide::default(), |sum, lane| sum + lane);
    rest.iter().fold(all, |sum, &count| sum + count.wide())
}

/// Sums of neighbours, and the sum of squared differences.
#[inline(always)]
fn halve<F: Copy, W: Wide>(from: &[F], sums: &mut [W], wide: impl Fn(F) -> W) -> i64 {
    let (groups, rest) = from.as_chunks::<2>().0.as_chunks::<LANES>();
    let (sum_groups, sum_rest) = sums.as_chunks_mut::<LANES>();
    let mut squares = [0_i64; LANES];
    for (group, sums) in groups.iter().zip(sum_groups) {
        // Compilers do not vectorise pairs here.
        let (mut a, mut b) = ([W::default(); LANES], [W::default(); LANES]);
        for ((pair, a), b) in group.iter().zip(&mut a).zip(&mut b) {
            *a = wide(pair[0]);
            *b = wide(pair[1]);
        }
        for ((sum, &a), &b) in sums.iter_mut().zip(&a).zip(&b) {
            *sum = a + b;
        }
        for ((square, &a), &b) in squares.iter_mut().zip(&a).zip(&b) {
            let difference = (a - b).long();
            *square += difference * difference;
        }
    }
    let mut all = squares.iter().sum();
    for (pair, sum) in rest.iter().zip(sum_rest) {
        let (a, b) = (wide(pair[0]), wide(pair[1]));
        *sum = a + b;
        let difference = (a - b).long();
        all += difference * difference;
    }
    all
}

#[inline(always)]
fn transform<F: Copy, W: Wide>(
    from: &[F],
    sums: &mut [W],
    differences: &mut [f64],
    factor: f64,
    wide: impl Fn(F) -> W,
) {
    let pairs = from.as_chunks::<2>().0;
    for ((pair, sum), difference) in pairs.iter().zip(sums).zip(differences) {
        let (a, b) = (wide(pair[0]), wide(pair[1]));
        *sum = a + b;
        *difference = (a - b).value() * factor;
    }
}

impl<T: Count> Kernel for Row<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self { haar, window, out } = self;
        let (levels, scale) = (haar.levels, haar.scale);
        if haar.output == HaarOutput::Details {
            let half = 1_usize << (levels - 1);
            let factor = factor(levels) * scale;
            for (block, detail) in window.chunks_exact(2 * half).zip(out) {
                let (first, second) = block.split_at(half);
                *detail = (sum(first) - sum(second)).value() * factor;
            }
            return;
        }
        for level in 1..=levels {
            let half = haar.width >> level;
            let (sums, next) = (&mut haar.sums, &mut haar.next);
            if haar.output == HaarOutput::Energies {
                let squares = if level == 1 {
                    halve(window, &mut next[..half], T::wide)
                } else {
                    halve(&sums[..2 * half], &mut next[..half], |sum| sum)
                };
                // Multiplied twice: the square of a scale may overflow where the energy does not.
                out[level - 1] = squares as f64 * 0.5f64.powi(level as i32) * scale * scale;
            } else {
                let (details, factor) = (&mut out[half..2 * half], factor(level) * scale);
                if level == 1 {
                    transform(window, &mut next[..half], details, factor, T::wide);
                } else {
                    let from = &sums[..2 * half];
                    transform(from, &mut next[..half], details, factor, |sum| sum);
                }
            }
            std::mem::swap(sums, next);
        }
        let shift = haar.offset * (1_u64 << levels) as f64;
        let value = |sum: T::Wide| sum.value() * scale + shift;
        let last = &haar.sums[..haar.width >> levels];
        if haar.output == HaarOutput::Energies {
            let energy = lanes(last, |_, sum| value(sum) * value(sum));
            out[levels] = energy * 0.5f64.powi(levels as i32);
        } else {
            let factor = factor(levels);
            for (approximation, &sum) in out.iter_mut().zip(last) {
                *approximation = value(sum) * factor;
            }
        }
    }
}
