//! An extension module that has the whole of Isochrony, and one operator more.
//!
//! With `ISOCHRONY_NATIVE=despike` the package uses this module instead of its own, and `Plan` has a method `despike`.

use isochrony_flow::{
    Break, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties,
    OperatorType, Out, PlanError, Port, PortType, operator,
};
use isochrony_segment::{DType, SigSeg};
use pyo3::prelude::*;

operator! {
    /// Replaces samples that jump by more than a limit by the last one that did not.
    ///
    /// # Inputs
    /// Samples of float32, shape (n,).
    ///
    /// # Returns
    /// Samples of float32, shape (n,). Edges: each gap-free range starts with its first sample. No delay.
    ///
    /// # Errors
    /// The input is not samples of float32.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([1, 1.5, 90, 1.25], "f4"), rate=100).despike(10).collect()
    /// array([1.  , 1.5 , 1.5 , 1.25], dtype=float32)
    /// ```
    pub struct Despike = "despike" (Inputs::Exactly(1)) {
        /// Largest jump from one sample to the next.
        limit: f64 = "number" { unit: Of("of the signal's unit"), range: (0.0, 1e12) },
    }
    state {
        last: Option<f32>,
    }
}

impl Operator for Despike {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        match inputs[0] {
            PortType::Samples {
                dtype: DType::F32, ..
            } => Ok(OperatorProperties::new([inputs[0]]).contract(Contract::Sequential)),
            ref other => Err(PlanError::InputType {
                operator: "despike",
                expected: "float32 samples",
                got: other.to_string(),
                mend: "convert with map(lambda s: s.astype(\"f4\"))",
            }),
        }
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Item::Samples(samples) = item else {
            let (expected, got) = ("samples", item.kind());
            return Err(OpErrorKind::WrongItem { expected, got }.into());
        };
        let mut block = out.alloc(DType::F32, samples.len() as usize)?;
        samples.copy_to(block.samples_mut::<f32>())?;
        for value in block.samples_mut::<f32>() {
            let last = *self.last.get_or_insert(*value);
            if f64::from((*value - last).abs()) > self.limit {
                *value = last;
            }
            self.last = Some(*value);
        }
        let (start, stream) = (samples.start(), samples.stream_id());
        *item = SigSeg::new(out.seal(block), start, DType::F32, stream)?.into();
        Ok(Next::Forward)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.last = None;
        Ok(())
    }
}

/// The module: Isochrony's own as `despike._native`, with the operators of this crate.
#[pymodule]
mod despike {
    use super::{Despike, OperatorType};
    use pyo3::prelude::*;

    #[pymodule_export]
    use isochrony_native::_native;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        isochrony_native::add_operators(&[Despike::DECLARATION]);
        Ok(())
    }
}
