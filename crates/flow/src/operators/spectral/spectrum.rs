//! Spectra of windows.

use isochrony_dsp::DspError;
use isochrony_dsp::spectrum::{Detrend, Forward, Power as PowerRows, Scaling, frequencies};

use crate::operator;
use crate::operators::windows::kernels::{kernel, taper};
use crate::operators::windows::rowwise::{Row, Rowwise, Windowed};
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType,
    RowAxis, json,
};

operator! {
    /// The discrete Fourier transform of every window, one row of complex numbers each.
    ///
    /// Windows of N real samples give N / 2 + 1 numbers, frequency k times rate / N; complex ones give N, in NumPy's
    /// order. Single precision for float32 and complex64, double for all else. Calibrated counts are values in their unit.
    pub struct Fft = "fft" (Inputs::Exactly(1)) {
        /// Factors by which the window's samples are multiplied first, periodic.
        taper: String = "text" { default: || json!("boxcar") },
        /// What the numbers mean: sums ("none"); amplitudes, where a sine of amplitude A has A/2 ("spectrum"); or roots of densities, whose
        /// squared magnitudes are power a hertz, two-sided ("psd").
        scaling: String = "text" { choices: &["none", "spectrum", "psd"], default: || json!("none") },
        /// What is taken from the window's samples first: their mean ("constant"), the line that fits them best, or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("none") },
    }
    state {
        rows: Rowwise,
    }
}

operator! {
    /// The power spectrum of every window (a periodogram), one row of real numbers each.
    ///
    /// Windows of N real samples give N / 2 + 1 values, one-sided: frequency k times rate / N; complex ones give N,
    /// two-sided, in NumPy's order. A density has the unit squared per hertz, and its sum times rate / N is the mean square of the
    /// tapered window; a spectrum has the unit squared, and a sine of amplitude A peaks at A²/2.
    pub struct Power = "power" (Inputs::Exactly(1)) {
        /// Factors by which the window's samples are multiplied first, periodic.
        taper: String = "text" { default: || json!("hann") },
        /// What the values mean.
        scaling: String = "text" { choices: &Scaling::NAMES, default: || json!("density") },
        /// What is taken from the window's samples first: their mean ("constant"), the line that fits them best, or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("constant") },
    }
    state {
        rows: Rowwise,
    }
}

/// What a window's numbers are multiplied by, and their unit.
fn amplitude(scaling: &str, factors: &[f64], given: &Windowed) -> (f64, String) {
    let unit = given.unit();
    match scaling {
        "spectrum" => (1.0 / factors.iter().sum::<f64>(), unit.into()),
        "psd" => {
            let per_root = if unit.is_empty() {
                String::new()
            } else {
                format!("{unit}/Hz^0.5")
            };
            (
                Scaling::Density.factor(factors, given.rate).sqrt(),
                per_root,
            )
        }
        _ => (1.0, unit.into()),
    }
}

impl Operator for Fft {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Windowed::of("fft", &inputs[0])?;
        let factors = taper("fft", &self.taper)?.periodic(given.width);
        let detrend = Detrend::named(&self.detrend).unwrap_or_default();
        let (scale, unit) = amplitude(&self.scaling, &factors, &given);
        let (width, complex) = (given.width, given.complex);
        let kernel = kernel!(
            given,
            "fft",
            |T| Ok::<_, DspError>(Forward::<T>::new(width, complex, &factors, detrend)),
            |transform, window, row| {
                transform.transform(window, bytemuck::cast_slice_mut(row));
                if scale != 1.0 {
                    row.iter_mut().for_each(|number| *number *= scale as T);
                }
            }
        );
        let row = Row {
            width: frequencies(width, complex),
            complex: true,
            unit,
        };
        let bound = self.rows.bind("fft", &given, None, kernel, row)?;
        Ok(bound.row_axis(RowAxis::Frequencies {
            nfft: width,
            complex,
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Power {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Windowed::of("power", &inputs[0])?;
        let factors = taper("power", &self.taper)?.periodic(given.width);
        // The declaration allows no other names.
        let scaling = Scaling::named(&self.scaling).unwrap_or(Scaling::Density);
        let detrend = Detrend::named(&self.detrend).unwrap_or(Detrend::Constant);
        let (complex, rate) = (given.complex, given.rate);
        let kernel = kernel!(
            given,
            "power",
            |T| Ok::<_, DspError>(PowerRows::<T>::new(
                &factors, complex, detrend, scaling, rate
            )),
            |power, window, row| power.row(window, row)
        );
        let row = Row {
            width: frequencies(given.width, complex),
            complex: false,
            unit: squared(given.unit(), scaling == Scaling::Density),
        };
        let bound = self.rows.bind("power", &given, None, kernel, row)?;
        Ok(bound.row_axis(RowAxis::Frequencies {
            nfft: given.width,
            complex,
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

/// The unit of squared values, per hertz or not; empty where theirs is unknown.
pub(crate) fn squared(unit: &str, density: bool) -> String {
    let squared = if unit.chars().all(char::is_alphabetic) {
        format!("{unit}^2")
    } else {
        format!("({unit})^2")
    };
    match (unit.is_empty(), density) {
        (true, _) => String::new(),
        (false, true) => format!("{squared}/Hz"),
        (false, false) => squared,
    }
}
