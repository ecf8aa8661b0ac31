//! Zero-phase recursive filters.

use isochrony_dsp::filter::{Iir, REL_ERR, ZeroPhase as Kernel};
use isochrony_dsp::spectrum::Precision;
use serde_json::Value;

use super::iir::{band, family};
use super::sample_input::SampleInput;
use super::stream_processor::{ResultProperties, StreamKernel, StreamProcessor};
use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, json,
};

operator! {
    /// Filters samples forward and backward: no frequency is delayed, and the gain is that of `iir` squared.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// Samples with their indices, shape (n,): float32 for float32, complex64 and complex128 by their parts, otherwise
    /// float64. Edges: each gap-free range is extended at both ends by odd reflection. No delay in the signal; results
    /// come a block of 16,384 samples or more late.
    ///
    /// # Conventions
    /// As `scipy.signal.sosfiltfilt` of each gap-free range, with as many samples of padding, or all but one of a
    /// shorter range. For archives: the backward pass begins where what it does not know yet has decayed to a part in
    /// 10^12. NaN and infinities make all that follows in the range NaN, and up to two blocks before them.
    ///
    /// # Errors
    /// As `iir`; a filter that takes more than 8,388,608 samples to settle.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> t = np.arange(3000) / 1000
    /// >>> slow = np.sin(2 * np.pi * 2 * t)
    /// >>> noisy = iso.scan(slow + np.sin(2 * np.pi * 300 * t), rate=1000)
    /// >>> left = noisy.zero_phase("butter", "lowpass", 40).collect() - slow
    /// >>> bool(abs(left[300:-300]).max() < 1e-3)
    /// True
    /// ```
    pub struct ZeroPhase = "zero_phase" (Inputs::Exactly(1)) {
        /// Filter type: "butter" is flat, "cheby1" has ripple in the passband, "cheby2" in the stopband, "ellip" in
        /// both.
        kind: String = "text" { choices: &["butter", "cheby1", "cheby2", "ellip"], default: || json!("butter"), explicit: true },
        /// Passband type.
        band: String = "text" { choices: &["lowpass", "highpass", "bandpass", "bandstop"] },
        /// Corner frequency, or both corners of a band, between 0 and half the rate: the gain of "butter" is one half
        /// there.
        cutoff_hz: Value = "numbers" { unit: Hertz, above: 0.0 },
        /// Order of the lowpass prototype; a band filter has twice as many poles, and the filter is applied twice.
        order: usize = "integer" { unit: Of("poles"), range: (1.0, 32.0), default: || json!(4), positional: true },
        /// Passband ripple of "cheby1" and "ellip" in one pass.
        ripple_db: Option<f64> = "number" { unit: Decibels, range: (1e-6, 600.0), default: || json!(null) },
        /// Stopband attenuation of "cheby2" and "ellip" in one pass.
        attenuation_db: Option<f64> = "number" { unit: Decibels, range: (1e-6, 600.0), default: || json!(null) },
    }
    state {
        filter: StreamProcessor,
    }
}

impl<T: Precision + Into<f64>> StreamKernel<T> for Kernel {
    fn run(&mut self, values: &[T], results: &mut [T]) {
        // Fails only if lengths differ.
        let _ = self.process(values, results);
    }

    fn flush(&mut self, results: &mut [T]) {
        // There is room for all held results.
        let _ = self.finish(results);
    }

    fn reset(&mut self) {
        Kernel::reset(self);
    }
}

impl Operator for ZeroPhase {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = SampleInput::of("zero_phase", &inputs[0])?;
        let design = Iir {
            family: family(
                "zero_phase",
                &self.kind,
                self.ripple_db,
                self.attenuation_db,
            )?,
            band: band("zero_phase", &self.band, &self.cutoff_hz)?,
            order: self.order,
        };
        let sections = design.design("zero_phase", input.rate)?;
        let filter = Kernel::new("zero_phase", &sections)?;
        let lag = filter.lag() as u64;
        let results = ResultProperties {
            unit: input.unit().into(),
            lag,
            skip: lag,
            held: lag,
        };
        let kernels = input.kernels(|| filter.clone(), || filter.clone());
        let properties = self.filter.bind("zero_phase", &input, kernels, results)?;
        Ok(properties.contract(Contract::Settling {
            before: lag,
            rel_err: REL_ERR,
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.filter.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        self.filter.flush(out)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.filter.flush(out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        self.filter.progress(upto)
    }
}
