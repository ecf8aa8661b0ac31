//! FIR filters of a signal in pieces.
//!
//! Few taps: direct convolution, vectorised over 32 or 64 results. Each result is summed from the oldest sample on, so
//! its bits do not depend on how the signal is cut. Many taps: overlap-save in blocks at fixed distances from the first
//! sample; results come two blocks later.
//!
//! State: the last `taps - 1` samples, stored in front of the next block.

use super::direct_sums::DirectSums;
use super::overlap_save::OverlapSave;
use crate::DspError;
use crate::isa::Isa;
use crate::spectrum::Precision;

const BLOCK: usize = 2048;

/// How results are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirMethod {
    /// The faster one.
    #[default]
    Auto,
    /// Sums of products of a result's own samples.
    Direct,
    /// Overlap-save: errors of 1e-15 (f32: 1e-7) of the block's largest samples.
    Fft,
}

/// Number of taps from which overlap-save is faster, measured on AVX2.
const MIN_FFT_TAPS: usize = 80;

/// An FIR filter with state: result n is the sum of `taps[k] x[n - k]`, with zeros before the first sample.
///
/// NaN and infinities reach as far as the taps.
///
/// ```
/// use isochrony_dsp::filter::{Fir, FirMethod};
///
/// let mut difference = Fir::new("fir", &[1.0, -1.0], FirMethod::Auto)?;
/// assert_eq!(difference.latency(), 0);
/// let mut results = [0.0f64; 3];
/// difference.process(&[1.0, 4.0, 9.0], &mut results)?;
/// assert_eq!(results, [1.0, 3.0, 5.0]);
/// difference.process(&[16.0, 25.0, 36.0], &mut results)?;
/// assert_eq!(results, [7.0, 9.0, 11.0]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Clone)]
pub struct Fir<T: Precision> {
    direct: Direct<T>,
    overlap_save: Option<OverlapSave<T>>,
}

impl<T: Precision> Fir<T> {
    /// A filter before its first sample.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if there are no taps, more than `MAX_TAPS`, or one that is not finite.
    pub fn new(operator: &'static str, taps: &[f64], method: FirMethod) -> Result<Self, DspError> {
        Self::on(Isa::best(), operator, taps, method)
    }

    /// [`new`](Self::new) on an instruction set, for tests.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn on(
        isa: Isa,
        operator: &'static str,
        taps: &[f64],
        method: FirMethod,
    ) -> Result<Self, DspError> {
        super::fir_design::count(operator, taps.len())?;
        if let Some(tap) = taps.iter().find(|tap| !tap.is_finite()) {
            return Err(super::parameter_error(
                operator,
                "taps",
                tap.to_string(),
                "finite numbers",
            ));
        }
        let overlap_save = uses_overlap_save(taps.len(), method);
        Ok(Self {
            direct: Direct::new(isa, taps),
            overlap_save: overlap_save.then(|| OverlapSave::new(isa, taps)),
        })
    }

    /// Upper bound of a filter's memory in bytes, before it is built.
    #[must_use]
    pub fn bytes(taps: usize, method: FirMethod) -> u64 {
        let direct = 2 * taps.saturating_add(BLOCK) as u64 * size_of::<T>() as u64;
        match uses_overlap_save(taps, method) {
            true => direct + super::overlap_save::bytes::<T>(taps),
            false => direct,
        }
    }

    /// Latency in samples: the first `latency()` results are padding. As many zeros at the end flush the last results.
    #[must_use]
    pub fn latency(&self) -> usize {
        self.overlap_save.as_ref().map_or(0, OverlapSave::latency)
    }

    /// Forgets all samples.
    pub fn reset(&mut self) {
        self.direct.reset();
        if let Some(overlap_save) = &mut self.overlap_save {
            overlap_save.reset();
        }
    }

    /// Filters the next samples. `output` is as long as `input`, and [`latency`](Self::latency) behind.
    ///
    /// # Errors
    /// [`DspError::OutputLength`].
    pub fn process(&mut self, input: &[T], output: &mut [T]) -> Result<(), DspError> {
        if input.len() != output.len() {
            return Err(DspError::OutputLength {
                operator: "fir",
                expected: input.len(),
                got: output.len(),
            });
        }
        match &mut self.overlap_save {
            None => self.direct.process(input, output),
            Some(overlap_save) => overlap_save.process(&self.direct.reversed, input, output),
        }
        Ok(())
    }
}

fn uses_overlap_save(taps: usize, method: FirMethod) -> bool {
    match method {
        FirMethod::Direct => false,
        FirMethod::Fft => true,
        FirMethod::Auto => taps >= MIN_FFT_TAPS,
    }
}

#[derive(Debug, Clone)]
struct Direct<T> {
    isa: Isa,
    reversed: Vec<T>,
    history: Vec<T>,
}

impl<T: Precision> Direct<T> {
    fn new(isa: Isa, taps: &[f64]) -> Self {
        Self {
            isa,
            reversed: taps.iter().rev().map(|&tap| T::of(tap)).collect(),
            history: vec![T::zero(); taps.len() - 1 + BLOCK],
        }
    }

    fn reset(&mut self) {
        self.history.fill(T::zero());
    }

    fn process(&mut self, input: &[T], output: &mut [T]) {
        let before = self.reversed.len() - 1;
        for (input, output) in input.chunks(BLOCK).zip(output.chunks_mut(BLOCK)) {
            self.history[before..before + input.len()].copy_from_slice(input);
            self.isa.run(DirectSums {
                reversed: &self.reversed,
                row: &self.history[..before + input.len()],
                results: output,
            });
            self.history
                .copy_within(input.len()..input.len() + before, 0);
        }
    }
}
