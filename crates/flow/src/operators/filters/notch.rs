//! One frequency taken out.

use isochrony_dsp::filter::notch;

use super::iir::bind;
use super::sampled::Sampled;
use super::streamed::Streamed;
use crate::operator;
use crate::{
    Break, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, json,
};

operator! {
    /// Takes one frequency out, as mains hum: a recursive filter of the second order.
    ///
    /// Samples in, as many samples out, as with `iir`. What lies within `hz / q` around the frequency is weakened by 3 dB
    /// or more; constants pass as they are.
    pub struct Notch = "notch" (Inputs::Exactly(1)) {
        /// The frequency: between 0 and half the rate.
        hz: f64 = "number" { unit: "Hz" },
        /// How narrow: the frequency over the width that is weakened by 3 dB or more.
        q: f64 = "number" { default: || json!(30.0) },
        /// What lies before a stretch: "zero", or "steady": its first sample, since ever.
        initial: String = "text" { choices: &["zero", "steady"], default: || json!("zero") },
    }
    state {
        filter: Streamed,
    }
}

impl Operator for Notch {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Sampled::of("notch", &inputs[0])?;
        let sections = notch("notch", self.hz, self.q, given.rate)?;
        bind(&mut self.filter, "notch", &given, &sections, &self.initial)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.filter.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.filter.reset();
        Ok(())
    }
}
