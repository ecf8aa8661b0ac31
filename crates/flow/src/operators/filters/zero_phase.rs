//! Recursive filters without delay.

use isochrony_dsp::filter::{Iir, REL_ERR, ZeroPhase as Kernel};
use isochrony_dsp::spectrum::Precision;
use serde_json::Value;

use super::iir::{band, family};
use super::sampled::Sampled;
use super::streamed::{Results, StreamKernel, Streamed};
use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, json,
};

operator! {
    /// A recursive filter forward and backward: no delay of any frequency, and twice the attenuation in dB.
    ///
    /// Samples in, as many samples out, with their indices; types as with `iir`. For archives: results come a block
    /// of 16,384 samples or more late, since backward begins where what it does not know has decayed to a part in
    /// 10^12. Each stretch is by itself, continued at both ends by itself turned about its end (odd). NaN and infinities
    /// make all that follows in the stretch NaN, and what is up to the delay before them.
    pub struct ZeroPhase = "zero_phase" (Inputs::Exactly(1)) {
        /// Shape: "butter" is flat, "cheby1" ripples where it passes, "cheby2" where it stops, "ellip" in both.
        kind: String = "text" { choices: &["butter", "cheby1", "cheby2", "ellip"], default: || json!("butter") },
        /// What passes.
        band: String = "text" { choices: &["lowpass", "highpass", "bandpass", "bandstop"] },
        /// The corner, or both corners of a band: between 0 and half the rate.
        cutoff_hz: Value = "numbers" { unit: "Hz" },
        /// Order of the lowpass that it is made of; a band has twice as many poles, and all of it is applied twice.
        order: usize = "integer" { range: (1.0, 32.0), default: || json!(4) },
        /// Depth of the ripple of "cheby1" and "ellip" where they pass, once.
        ripple_db: Option<f64> = "number" { unit: "dB", range: (1e-6, 600.0), default: || json!(null) },
        /// Least attenuation of "cheby2" and "ellip" where they stop, once.
        attenuation_db: Option<f64> = "number" { unit: "dB", range: (1e-6, 600.0), default: || json!(null) },
    }
    state {
        filter: Streamed,
    }
}

impl<T: Precision + Into<f64>> StreamKernel<T> for Kernel {
    fn run(&mut self, values: &[T], results: &mut [T]) {
        // It fails for other lengths only, and these are equal.
        let _ = self.process(values, results);
    }

    fn flush(&mut self, results: &mut [T]) {
        // Room for as many as it said that it holds.
        let _ = self.finish(results);
    }

    fn reset(&mut self) {
        Kernel::reset(self);
    }
}

impl Operator for ZeroPhase {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Sampled::of("zero_phase", &inputs[0])?;
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
        let sections = design.design("zero_phase", given.rate)?;
        let filter = Kernel::new("zero_phase", &sections)?;
        let lag = filter.lag() as u64;
        let results = Results {
            unit: given.unit().into(),
            lag,
            skip: lag,
            held: lag,
        };
        let kernels = given.kernels(|| filter.clone(), || filter.clone());
        let bound = self.filter.bind("zero_phase", &given, kernels, results)?;
        Ok(bound.contract(Contract::Settling {
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
