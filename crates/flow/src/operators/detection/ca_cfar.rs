//! Cell-averaging CFAR: detection against the power of surrounding cells.

use isochrony_dsp::detect::{CellCfar, Noise, Sides};

use crate::operator;
use crate::operators::filters::numbers::{NumberInput, NumberProcessor};
use crate::operators::filters::stream_processor::ResultProperties;
use crate::operators::kernel_error;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, Workspace, json,
};

operator! {
    /// Compares each power with those around it (cell-averaging CFAR): a level of 1 or more is a detection.
    ///
    /// # Inputs
    /// Real, non-negative powers: samples, shape (n,), or windows of one number each.
    ///
    /// # Returns
    /// Levels of the same shape, float32 for float32, otherwise float64: each power divided by its detection threshold.
    /// `triggers(on=1)` makes ranges of them. Edges: numbers without all their training cells give no level, which are
    /// training + guard at the beginning of each gap-free range and, with both sides, at its end. Delay: training +
    /// guard with both sides, otherwise none.
    ///
    /// # Conventions
    /// Noise exceeds the threshold with probability `pfa`, whatever its power. With averaged cells and `degrees` of 2
    /// the factor is N (pfa^(-1/N) - 1), for other degrees it follows from the F distribution; with an order statistic
    /// it is Rohling's. NaN spreads to the levels whose cells contain it.
    ///
    /// # Errors
    /// The input is not real; `order` with degrees other than 2.
    ///
    /// # Source
    /// H. M. Finn and R. S. Johnson (1968); H. Rohling, "Radar CFAR thresholding in clutter and multiple target
    /// situations" (1983).
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> power = np.random.default_rng(1).exponential(size=2000)
    /// >>> power[700] = 60.0
    /// >>> iso.scan(power, rate=100).ca_cfar(1e-6).triggers(on=1).collect()
    /// array([[700, 701]])
    /// ```
    pub struct CaCfar = "ca_cfar" (Inputs::Exactly(1)) {
        /// Probability that noise is detected (false alarm).
        pfa: f64 = "number" { range: (1e-15, 0.1) },
        /// Training cells on each side, from which the noise power is estimated.
        training: u64 = "integer" { unit: Of("cells"), range: (1.0, 268435456.0), default: || json!(16) },
        /// Cells next to the one under test that are left out, on each side.
        guard: u64 = "integer" { unit: Of("cells"), range: (0.0, 268435456.0), default: || json!(2) },
        /// Training cells on both sides, or only before, which has no delay.
        sides: String = "text" { choices: &["both", "before"], default: || json!("both") },
        /// Estimates the noise by the cell above this share of the sorted training cells, such as 0.75, which other
        /// targets do not mask. Left out: by their mean.
        order: Option<f64> = "number" { unit: Of("of the training cells"), above: 0.0, at_most: 1.0, default: || json!(null) },
        /// Number of squared Gaussian values of which a power is the mean: 2 for complex samples and bins of a
        /// spectrum, 1 for squares of real samples, n for their mean over n samples.
        degrees: u32 = "integer" { unit: Of("degrees of freedom"), range: (1.0, 1e6), default: || json!(2) },
    }
    state {
        numbers: NumberProcessor,
    }
}

impl Operator for CaCfar {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = NumberInput::real("ca_cfar", &inputs[0])?;
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
        // The declaration bounds both, hence their memory.
        let (training, guard) = (self.training as usize, self.guard as usize);
        Workspace::check("ca_cfar", "training", self.training, 16)?;
        Workspace::check("ca_cfar", "guard", self.guard, 16)?;
        let kernel = CellCfar::new(self.pfa, training, guard, sides, noise);
        let kernel = kernel.map_err(|error| kernel_error("ca_cfar", error))?;
        let (lag, skip) = (kernel.lag(), kernel.skip());
        let results = ResultProperties {
            unit: String::new(),
            lag,
            skip,
            held: 0,
        };
        let kernels = input.kernels(&kernel);
        let properties = self
            .numbers
            .bind(&input, kernels, results, kernel.bytes())?;
        // Blocks of sums begin at the start of the contiguous range, so bits depend on it.
        let exact = self.order.is_some();
        Ok(properties.contract(if exact {
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
