//! Envelope of a stream of samples.

use isochrony_dsp::filter::{Fir, FirMethod, hilbert};
use isochrony_dsp::spectrum::Precision;

use super::sample_input::SampleInput;
use super::stream_processor::{ResultProperties, StreamKernel, StreamProcessor};
use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, json,
};

operator! {
    /// Computes the envelope of continuous samples with a Hilbert transformer; `Plan.envelope` adds it to samples.
    ///
    /// # Inputs
    /// Real samples, shape (n,).
    ///
    /// # Returns
    /// Magnitudes of the analytic signal with the indices and unit of the samples, shape (n,): float32 for float32, in
    /// single precision, otherwise float64. Edges: about (attenuation_db - 2) / 58 * rate / low_hz samples, or a few
    /// more, are left out at both ends of each gap-free range. No delay.
    ///
    /// # Conventions
    /// A sine between `low_hz` and half the rate less `low_hz` gives its amplitude within 10^(-attenuation_db / 20) of
    /// it. Lower frequencies and an offset appear rectified, as their absolute value: remove them with `highpass` first.
    /// NaN and infinities reach as far as the taps.
    ///
    /// # Errors
    /// A frequency outside 0 Hz to a quarter of the rate; input that is not real samples.
    ///
    /// # Source
    /// A. V. Oppenheim and R. W. Schafer, "Discrete-Time Signal Processing", 3rd edition, 12.4.
    pub struct StreamEnvelope = "stream_envelope" (Inputs::Exactly(1)) {
        /// Lowest frequency of which the envelope is accurate, below a quarter of the rate.
        low_hz: f64 = "number" { unit: Hertz, above: 0.0 },
        /// Accuracy of the envelope in the band.
        attenuation_db: f64 = "number" { unit: Decibels, range: (20.0, 160.0), default: || json!(60.0) },
    }
    state {
        envelope: StreamProcessor,
    }
}

/// Of block transforms, relative to their largest samples.
const ROUNDING_ERROR: f64 = 1e-14;

/// Magnitude of sample and Hilbert transform, delayed by `lag` samples.
#[derive(Clone)]
struct EnvelopeKernel<T: Precision> {
    filter: Fir<T>,
    lag: usize,
    /// The last `lag` samples, then the call's.
    delayed: Vec<T>,
}

impl<T: Precision> EnvelopeKernel<T> {
    fn new(taps: &[f64]) -> Result<Self, PlanError> {
        let filter = Fir::new("stream_envelope", taps, FirMethod::Auto)?;
        let lag = filter.latency() + taps.len() / 2;
        Ok(Self {
            filter,
            lag,
            delayed: vec![T::zero(); lag],
        })
    }
}

impl<T: Precision> StreamKernel<T> for EnvelopeKernel<T> {
    fn run(&mut self, values: &[T], results: &mut [T]) {
        // Fails only if lengths differ.
        let _ = self.filter.process(values, results);
        self.delayed.extend_from_slice(values);
        for (turned, &sample) in results.iter_mut().zip(&self.delayed) {
            *turned = (sample * sample + *turned * *turned).sqrt();
        }
        self.delayed.drain(..values.len());
    }

    fn reset(&mut self) {
        self.filter.reset();
        self.delayed.clear();
        self.delayed.resize(self.lag, T::zero());
    }
}

impl Operator for StreamEnvelope {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = SampleInput::real("stream_envelope", &inputs[0])?;
        let taps = hilbert(
            "stream_envelope",
            self.attenuation_db,
            self.low_hz,
            input.rate,
        )?;
        let (single, double) = (
            EnvelopeKernel::<f32>::new(&taps)?,
            EnvelopeKernel::<f64>::new(&taps)?,
        );
        let half = taps.len() as u64 / 2;
        let latency = double.filter.latency() as u64;
        let results = ResultProperties {
            unit: input.unit().into(),
            lag: latency + half,
            skip: latency + 2 * half,
            held: latency,
        };
        let kernels = input.kernels(|| single.clone(), || double.clone());
        let properties = self
            .envelope
            .bind("stream_envelope", &input, kernels, results)?;
        Ok(properties.contract(match latency {
            0 => Contract::Overlap {
                before: half,
                after: half,
            },
            // The last bits depend on where blocks begin.
            _ => Contract::Settling {
                before: 2 * half + latency,
                rel_err: ROUNDING_ERROR,
            },
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.envelope.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        self.envelope.flush(out)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.envelope.flush(out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        self.envelope.progress(upto)
    }
}
