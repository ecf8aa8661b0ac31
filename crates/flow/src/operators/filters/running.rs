//! Statistics over a sliding window.

use isochrony_dsp::running;

use super::numbers::{NumberInput, NumberProcessor, parameter_error};
use super::stream_processor::{Kernels, ResultProperties};
use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType,
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
        window: f64 = "number" { unit: Seconds, range: (0.0, 1e9) },
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
        window: f64 = "number" { unit: Seconds, range: (0.0, 1e9) },
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
        window: f64 = "number" { unit: Seconds, range: (0.0, 1e9) },
        /// Quantile: 0 is the minimum, 0.5 the median, 1 the maximum.
        q: f64 = "number" { unit: Of("of the samples"), range: (0.0, 1.0) },
    }
    state {
        numbers: NumberProcessor,
    }
}

/// Binds a kernel whose results have the unit of the numbers; `bytes` is what it holds.
fn bind(
    numbers: &mut NumberProcessor,
    input: &NumberInput,
    kernels: Kernels,
    bytes: usize,
    contract: Contract,
) -> Result<OperatorProperties, PlanError> {
    let results = ResultProperties {
        unit: input.unit().into(),
        ..ResultProperties::default()
    };
    Ok(numbers
        .bind(input, kernels, results, bytes)?
        .contract(contract))
}

/// Sums are added in blocks counted from the start of the contiguous range, so exact bits need all of it.
fn sum_contract(window: usize) -> Contract {
    Contract::Settling {
        before: window as u64 - 1,
        rel_err: 2.0 * window as f64 * f64::EPSILON,
    }
}

impl Operator for RunningMean {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = NumberInput::real("running_mean", &inputs[0])?;
        let window = input.count("window", self.window)?;
        let kernel = running::RunningMean::new(window)
            .map_err(|error| parameter_error("running_mean", &error))?;
        let (kernels, bytes) = (input.kernels(&kernel), kernel.bytes());
        bind(
            &mut self.numbers,
            &input,
            kernels,
            bytes,
            sum_contract(window),
        )
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }
}

impl Operator for RunningRms {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = NumberInput::real("running_rms", &inputs[0])?;
        let window = input.count("window", self.window)?;
        let kernel = running::RunningRms::new(window)
            .map_err(|error| parameter_error("running_rms", &error))?;
        let (kernels, bytes) = (input.kernels(&kernel), kernel.bytes());
        bind(
            &mut self.numbers,
            &input,
            kernels,
            bytes,
            sum_contract(window),
        )
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }
}

impl Operator for RunningQuantile {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = NumberInput::real("running_quantile", &inputs[0])?;
        let window = input.count("window", self.window)?;
        let kernel = running::RunningQuantile::new(window, self.q)
            .map_err(|error| parameter_error("running_quantile", &error))?;
        let contract = Contract::Overlap {
            before: window as u64 - 1,
            after: 0,
        };
        let (kernels, bytes) = (input.kernels(&kernel), kernel.bytes());
        bind(&mut self.numbers, &input, kernels, bytes, contract)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }
}
