//! Statistics over a sliding window.

use isochrony_dsp::running;

use super::numbers::{NumberInput, NumberProcessor};
use super::stream_processor::ResultProperties;
use crate::operator;
use crate::operators::kernel_error;
use crate::{
    Break, Contract, Inputs, Item, Length, Next, OpError, Operator, OperatorProperties,
    OperatorType, Out, PlanError, Port, PortType, json,
};

operator! {
    /// Computes the mean over a sliding window that ends at each sample.
    ///
    /// # Inputs
    /// Real samples, shape (n,), or windows of one number each.
    ///
    /// # Returns
    /// Means of the same shape, in the same unit, float32 for float32, otherwise float64. Edges: at the start of each
    /// gap-free range the window is shorter. Delay: the window ends at its sample.
    ///
    /// # Conventions
    /// NaN and infinities reach as far as the window and no further; no rounding error of samples that have left it
    /// remains.
    ///
    /// # Errors
    /// A window shorter than half a sample; input that is not real.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([1.0, 3.0, 5.0, 1.0]), rate=100).running_mean(0.02).collect()
    /// array([1., 2., 4., 3.])
    /// ```
    pub struct RunningMean = "running_mean" (Inputs::Exactly(1)) {
        /// Length of the window, to the nearest sample.
        window: Length = "number" { unit: Seconds, above: 0.0, at_most: 1e9 },
    }
    state {
        numbers: NumberProcessor,
    }
}

operator! {
    /// Computes the root mean square over a sliding window that ends at each sample.
    ///
    /// # Inputs
    /// Real samples, shape (n,), or windows of one number each.
    ///
    /// # Returns
    /// Root mean squares of the same shape, in the same unit, float32 for float32, otherwise float64. Edges: at the
    /// start of each gap-free range the window is shorter. Delay: the window ends at its sample.
    ///
    /// # Conventions
    /// NaN and infinities reach as far as the window and no further; no rounding error of samples that have left it
    /// remains.
    ///
    /// # Errors
    /// A window shorter than half a sample; input that is not real.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([3.0, -3.0, 4.0, 4.0]), rate=100).running_rms(0.02).collect().round(2)
    /// array([3.  , 3.  , 3.54, 4.  ])
    /// ```
    pub struct RunningRms = "running_rms" (Inputs::Exactly(1)) {
        /// Length of the window, to the nearest sample.
        window: Length = "number" { unit: Seconds, above: 0.0, at_most: 1e9 },
    }
    state {
        numbers: NumberProcessor,
    }
}

operator! {
    /// Computes a quantile, such as the median, over a sliding window that ends at each sample.
    ///
    /// # Inputs
    /// Real samples, shape (n,), or windows of one number each.
    ///
    /// # Returns
    /// Quantiles of the same shape, in the same unit, float32 for float32, otherwise float64. Edges: at the start of
    /// each gap-free range the window is shorter. Delay: the window ends at its sample.
    ///
    /// # Conventions
    /// Between sorted samples values are interpolated linearly, as in `numpy.quantile`. NaN reaches as far as the
    /// window; infinities are sorted with the rest.
    ///
    /// # Errors
    /// A window shorter than half a sample; input that is not real.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> spiky = iso.scan(np.array([1.0, 2.0, 90.0, 3.0, 2.0]), rate=100)
    /// >>> spiky.running_quantile(0.03, 0.5).collect()
    /// array([1. , 1.5, 2. , 3. , 3. ])
    /// ```
    pub struct RunningQuantile = "running_quantile" (Inputs::Exactly(1)) {
        /// Length of the window, to the nearest sample.
        window: Length = "number" { unit: Seconds, above: 0.0, at_most: 1e9 },
        /// Quantile: 0 is the minimum, 0.5 the median, 1 the maximum.
        q: f64 = "number" { unit: Of("of the samples"), range: (0.0, 1.0) },
        /// "heaps" takes O(log n) steps for windows of any length, "auto" keeps those of up to some hundred samples sorted.
        method: String = "text" { choices: &["auto", "heaps"], default: || json!("auto") },
    }
    state {
        numbers: NumberProcessor,
    }
    alternatives { "heaps": BitIdentical }
}

/// Blocks of sums begin at the start of the contiguous range, so exact bits need all of it.
fn sum_contract(window: usize) -> Contract {
    Contract::Settling {
        before: window as u64 - 1,
        rel_err: 2.0 * window as f64 * f64::EPSILON,
    }
}

fn quantile_contract(window: usize) -> Contract {
    Contract::Overlap {
        before: window as u64 - 1,
        after: 0,
    }
}

fn sum_cost_ns(_: usize) -> f64 {
    2.5
}

fn quantile_cost_ns(window: usize) -> f64 {
    6.0 + (0.06 * window as f64).min(60.0)
}

/// Implements [`Operator`] by a kernel made of the operator and its window in samples.
macro_rules! running_operator {
    ($Operator:ident, $kernel:expr, $contract:expr, $cost_ns:expr) => {
        impl Operator for $Operator {
            fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
                let operator = Self::DECLARATION.name;
                let input = NumberInput::real(operator, &inputs[0])?;
                let window = input.count("window", self.window)?;
                let kernel = $kernel(&*self, window);
                let kernel = kernel.map_err(|error| kernel_error(operator, error))?;
                let results = ResultProperties {
                    unit: input.unit().into(),
                    ..ResultProperties::default()
                };
                let (kernels, bytes) = (input.kernels(&kernel), kernel.bytes());
                let properties = self.numbers.bind(&input, kernels, results, bytes)?;
                Ok(properties
                    .contract($contract(window))
                    .cost_ns($cost_ns(window)))
            }

            fn process(
                &mut self,
                _: Port,
                item: &mut Item,
                out: &mut Out<'_>,
            ) -> Result<Next, OpError> {
                self.numbers.process(item, out)
            }

            fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
                self.numbers.reset();
                Ok(())
            }
        }
    };
}

running_operator!(
    RunningMean,
    |_: &RunningMean, window| running::RunningMean::new(window),
    sum_contract,
    sum_cost_ns
);
running_operator!(
    RunningRms,
    |_: &RunningRms, window| running::RunningRms::new(window),
    sum_contract,
    sum_cost_ns
);
running_operator!(
    RunningQuantile,
    |own: &RunningQuantile, window| {
        let kernel = running::RunningQuantile::new(window, own.q)?;
        Ok(match own.method.as_str() {
            "heaps" => kernel.with_heaps(),
            _ => kernel,
        })
    },
    quantile_contract,
    quantile_cost_ns
);
