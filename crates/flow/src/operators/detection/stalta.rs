//! STA/LTA: ratio of short-time to long-time average.

use isochrony_dsp::detect::{ClassicStaLta, RecursiveStaLta};

use crate::operator;
use crate::operators::filters::numbers::{NumberInput, NumberProcessor};
use crate::operators::filters::stream_processor::ResultProperties;
use crate::operators::kernel_error;
use crate::{
    Break, Contract, Inputs, Item, Length, Next, OpError, Operator, OperatorProperties, Out,
    PlanError, Port, PortType, json,
};

operator! {
    /// Computes the ratio of short-term to long-term average power (STA/LTA), for triggering on onsets.
    ///
    /// # Inputs
    /// Real samples, shape (n,), or windows of one number each.
    ///
    /// # Returns
    /// Ratios of the same shape, float32 for float32, otherwise float64. Edges: 0 until the long window is full, in
    /// each gap-free range. No delay: both windows end at each sample.
    ///
    /// # Conventions
    /// Those of ObsPy's `classic_sta_lta` and `recursive_sta_lta`. The ratio of silence is 0. Classic sums keep no
    /// rounding errors of samples that have left the window. NaN reaches as far as the long window; with the recursive
    /// method, to the end of its gap-free range.
    ///
    /// # Errors
    /// `lta` not longer than `sta`; a window shorter than half a sample; input that is not real.
    ///
    /// # Source
    /// R. V. Allen, "Automatic earthquake recognition and timing from single traces" (1978).
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> signal = np.random.default_rng(1).normal(size=5000)
    /// >>> signal[3000:3100] *= 20
    /// >>> ratio = iso.scan(signal, rate=100).stalta(0.2, 10)
    /// >>> ratio.triggers(on=5, off=1).collect().round(-1)
    /// array([[3000, 3120]])
    /// ```
    pub struct StaLta = "stalta" (Inputs::Exactly(1)) {
        /// Length of the short window, to the nearest sample.
        sta: Length = "number" { unit: Seconds, above: 0.0, at_most: 1e9 },
        /// Length of the long window, longer than `sta`.
        lta: Length = "number" { unit: Seconds, above: 0.0, at_most: 1e9 },
        /// "classic" takes plain means, "recursive" exponentially weighted ones with these time constants.
        method: String = "text" { choices: &["classic", "recursive"], default: || json!("classic") },
    }
    state {
        numbers: NumberProcessor,
    }
}

impl Operator for StaLta {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = NumberInput::real("stalta", &inputs[0])?;
        let (sta, lta) = (input.count("sta", self.sta)?, input.count("lta", self.lta)?);
        if lta <= sta {
            return Err(PlanError::Parameter {
                operator: "stalta",
                parameter: "lta",
                got: format!("{} ({lta} {})", self.lta, input.length_unit()),
                legal: format!(
                    "longer than sta={} ({sta} {})",
                    self.sta,
                    input.length_unit()
                ),
            });
        }
        let refuse = |error| kernel_error("stalta", error);
        let (kernels, bytes) = if self.method == "classic" {
            let kernel = ClassicStaLta::new(sta, lta).map_err(refuse)?;
            (input.kernels(&kernel), kernel.bytes())
        } else {
            let kernel = RecursiveStaLta::new(sta, lta).map_err(refuse)?;
            (input.kernels(&kernel), 0)
        };
        let properties = self
            .numbers
            .bind(&input, kernels, ResultProperties::default(), bytes)?;
        // Exponential weights never reach zero: however old, large earlier energy can outweigh the present.
        if self.method != "classic" {
            return Ok(properties.contract(Contract::Sequential).contiguous());
        }
        Ok(properties.contract(Contract::Settling {
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
