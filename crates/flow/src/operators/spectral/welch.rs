//! Averaged power spectra.

use isochrony_dsp::spectrum::{Average, Detrend, Scaling, Welch as WelchRows, frequencies};

use super::spectrum::squared;
use crate::operator;
use crate::operators::windows::kernels::{kernel, taper};
use crate::operators::windows::row_processor::{RowProcessor, RowType, WindowInput};
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType,
    RowAxis, json,
};

operator! {
    /// Computes the power spectrum of every window, averaged over overlapping parts of it (Welch's method).
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Rows of real numbers: shape (n, nfft // 2 + 1) for real samples, shape (n, nfft) for complex ones;
    /// `Plan.frequencies` has the frequencies. float32 for float32 and complex64, otherwise float64. No edges; samples
    /// after the last whole part are not used. No delay.
    ///
    /// # Conventions
    /// As `scipy.signal.welch`; values are those of `power`.
    ///
    /// # Errors
    /// Input that is not windows of samples; `nfft` above the window's length; a taper's parameter out of range.
    ///
    /// # Source
    /// P. D. Welch, "The use of fast Fourier transform for the estimation of power spectra" (1967).
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> noise = np.random.default_rng(1).standard_normal(100_000)
    /// >>> density = iso.scan(noise, rate=100).rewindow(100_000).welch(256).collect()
    /// >>> (density[0, 1:-1].mean() * 50).round(1)  # white noise of unit variance, up to 50 Hz
    /// np.float64(1.0)
    /// ```
    pub struct Welch = "welch" (Inputs::Exactly(1)) {
        /// Samples of a part, up to the window's.
        nfft: u64 = "integer" { unit: Samples, range: (1.0, 1099511627776.0) },
        /// Samples from the start of one part to the next. Left out: half a part, rounded up.
        hop: Option<u64> = "integer" { unit: Samples, range: (1.0, 1099511627776.0), default: || json!(null), positional: true },
        /// Taper by which parts are multiplied, as in `isochrony.taper_factors`, periodic.
        taper: String = "taper" { default: || json!("hann") },
        /// "density", in the unit squared per Hz; "spectrum", in the unit squared, in which a sine of amplitude A peaks
        /// at A²/2.
        scaling: String = "text" { choices: &Scaling::NAMES, default: || json!("density") },
        /// What is subtracted from each part: its mean ("constant"), its regression line ("linear"), or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("constant") },
        /// "mean", or "median" divided by its bias for noise, which ignores a short disturbance.
        average: String = "text" { choices: &Average::NAMES, default: || json!("mean") },
    }
    state {
        rows: RowProcessor,
    }
}

impl Operator for Welch {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = WindowInput::of("welch", &inputs[0])?;
        let taper = taper("welch", &self.taper)?;
        // A huge `nfft` must not allocate a taper before its refusal.
        let nfft = self.nfft.min(input.width as u64 + 1) as usize;
        let hop = match self.hop {
            Some(hop) => usize::try_from(hop).unwrap_or(usize::MAX),
            None => nfft - nfft / 2,
        };
        let factors = taper.periodic(nfft);
        let scaling = Scaling::named(&self.scaling).unwrap_or(Scaling::Density);
        let detrend = Detrend::named(&self.detrend).unwrap_or(Detrend::Constant);
        let average = Average::named(&self.average).unwrap_or(Average::Mean);
        let (width, complex, rate) = (input.width, input.complex, input.rate);
        if self.nfft > width as u64 {
            return Err(PlanError::Parameter {
                operator: "welch",
                parameter: "nfft",
                got: self.nfft.to_string(),
                legal: format!("samples from 1 to the window's {width}"),
            });
        }
        let kernel = kernel!(
            input,
            "welch",
            |T| WelchRows::<T>::new(
                width, complex, &factors, hop, detrend, scaling, average, rate
            ),
            |welch, window, row| welch.row(window, row)
        );
        let row = RowType {
            width: frequencies(nfft, complex),
            complex: false,
            unit: squared(input.unit(), scaling == Scaling::Density),
        };
        let properties = self.rows.bind("welch", &input, None, kernel, row)?;
        Ok(properties.row_axis(RowAxis::Frequencies { nfft, complex }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}
