//! Detection against the power of cells around.

use isochrony_dsp::detect::{CellCfar, Noise, Sides};

use crate::operator;
use crate::operators::filters::numbers::{Given, Numbers, refused};
use crate::operators::filters::streamed::Results;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, Workspace, json,
};

operator! {
    /// How far each power stands out of those around it, as its ratio to a threshold above which noise is with a stated
    /// probability: 1 and more is detected. `triggers(on=1)` makes ranges of it.
    ///
    /// Powers, not negative: samples, or windows of one number each. The threshold is a factor times the mean of the training
    /// cells (cell averaging), or times the one of a rank among them (ordered statistic, which other targets do not
    /// mask). Numbers that lack training cells, at the beginning of a stretch and, where there are cells on both sides, at its
    /// end, have no level. NaN reaches the levels in whose cells it is. Finn and Johnson (1968), Rohling (1983).
    pub struct CaCfar = "ca_cfar" (Inputs::Exactly(1)) {
        /// Probability that noise is detected.
        pfa: f64 = "number" { unit: "of numbers", range: (1e-15, 0.1) },
        /// Training cells on each side.
        training: u64 = "integer" { unit: "numbers", range: (1.0, 268435456.0), default: || json!(16) },
        /// Cells next to the one under test, on each side, that are left out.
        guard: u64 = "integer" { unit: "numbers", range: (0.0, 268435456.0), default: || json!(2) },
        /// Where training cells are: on both sides, or before, which has no delay.
        sides: String = "text" { choices: &["both", "before"], default: || json!("both") },
        /// Part of the training cells, in order, below the one that stands for noise; null: their mean does.
        order: Option<f64> = "number" { unit: "of the training cells", range: (0.0, 1.0), default: || json!(null) },
        /// How many squares of Gaussian numbers a power is the mean of: 2 of complex samples or bins of a spectrum, 1 of
        /// squares of real samples; more of averages. `order` needs 2.
        degrees: u32 = "integer" { unit: "degrees of freedom", range: (1.0, 1e6), default: || json!(2) },
    }
    state {
        numbers: Numbers,
    }
}

impl Operator for CaCfar {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Given::real("ca_cfar", &inputs[0])?;
        let noise = match (self.order, self.degrees) {
            (None, degrees) => Noise::Mean { degrees },
            (Some(at), 2) => Noise::Rank { at },
            (Some(_), degrees) => {
                return Err(PlanError::Parameter {
                    operator: "ca_cfar",
                    parameter: "degrees",
                    got: degrees.to_string(),
                    legal: "2 where order is given".into(),
                });
            }
        };
        let sides = match self.sides.as_str() {
            "both" => Sides::Both,
            _ => Sides::Before,
        };
        // The declaration keeps both within what memory is taken for.
        let (training, guard) = (self.training as usize, self.guard as usize);
        Workspace::check("ca_cfar", "training", self.training, 16)?;
        Workspace::check("ca_cfar", "guard", self.guard, 16)?;
        let kernel = CellCfar::new(self.pfa, training, guard, sides, noise);
        let kernel = kernel.map_err(|error| refused("ca_cfar", &error))?;
        let (lag, skip) = (kernel.lag(), kernel.skip());
        let results = Results {
            unit: String::new(),
            lag,
            skip,
            held: 0,
        };
        let kernels = given.kernels(&kernel);
        let bound = self
            .numbers
            .bind(&given, kernels, results, kernel.bytes())?;
        // Sums have the order of the stretch's blocks, so bits depend on where it began.
        let exact = self.order.is_some();
        Ok(bound.contract(if exact {
            Contract::Overlap {
                before: skip - lag,
                after: lag,
            }
        } else {
            Contract::Settling {
                before: skip,
                rel_err: 4.0 * self.training as f64 * f64::EPSILON,
            }
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        self.numbers.progress(upto)
    }
}
