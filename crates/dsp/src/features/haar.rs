//! The orthonormal Haar wavelet transform of windows.

use crate::DspError;
use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::Precision;
use crate::sums::lanes;

/// Output of the transform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HaarOutput {
    /// Energy of each level's details, from the first, then of the last approximation: `levels + 1` numbers that add up
    /// to the window's energy.
    Energies,
    /// Details of the last level, `width / 2^levels` numbers: orthonormal differences of neighbouring means over
    /// `2^(levels - 1)` samples.
    Details,
    /// All coefficients in PyWavelets' order: last approximation, then details, last level first.
    Coefficients,
}

impl HaarOutput {
    /// Names, in order.
    pub const NAMES: [&'static str; 3] = ["energies", "details", "coefficients"];

    /// Parses a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Energies, Self::Details, Self::Coefficients]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }
}

/// Haar transform of windows. Level `l` covers roughly `rate / 2^(l + 1)` to `rate / 2^l`: Haar filters are not sharp.
///
/// The approximation of a, b is (a + b) / √2, the detail (a - b) / √2; the next level transforms the approximations.
/// Scaled once at the end: infinite if sums of `2^levels` samples overflow.
pub struct Haar<T> {
    width: usize,
    levels: usize,
    output: HaarOutput,
    sums: Vec<T>,
    next: Vec<T>,
    differences: Vec<T>,
    isa: Isa,
}

impl<T: Precision> Haar<T> {
    /// For windows of `width` samples.
    ///
    /// # Errors
    /// [`DspError::Parameter`] unless the width is a multiple of `2^levels`, `levels` from 1.
    ///
    /// ```
    /// use isochrony_dsp::features::{Haar, HaarOutput};
    /// let mut haar = Haar::<f64>::new(4, 2, HaarOutput::Energies)?;
    /// let mut energies = [0.0; 3];
    /// haar.row(&[1.0, 3.0, 5.0, 5.0], &mut energies);
    /// assert_eq!(energies, [2.0, 9.0, 49.0]);
    /// # Ok::<(), isochrony_dsp::DspError>(())
    /// ```
    pub fn new(width: usize, levels: usize, output: HaarOutput) -> Result<Self, DspError> {
        check_levels(width, levels)?;
        let zeros = |len| vec![T::zero(); len];
        Ok(Self {
            width,
            levels,
            output,
            sums: zeros(width / 2),
            next: zeros(width / 2),
            differences: zeros(width / 2),
            isa: Isa::best(),
        })
    }

    /// Length of a row.
    #[must_use]
    pub fn bins(&self) -> usize {
        bins(self.output, self.width, self.levels)
    }

    /// Transforms a window. Other lengths leave `out` unchanged.
    pub fn row(&mut self, window: &[T], out: &mut [T]) {
        if window.len() == self.width && out.len() == self.bins() {
            let isa = self.isa;
            isa.run(Row {
                haar: self,
                window,
                out,
            });
        }
    }
}

pub(super) fn check_levels(width: usize, levels: usize) -> Result<(), DspError> {
    let most = if width == 0 {
        0
    } else {
        width.trailing_zeros() as usize
    };
    if (1..=most).contains(&levels) {
        return Ok(());
    }
    Err(DspError::Parameter {
        operator: "haar",
        parameter: "levels",
        got: levels.to_string(),
        allowed: format!(
            "from 1 to {most} for windows of {width} samples, whose length each level halves"
        ),
    })
}

pub(super) fn bins(output: HaarOutput, width: usize, levels: usize) -> usize {
    match output {
        HaarOutput::Energies => levels + 1,
        HaarOutput::Details => width >> levels,
        HaarOutput::Coefficients => width,
    }
}

#[inline(always)]
pub(super) fn factor(level: usize) -> f64 {
    0.5f64.powi(level as i32).sqrt()
}

struct Row<'a, T> {
    haar: &'a mut Haar<T>,
    window: &'a [T],
    out: &'a mut [T],
}

#[inline(always)]
fn halve<T: Precision>(from: &[T], sums: &mut [T], differences: &mut [T]) {
    let pairs = from.as_chunks::<2>().0;
    for ((pair, sum), difference) in pairs.iter().zip(sums).zip(differences) {
        *sum = pair[0] + pair[1];
        *difference = pair[0] - pair[1];
    }
}

const LANES: usize = 8;

/// Serial for few samples, else in lanes.
#[inline(always)]
fn sum<T: Precision>(samples: &[T]) -> T {
    let (chunks, rest) = samples.as_chunks::<LANES>();
    let mut lanes = [T::zero(); LANES];
    for chunk in chunks {
        for (lane, &sample) in lanes.iter_mut().zip(chunk) {
            *lane = *lane + sample;
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    let all = ((a + e) + (c + g)) + ((b + f) + (d + h));
    rest.iter().fold(all, |sum, &sample| sum + sample)
}

/// Differences of half-block sums.
#[inline(always)]
fn details<T: Precision>(window: &[T], level: usize, out: &mut [T]) {
    let half = 1_usize << (level - 1);
    let factor = T::of(factor(level));
    for (block, detail) in window.chunks_exact(2 * half).zip(out) {
        let (first, second) = block.split_at(half);
        *detail = (sum(first) - sum(second)) * factor;
    }
}

#[inline(always)]
fn energy<T: Precision>(numbers: &[T]) -> f64 {
    lanes(numbers, |_, number| {
        let number: f64 = number.into();
        number * number
    })
}

#[inline(always)]
fn scaled<T: Precision>(from: &[T], level: usize, to: &mut [T]) {
    let factor = T::of(factor(level));
    for (to, &from) in to.iter_mut().zip(from) {
        *to = from * factor;
    }
}

impl<T: Precision> Kernel for Row<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Self { haar, window, out } = self;
        if haar.output == HaarOutput::Details {
            return details(window, haar.levels, out);
        }
        for level in 1..=haar.levels {
            let half = haar.width >> level;
            let differences = &mut haar.differences[..half];
            if level == 1 {
                halve(window, &mut haar.sums[..half], differences);
            } else {
                halve(&haar.sums[..2 * half], &mut haar.next[..half], differences);
                std::mem::swap(&mut haar.sums, &mut haar.next);
            }
            match haar.output {
                HaarOutput::Energies => {
                    out[level - 1] = T::of(energy(differences) * 0.5f64.powi(level as i32));
                }
                HaarOutput::Coefficients => {
                    scaled(differences, level, &mut out[half..2 * half]);
                }
                HaarOutput::Details => {}
            }
        }
        let last = &haar.sums[..haar.width >> haar.levels];
        match haar.output {
            HaarOutput::Energies => {
                out[haar.levels] = T::of(energy(last) * 0.5f64.powi(haar.levels as i32));
            }
            HaarOutput::Details => {}
            HaarOutput::Coefficients => scaled(last, haar.levels, &mut out[..last.len()]),
        }
    }
}
