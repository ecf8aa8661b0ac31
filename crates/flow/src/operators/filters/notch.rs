//! Notch filter.

use isochrony_dsp::filter::notch;

use super::iir::bind;
use super::sample_input::SampleInput;
use super::stream_processor::StreamProcessor;
use crate::operator;
use crate::{
    Break, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, json,
};

operator! {
    /// Removes one frequency, such as mains hum, with a second-order recursive filter.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// Samples with their indices, shape (n,): float32 for float32, complex64 and complex128 by their parts, otherwise
    /// float64. Edges and delay as for `iir`.
    ///
    /// # Conventions
    /// The design is `scipy.signal.iirnotch(hz, q)`: a band of width `hz / q` is attenuated by 3 dB or more; constants
    /// pass unchanged. NaN and infinities make all that follows in their gap-free range NaN.
    ///
    /// # Errors
    /// A frequency outside 0 Hz to half the rate; a band wider than half the rate; input that is not samples.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> hum = np.sin(2 * np.pi * 50 * np.arange(4000) / 1000)
    /// >>> left = iso.scan(hum + 3.0, rate=1000).notch(50, q=10, initial="steady").collect()
    /// >>> bool(abs(left[2000:] - 3.0).max() < 1e-3)
    /// True
    /// ```
    pub struct Notch = "notch" (Inputs::Exactly(1)) {
        /// Frequency to remove, between 0 and half the rate.
        hz: f64 = "number" { unit: Hertz, above: 0.0 },
        /// Quality factor: the frequency divided by the width of the band that is attenuated by 3 dB or more.
        q: f64 = "number" { above: 0.0, default: || json!(30.0), positional: true },
        /// State at the start of each gap-free range, as in `iir`.
        initial: String = "text" { choices: &["zero", "steady"], default: || json!("zero") },
    }
    state {
        filter: StreamProcessor,
    }
}

impl Operator for Notch {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = SampleInput::of("notch", &inputs[0])?;
        let sections = notch("notch", self.hz, self.q, input.rate)?;
        bind(&mut self.filter, "notch", &input, &sections, &self.initial)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.filter.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.filter.reset();
        Ok(())
    }
}
