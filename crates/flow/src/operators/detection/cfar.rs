//! Detection against a running estimate of the noise (CFAR).

use isochrony_dsp::detect::NoiseCfar;

use crate::operator;
use crate::operators::filters::numbers::{NumberInput, NumberProcessor};
use crate::operators::filters::stream_processor::ResultProperties;
use crate::operators::kernel_error;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, json,
};

operator! {
    /// Compares each number with the noise before it: a level of 1 or more is a detection.
    ///
    /// # Inputs
    /// Real samples, shape (n,), or windows of one number each, such as a score.
    ///
    /// # Returns
    /// Levels of the same shape, float32 for float32, otherwise float64: the distance from the mean of the noise,
    /// divided by the distance at which a number is detected. `triggers(on=1)` makes ranges of them. Edges: the first
    /// `memory` levels of each gap-free range are 0. No delay.
    ///
    /// # Conventions
    /// Noise is Gaussian; its mean and deviation are exponentially weighted. With `pfa` the distance is that of
    /// Student's t distribution, because mean and deviation are estimates; the bias from excluding detections is
    /// corrected. NaN has the level NaN and does not count as noise.
    ///
    /// # Errors
    /// Both or neither of `pfa` and `deviations`; the input is not real.
    ///
    /// # Source
    /// L. Girod et al., "XStream: a signal-oriented data stream management system" (2008), section II-A.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> signal = np.random.default_rng(1).normal(size=(500, 32))
    /// >>> signal[400] *= 3
    /// >>> loudness = iso.scan(signal.ravel(), rate=48_000).rewindow(32).map(lambda s: (s * s).mean())
    /// >>> loudness.cfar(deviations=6, memory=100).triggers(on=1).collect() // 32
    /// array([[400, 401]])
    /// ```
    pub struct Cfar = "cfar" (Inputs::Exactly(1)) {
        /// Probability that noise is detected (false alarm). Give this or `deviations`.
        pfa: Option<f64> = "number" { range: (1e-15, 0.1), default: || json!(null), positional: true },
        /// Standard deviations above the mean from which a number is detected.
        deviations: Option<f64> = "number" { unit: Of("standard deviations"), range: (1.0, 1000.0), default: || json!(null) },
        /// Time constant of the mean and deviation of the noise. This many numbers are learned from first.
        memory: u64 = "integer" { unit: Items, range: (8.0, 4503599627370495.0), default: || json!(1000) },
        /// After this many consecutive detections, samples count as noise again, until one is not detected; so the
        /// model follows a lasting step.
        timeout: u64 = "integer" { unit: Items, range: (1.0, 4503599627370495.0), default: || json!(1000) },
    }
    state {
        numbers: NumberProcessor,
    }
}

impl Operator for Cfar {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = NumberInput::real("cfar", &inputs[0])?;
        let kernel = match (self.pfa, self.deviations) {
            (Some(pfa), None) => NoiseCfar::with_probability(pfa, self.memory, self.timeout),
            (None, Some(deviations)) => NoiseCfar::new(deviations, self.memory, self.timeout),
            (None, None) => {
                return Err(PlanError::NeedsParameter {
                    operator: "cfar",
                    needs: "needs pfa= or deviations=".into(),
                    mend: "give one of them",
                });
            }
            (Some(_), Some(_)) => {
                return Err(PlanError::NeedsParameter {
                    operator: "cfar",
                    needs: "takes pfa= or deviations=, and both were given".into(),
                    mend: "leave one of them out",
                });
            }
        };
        let kernel = kernel.map_err(|error| kernel_error("cfar", error))?;
        let kernels = input.kernels(&kernel);
        let properties = self
            .numbers
            .bind(&input, kernels, ResultProperties::default(), 0)?;
        Ok(properties.contract(Contract::Sequential).contiguous())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }
}
