//! Operator `on`: executes the operators before it on a host of a cluster.

use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, RowAxis,
};

operator! {
    /// Executes all operators before it on a worker of a Dask cluster, such as one beside the sensor, so that results are
    /// sent instead of samples. A feed made with `listen(..., bind=False)` is opened there.
    ///
    /// It needs a run with `on=`, which names the cluster. Results are the same to the bit as without it. While the
    /// connection is lost, the host keeps up to 64 MiB of results, or a quarter of `memory=` if that is less; after that a
    /// stored signal waits, and samples of a feed are lost, which are a gap. A host that is lost and comes back under its
    /// name continues with a new run of the feed; if it does not come back within a minute, the run ends with an error.
    /// See ``docs/cluster.md``.
    ///
    /// # Inputs
    /// Samples, windows, ranges or rows.
    ///
    /// # Returns
    /// The input, unchanged. No edges, no delay.
    ///
    /// # Errors
    /// Another `on` before it; a feed that two of them read; a run without `on=`.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> plan = iso.scan(np.arange(3), rate=100).rewindow(2).on("buoy").filter(lambda s: s.max() > 1)
    /// >>> print(str(plan).partition("rewindow")[2])
    /// (window=2) -> on(host="buoy") -> filter(predicate=s.max() > 1)
    /// ```
    pub struct On = "on" (Inputs::Exactly(1)) {
        /// Name of the worker (``dask worker --name``), or its address.
        host: String = "text" {},
    }
    state {}
}

impl Operator for On {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        if let [port @ PortType::Count] = inputs {
            return Err(wrong_input(
                "on",
                "samples, windows, rows or ranges",
                port,
                "count() gives its number at the end of the plan: put on(...) before count()",
            ));
        }
        Ok(OperatorProperties::new(inputs.iter().copied())
            .contract(Contract::Sequential)
            .row_axis(RowAxis::FromInput)
            .cost_ns(0.0)
            .on_host(&self.host))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}
