//! Statistics of the samples of the last time.

use isochrony_dsp::running;

use super::numbers::{Given, Numbers, refused};
use super::streamed::{Kernels, Results};
use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType,
};

operator! {
    /// Mean of the samples of the last time, for every sample.
    ///
    /// Real samples, or windows of one number each; as many means, in their unit. A window ends at its sample; at the
    /// beginning of a stretch it has the samples that there are. NaN and infinities reach as far as the window. No rounding
    /// errors are left behind by what has left it.
    pub struct RunningMean = "running_mean" (Inputs::Exactly(1)) {
        /// Length of the window, to the nearest sample.
        window: f64 = "number" { unit: "s", range: (0.0, 1e9) },
    }
    state {
        numbers: Numbers,
    }
}

operator! {
    /// Root mean square of the samples of the last time, for every sample.
    ///
    /// Real samples, or windows of one number each; as many values, in their unit. A window ends at its sample; at the
    /// beginning of a stretch it has the samples that there are. NaN and infinities reach as far as the window. No rounding
    /// errors are left behind by what has left it.
    pub struct RunningRms = "running_rms" (Inputs::Exactly(1)) {
        /// Length of the window, to the nearest sample.
        window: f64 = "number" { unit: "s", range: (0.0, 1e9) },
    }
    state {
        numbers: Numbers,
    }
}

operator! {
    /// Quantile of the samples of the last time, for every sample.
    ///
    /// Real samples, or windows of one number each; as many values, in their unit. A window ends at its sample; at the
    /// beginning of a stretch it has the samples that there are. Between two samples in order it is interpolated linearly, as
    /// NumPy's `quantile`. NaN reaches as far as the window; infinities are in order with the rest.
    pub struct RunningQuantile = "running_quantile" (Inputs::Exactly(1)) {
        /// Length of the window, to the nearest sample.
        window: f64 = "number" { unit: "s", range: (0.0, 1e9) },
        /// Which quantile: 0 is the least sample, 0.5 the median, 1 the greatest.
        q: f64 = "number" { unit: "of the samples", range: (0.0, 1.0) },
    }
    state {
        numbers: Numbers,
    }
}

/// Binds a kernel whose results are in the unit of the numbers; it keeps so many bytes.
fn bind(
    numbers: &mut Numbers,
    given: &Given,
    kernels: Kernels,
    bytes: usize,
    contract: Contract,
) -> Result<OperatorProperties, PlanError> {
    let results = Results {
        unit: given.unit().into(),
        ..Results::default()
    };
    Ok(numbers
        .bind(given, kernels, results, bytes)?
        .contract(contract))
}

/// Sums are added in blocks that begin with the stretch, so only all of it gives the same bits.
fn summed(window: usize) -> Contract {
    Contract::Settling {
        before: window as u64 - 1,
        rel_err: 2.0 * window as f64 * f64::EPSILON,
    }
}

impl Operator for RunningMean {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Given::real("running_mean", &inputs[0])?;
        let window = given.count("window", self.window)?;
        let kernel =
            running::RunningMean::new(window).map_err(|error| refused("running_mean", &error))?;
        let (kernels, bytes) = (given.kernels(&kernel), kernel.bytes());
        bind(&mut self.numbers, &given, kernels, bytes, summed(window))
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
        let given = Given::real("running_rms", &inputs[0])?;
        let window = given.count("window", self.window)?;
        let kernel =
            running::RunningRms::new(window).map_err(|error| refused("running_rms", &error))?;
        let (kernels, bytes) = (given.kernels(&kernel), kernel.bytes());
        bind(&mut self.numbers, &given, kernels, bytes, summed(window))
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
        let given = Given::real("running_quantile", &inputs[0])?;
        let window = given.count("window", self.window)?;
        let kernel = running::RunningQuantile::new(window, self.q)
            .map_err(|error| refused("running_quantile", &error))?;
        let contract = Contract::Overlap {
            before: window as u64 - 1,
            after: 0,
        };
        let (kernels, bytes) = (given.kernels(&kernel), kernel.bytes());
        bind(&mut self.numbers, &given, kernels, bytes, contract)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.numbers.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.numbers.reset();
        Ok(())
    }
}
