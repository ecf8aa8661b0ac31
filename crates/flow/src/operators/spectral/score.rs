//! Share of a window's power at given frequencies.

use isochrony_dsp::features::{Normalise, Score};
use isochrony_dsp::spectrum::{Detrend, frequencies, frequencies_hz};
use serde_json::Value;

use crate::operator;
use crate::operators::windows::features::numbers;
use crate::operators::windows::kernels::{kernel, taper};
use crate::operators::windows::row_processor::{RowProcessor, RowType, WindowInput};
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType, json,
};

operator! {
    /// Computes a weighted sum of the magnitudes of every window's spectrum: one score per window.
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Rows of one number, shape (n, 1): float32 for float32 and complex64, otherwise float64. No edges, no delay.
    ///
    /// # Conventions
    /// Magnitudes are those of `fft`, not scaled. NaN spreads to its window's row. With "total" and weights from 0 to 1
    /// the score is a share; a window of zeros has 0.
    ///
    /// # Errors
    /// Input that is not windows of samples; another number of weights than of frequencies; a band out of range.
    ///
    /// # Source
    /// DETECTAUDIO of L. Girod et al., "XStream: a signal-oriented data stream management system" (2008), section II.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> windows = iso.scan(np.array([2.0, 0.0, -2.0, 0.0, 1.0, 1.0, 1.0, 1.0]), rate=100).rewindow(4)
    /// >>> windows.spectral_score(band_hz=(20, 30), normalise="total").collect()
    /// array([[1.],
    ///        [0.]])
    /// ```
    pub struct SpectralScore = "spectral_score" (Inputs::Exactly(1)) {
        /// Weight of each frequency, at `numpy.fft.rfftfreq(N, 1 / rate)` Hz, or one for all.
        weights: Value = "numbers" { default: || json!(1.0), positional: true },
        /// Lowest and highest frequency that count; negative ones exist for complex samples. Left out: all.
        band_hz: Value = "numbers" { unit: Hertz, default: || json!([]) },
        /// "total" divides by the sum of all magnitudes.
        normalise: String = "text" { choices: &Normalise::NAMES, default: || json!("none") },
        /// Taper by which windows are multiplied, as in `isochrony.taper_factors`, periodic.
        taper: String = "taper" { default: || json!("boxcar") },
        /// What is subtracted from each window: its mean ("constant"), its regression line ("linear"), or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("none") },
    }
    state {
        rows: RowProcessor,
    }
}

impl SpectralScore {
    fn weights(&self, input: &WindowInput) -> Result<Vec<f64>, PlanError> {
        let mut weights = numbers(&self.weights);
        if let [all] = weights[..]
            && !self.weights.is_array()
        {
            weights = vec![all; frequencies(input.width, input.complex)];
        }
        let half = input.rate / 2.0;
        let lowest = if input.complex { -half } else { 0.0 };
        match numbers(&self.band_hz)[..] {
            [] => {}
            [low, high] if lowest <= low && low <= high && high <= half => {
                let hz = frequencies_hz(input.width, input.rate, input.complex);
                for (weight, hz) in weights.iter_mut().zip(hz) {
                    if !(low..=high).contains(&hz) {
                        *weight = 0.0;
                    }
                }
            }
            _ => {
                return Err(PlanError::Parameter {
                    operator: "spectral_score",
                    parameter: "band_hz",
                    got: self.band_hz.to_string(),
                    legal: format!("two frequencies, the lower first, from {lowest} to {half} Hz"),
                });
            }
        }
        Ok(weights)
    }
}

impl Operator for SpectralScore {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = WindowInput::of("spectral_score", &inputs[0])?;
        let factors = taper("spectral_score", &self.taper)?.periodic(input.width);
        let detrend = Detrend::named(&self.detrend).unwrap_or_default();
        let normalise = Normalise::named(&self.normalise).unwrap_or(Normalise::None);
        let (weights, complex) = (self.weights(&input)?, input.complex);
        let kernel = kernel!(
            input,
            "spectral_score",
            |T| Score::<T>::new(&factors, complex, detrend, &weights, normalise),
            |score, window, row| row[0] = score.of(window)
        );
        let unit = match normalise {
            Normalise::None => input.unit().into(),
            Normalise::Total => String::new(),
        };
        let row = RowType {
            width: 1,
            complex: false,
            unit,
        };
        self.rows.bind("spectral_score", &input, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}
