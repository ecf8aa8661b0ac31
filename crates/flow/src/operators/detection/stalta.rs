//! Short-time average over long-time average.

use isochrony_dsp::detect::{ClassicStaLta, RecursiveStaLta};

use crate::operator;
use crate::operators::filters::numbers::{Given, Numbers, refused};
use crate::operators::filters::streamed::Results;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, json,
};

operator! {
    /// Ratio of the mean square of a short time to that of a long time, both ending at each sample: a trigger of onsets.
    ///
    /// Real samples, or windows of one number each; as many ratios, without delay. The first ones of every stretch are 0, until
    /// the long window is full; of silence the ratio is 0, too. "classic" takes plain means of the last samples (NaN
    /// reaches as far as the long window; months of samples leave no rounding errors behind), "recursive" exponentially
    /// weighted ones with these time constants (NaN stays to the end of the stretch). Conventions are ObsPy's.
    pub struct StaLta = "stalta" (Inputs::Exactly(1)) {
        /// Length of the short time.
        sta: f64 = "number" { unit: "s", range: (0.0, 1e9) },
        /// Length of the long time.
        lta: f64 = "number" { unit: "s", range: (0.0, 1e9) },
        /// Plain means, or exponentially weighted ones.
        method: String = "text" { choices: &["classic", "recursive"], default: || json!("classic") },
    }
    state {
        numbers: Numbers,
    }
}

impl Operator for StaLta {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Given::real("stalta", &inputs[0])?;
        let (sta, lta) = (given.count("sta", self.sta)?, given.count("lta", self.lta)?);
        if lta <= sta {
            return Err(PlanError::Parameter {
                operator: "stalta",
                parameter: "lta",
                got: format!("{} s ({lta} numbers)", self.lta),
                legal: format!("longer than sta={} s ({sta} numbers)", self.sta),
            });
        }
        let refuse = |error| refused("stalta", &error);
        let (kernels, bytes) = if self.method == "classic" {
            let kernel = ClassicStaLta::new(sta, lta).map_err(refuse)?;
            (given.kernels(&kernel), kernel.bytes())
        } else {
            let kernel = RecursiveStaLta::new(sta, lta).map_err(refuse)?;
            (given.kernels(&kernel), 0)
        };
        let bound = self
            .numbers
            .bind(&given, kernels, Results::default(), bytes)?;
        // Exponential weights never end, and a ratio has no scale: of energy that was great enough before, what is left
        // outweighs what is there now, however long ago that was.
        if self.method != "classic" {
            return Ok(bound.contract(Contract::Sequential).contiguous());
        }
        Ok(bound.contract(Contract::Settling {
            before: lta as u64 - 1,
            rel_err: 2.0 * (sta + lta) as f64 * f64::EPSILON,
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }
}
