//! How much of a window lies in given frequencies.

use isochrony_dsp::features::{Normalise, Score};
use isochrony_dsp::spectrum::{Detrend, frequencies, frequencies_hz};
use serde_json::Value;

use crate::operator;
use crate::operators::windows::features::numbers;
use crate::operators::windows::kernels::{kernel, taper};
use crate::operators::windows::rowwise::{Row, Rowwise, Windowed};
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType, json,
};

operator! {
    /// A weighted sum of the magnitudes of every window's frequencies, one number each: XStream's detection score.
    ///
    /// Magnitudes are those of `fft`, not scaled; frequencies k times rate / N. The source is DETECTAUDIO in Girod et al.,
    /// XStream (2008), section II.
    pub struct SpectralScore = "spectral_score" (Inputs::Exactly(1)) {
        /// A weight for each frequency, or one for all.
        weights: Value = "numbers" { default: || json!(1.0) },
        /// Two frequencies in Hz: those outside of them count nothing; both are inside. Of complex samples frequencies may be negative.
        band_hz: Value = "numbers" { default: || json!([]) },
        /// What the sum is divided by: nothing, or the sum of all magnitudes ("total").
        normalise: String = "text" { choices: &Normalise::NAMES, default: || json!("none") },
        /// Factors by which the window's samples are multiplied first, periodic.
        taper: String = "text" { default: || json!("boxcar") },
        /// What is taken from the window's samples first: their mean ("constant"), the line that fits them best, or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("none") },
    }
    state {
        rows: Rowwise,
    }
}

impl SpectralScore {
    /// A weight for each frequency.
    fn weights(&self, given: &Windowed) -> Result<Vec<f64>, PlanError> {
        let mut weights = numbers(&self.weights);
        if let [all] = weights[..]
            && !self.weights.is_array()
        {
            weights = vec![all; frequencies(given.width, given.complex)];
        }
        let half = given.rate / 2.0;
        let lowest = if given.complex { -half } else { 0.0 };
        match numbers(&self.band_hz)[..] {
            [] => {}
            [low, high] if lowest <= low && low <= high && high <= half => {
                let hz = frequencies_hz(given.width, given.rate, given.complex);
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
        let given = Windowed::of("spectral_score", &inputs[0])?;
        let factors = taper("spectral_score", &self.taper)?.periodic(given.width);
        let detrend = Detrend::named(&self.detrend).unwrap_or_default();
        let normalise = Normalise::named(&self.normalise).unwrap_or(Normalise::None);
        let (weights, complex) = (self.weights(&given)?, given.complex);
        let kernel = kernel!(
            given,
            "spectral_score",
            |T| Score::<T>::new(&factors, complex, detrend, &weights, normalise),
            |score, window, row| row[0] = score.of(window)
        );
        let unit = match normalise {
            Normalise::None => given.unit().into(),
            Normalise::Total => String::new(),
        };
        let row = Row {
            width: 1,
            complex: false,
            unit,
        };
        self.rows.bind("spectral_score", &given, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}
