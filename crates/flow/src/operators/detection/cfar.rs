//! Detection against a running model of noise.

use isochrony_dsp::detect::NoiseCfar;

use crate::operator;
use crate::operators::filters::numbers::{Given, Numbers, refused};
use crate::operators::filters::streamed::Results;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, json,
};

operator! {
    /// How far each number stands out of the noise before it, as its distance from the noise's mean over the distance at
    /// which it is a detection: 1 and more is detected. `triggers(on=1)` makes ranges of it.
    ///
    /// Real samples, or windows of one number each (a score); as many levels, without delay. Noise is Gaussian, its mean and
    /// deviation are exponentially weighted; the first `memory` numbers of every stretch are learned from and have the level 0.
    /// What is detected does not become noise, until `timeout` numbers in a row were: then all are learned from, until one is
    /// not detected. NaN has the level NaN and is not learned from. XStream, section II-A.
    pub struct Cfar = "cfar" (Inputs::Exactly(1)) {
        /// Probability that a number that is noise is detected; or give `deviations`.
        pfa: Option<f64> = "number" { unit: "of numbers", range: (1e-15, 0.1), default: || json!(null) },
        /// Standard deviations above the mean from which a number is detected; or give `pfa`.
        deviations: Option<f64> = "number" { unit: "standard deviations", range: (1.0, 1000.0), default: || json!(null) },
        /// Time constant of the noise's mean and deviation.
        memory: u64 = "integer" { unit: "numbers", range: (8.0, 4503599627370495.0), default: || json!(1000) },
        /// Detections in a row after which noise is learned from them.
        timeout: u64 = "integer" { unit: "numbers", range: (1.0, 4503599627370495.0), default: || json!(1000) },
    }
    state {
        numbers: Numbers,
    }
}

impl Operator for Cfar {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Given::real("cfar", &inputs[0])?;
        let kernel = match (self.pfa, self.deviations) {
            (Some(pfa), None) => NoiseCfar::with_probability(pfa, self.memory, self.timeout),
            (None, Some(deviations)) => NoiseCfar::new(deviations, self.memory, self.timeout),
            (pfa, _) => {
                return Err(PlanError::Parameter {
                    operator: "cfar",
                    parameter: "pfa",
                    got: pfa.map_or("null, without deviations".into(), |pfa| {
                        format!("{pfa} beside deviations")
                    }),
                    legal: "given where deviations are not, and only there".into(),
                });
            }
        };
        let kernel = kernel.map_err(|error| refused("cfar", &error))?;
        let kernels = given.kernels(&kernel);
        let bound = self.numbers.bind(&given, kernels, Results::default(), 0)?;
        Ok(bound.contract(Contract::Sequential).contiguous())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }
}
