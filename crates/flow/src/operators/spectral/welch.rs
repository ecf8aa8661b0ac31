//! Averaged power spectra.

use isochrony_dsp::spectrum::{Average, Detrend, Scaling, Welch as WelchRows, frequencies};

use super::spectrum::squared;
use crate::operator;
use crate::operators::windows::kernels::{kernel, taper};
use crate::operators::windows::rowwise::{Row, Rowwise, Windowed};
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType,
    RowAxis, json,
};

operator! {
    /// The power spectrum of every window, averaged over parts of it (Welch's method), one row of real numbers each.
    ///
    /// Parts are `nfft` samples long, one every `hop`, the first at the window's beginning; what no whole part has is left
    /// out. Values and frequencies are those of `power` of windows of `nfft` samples.
    pub struct Welch = "welch" (Inputs::Exactly(1)) {
        /// Samples of a part.
        nfft: u64 = "integer" { unit: "samples", range: (1.0, 1099511627776.0) },
        /// Samples from the start of one part to the next; half a part (rounded up), if not given.
        hop: Option<u64> = "integer" { unit: "samples", range: (1.0, 1099511627776.0), default: || json!(null) },
        /// Factors by which a part's samples are multiplied first, periodic.
        taper: String = "text" { default: || json!("hann") },
        /// What the values mean.
        scaling: String = "text" { choices: &Scaling::NAMES, default: || json!("density") },
        /// What is taken from a part's samples first: their mean ("constant"), the line that fits them best, or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("constant") },
        /// How the parts' spectra become one: their mean, or their median over its bias for noise.
        average: String = "text" { choices: &Average::NAMES, default: || json!("mean") },
    }
    state {
        rows: Rowwise,
    }
}

impl Operator for Welch {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Windowed::of("welch", &inputs[0])?;
        let taper = taper("welch", &self.taper)?;
        // Longer ones are refused below, before there are factors for them.
        let nfft = self.nfft.min(given.width as u64 + 1) as usize;
        let hop = match self.hop {
            Some(hop) => usize::try_from(hop).unwrap_or(usize::MAX),
            None => nfft - nfft / 2,
        };
        let factors = taper.periodic(nfft);
        let scaling = Scaling::named(&self.scaling).unwrap_or(Scaling::Density);
        let detrend = Detrend::named(&self.detrend).unwrap_or(Detrend::Constant);
        let average = Average::named(&self.average).unwrap_or(Average::Mean);
        let (width, complex, rate) = (given.width, given.complex, given.rate);
        if self.nfft > width as u64 {
            return Err(PlanError::Parameter {
                operator: "welch",
                parameter: "nfft",
                got: self.nfft.to_string(),
                legal: format!("samples from 1 to the window's {width}"),
            });
        }
        let kernel = kernel!(
            given,
            "welch",
            |T| WelchRows::<T>::new(
                width, complex, &factors, hop, detrend, scaling, average, rate
            ),
            |welch, window, row| welch.row(window, row)
        );
        let row = Row {
            width: frequencies(nfft, complex),
            complex: false,
            unit: squared(given.unit(), scaling == Scaling::Density),
        };
        let bound = self.rows.bind("welch", &given, None, kernel, row)?;
        Ok(bound.row_axis(RowAxis::Frequencies { nfft, complex }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}
