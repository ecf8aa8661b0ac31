//! Forward-backward recursive filtering.
//!
//! The backward pass of a block starts where the unknown future has decayed to [`REL_ERR`]. Blocks lie at fixed
//! distances from the first sample.
//!
//! State: unused forward results, at most a block and the settling time.

use super::parameter_error;
use super::sections::Sections;
use super::sos::{Initial, SosFilter};
use crate::DspError;
use crate::spectrum::Precision;

/// Relative error from cutting the backward pass.
pub const REL_ERR: f64 = 1e-12;
const MIN_BLOCK: usize = 1 << 14;
/// Maximum settling time; twice as many samples are buffered.
const MAX_SETTLING: u64 = 1 << 23;

/// Filters forward and backward, as SciPy's `sosfiltfilt` with odd padding, shorter than the range.
///
/// Results come [`lag`](Self::lag) samples late, the last by [`finish`](Self::finish). NaN and infinities make the
/// range NaN, from up to a lag before.
///
/// ```
/// use isochrony_dsp::filter::{Band, Family, Iir, ZeroPhase};
///
/// let design = Iir { family: Family::Butterworth, band: Band::Lowpass(5.0), order: 2 }.design("iir", 100.0)?;
/// let mut filter = ZeroPhase::new("zero_phase", &design)?;
/// let ramp: Vec<f64> = (0..100).map(f64::from).collect();
/// filter.process(&ramp, &mut vec![0.0; 100])?; // all of it is held back
/// let mut results = vec![0.0f64; filter.lag()];
/// filter.finish(&mut results)?;
/// let results = &results[filter.lag() - 100..];
/// assert!((results[50] - 50.0).abs() < 1e-3); // a straight line passes as it is, away from its ends
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ZeroPhase {
    forward: SosFilter,
    backward: SosFilter,
    pad: usize,
    settling: usize,
    block: usize,
    /// Forward results; raw samples until the padding is complete.
    passed: Vec<f64>,
    begun: bool,
    last: Vec<f64>,
    ready: Vec<f64>,
    work: Vec<f64>,
}

impl ZeroPhase {
    /// Before the first sample.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if the filter needs more than 8,388,608 samples to settle.
    pub fn new(operator: &'static str, sections: &Sections) -> Result<Self, DspError> {
        let settling = sections.settling(REL_ERR);
        if settling > MAX_SETTLING {
            let got = format!("settling after {settling} samples");
            let allowed = format!(
                "settled after {MAX_SETTLING}: raise the lowest corner, widen the band or lower the order"
            );
            return Err(parameter_error(operator, "cutoff_hz", got, allowed));
        }
        let settling = settling as usize;
        let block = settling.max(MIN_BLOCK);
        let rows = sections.as_slice();
        let no_zero = rows.iter().filter(|row| row.b[2] == 0.0).count();
        let no_pole = rows.iter().filter(|row| row.a[1] == 0.0).count();
        let pad = 3 * (2 * rows.len() + 1 - no_zero.min(no_pole));
        Ok(Self {
            forward: SosFilter::new(sections, Initial::Steady),
            backward: SosFilter::new(sections, Initial::Steady),
            pad,
            settling,
            block,
            passed: Vec::with_capacity(block + settling),
            begun: false,
            last: Vec::with_capacity(pad + 1),
            ready: vec![0.0; block],
            work: vec![0.0; block + settling + pad],
        })
    }

    /// Delay of results in samples.
    #[must_use]
    pub fn lag(&self) -> usize {
        self.block + self.settling
    }

    /// Forgets all samples.
    pub fn reset(&mut self) {
        self.forward.reset();
        self.passed.clear();
        self.last.clear();
        self.begun = false;
    }

    /// Filters the next samples. `output` is as long as `input`, and a [`lag`](Self::lag) behind; the first lag of
    /// results is undefined.
    ///
    /// # Errors
    /// [`DspError::OutputLength`].
    pub fn process<T: Precision + Into<f64>>(
        &mut self,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), DspError> {
        if input.len() != output.len() {
            return Err(wrong_length(input.len(), output.len()));
        }
        let (mut input, mut output) = (input, output);
        while !input.is_empty() {
            let filled = self.passed.len();
            let until = if !self.begun {
                self.pad + 1
            } else if filled < self.settling {
                self.settling
            } else {
                self.lag()
            };
            let count = input.len().min(until - filled);
            let (now, later) = input.split_at(count);
            let (out_now, out_later) = output.split_at_mut(count);
            let given = self
                .ready
                .get(filled.wrapping_sub(self.settling)..)
                .unwrap_or(&[]);
            out_now.fill(T::zero());
            for (result, value) in out_now.iter_mut().zip(given) {
                *result = T::of(*value);
            }
            self.take(now);
            if self.passed.len() == self.lag() {
                self.make_block();
            }
            (input, output) = (later, out_later);
        }
        Ok(())
    }

    /// Ends the signal: results for its last [`lag`](Self::lag) samples, right-aligned if it is shorter.
    ///
    /// # Errors
    /// [`DspError::OutputLength`] unless `output` is as long as the lag.
    pub fn finish<T: Precision>(&mut self, output: &mut [T]) -> Result<(), DspError> {
        if output.len() != self.lag() {
            return Err(wrong_length(self.lag(), output.len()));
        }
        if !self.begun {
            self.begin();
        }
        let count = self.passed.len();
        let (before, end) = output.split_at_mut(output.len() - count);
        let given = self.block - before.len().min(self.block);
        for (result, value) in before.iter_mut().zip(&self.ready[given..]) {
            *result = T::of(*value);
        }
        if count > 0 {
            let pad = self.last.len() - 1;
            let turn = 2.0 * self.last[pad];
            let work = &mut self.work[..count + pad];
            work[..count].copy_from_slice(&self.passed);
            for (value, sample) in work[count..].iter_mut().zip(self.last[..pad].iter().rev()) {
                *value = turn - sample;
            }
            self.forward.process_in_place(&mut work[count..]);
            work.reverse();
            self.backward.reset();
            self.backward.process_in_place(work);
            for (result, value) in end.iter_mut().rev().zip(&work[pad..]) {
                *result = T::of(*value);
            }
        }
        self.reset();
        Ok(())
    }

    fn take<T: Precision + Into<f64>>(&mut self, samples: &[T]) {
        let from = self.passed.len();
        self.passed
            .extend(samples.iter().map(|&sample| -> f64 { sample.into() }));
        let new = &self.passed[from..];
        let kept = &new[new.len().saturating_sub(self.pad + 1)..];
        let too_many = (self.last.len() + kept.len()).saturating_sub(self.pad + 1);
        self.last.drain(..too_many);
        self.last.extend_from_slice(kept);
        if self.begun {
            self.forward.process_in_place(&mut self.passed[from..]);
        } else if self.passed.len() == self.pad + 1 {
            self.begin();
        }
    }

    /// The padding mirrors the signal at its first sample, as far as it reaches.
    fn begin(&mut self) {
        self.begun = true;
        let Some(first) = self.passed.first() else {
            return;
        };
        let turn = 2.0 * first;
        let before = self.passed.iter().take(self.pad + 1).skip(1).rev();
        let mut made: Vec<f64> = before.map(|sample| turn - sample).collect();
        self.forward.process_in_place(&mut made);
        self.forward.process_in_place(&mut self.passed);
    }

    fn make_block(&mut self) {
        let work = &mut self.work[..self.block + self.settling];
        for (value, passed) in work.iter_mut().zip(self.passed.iter().rev()) {
            *value = *passed;
        }
        self.backward.reset();
        self.backward.process_in_place(work);
        for (result, value) in self.ready.iter_mut().rev().zip(&work[self.settling..]) {
            *result = *value;
        }
        self.passed.drain(..self.block);
    }
}

fn wrong_length(expected: usize, got: usize) -> DspError {
    DspError::OutputLength {
        operator: "zero-phase filter",
        expected,
        got,
    }
}
