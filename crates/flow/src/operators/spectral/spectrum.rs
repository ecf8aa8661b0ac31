//! Fourier spectra of windows.

use isochrony_dsp::DspError;
use isochrony_dsp::spectrum::{Detrend, Forward, Power as PowerRows, Scaling, frequencies};

use crate::operator;
use crate::operators::windows::kernels::{kernel, taper};
use crate::operators::windows::row_processor::{RowProcessor, RowType, WindowInput};
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType,
    RowAxis, json,
};

operator! {
    /// Computes the discrete Fourier transform of every window.
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Rows of complex numbers: shape (n, N // 2 + 1) for real samples, at `numpy.fft.rfftfreq(N, 1 / rate)` Hz, shape
    /// (n, N) in NumPy's order for complex ones; `Plan.frequencies` has the frequencies. complex64 for float32 and
    /// complex64, otherwise complex128. No edges, no delay.
    ///
    /// # Conventions
    /// As `numpy.fft.rfft` and `fft`. Calibrated counts are values in their unit. NaN spreads to its window's row. The
    /// window is detrended first, then tapered.
    ///
    /// # Errors
    /// Input that is not windows of samples; a taper's parameter out of range.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([1.0, 0.0, -1.0, 0.0]), rate=100).rewindow(4).fft().collect().real
    /// array([[0., 2., 0.]])
    /// ```
    pub struct Fft = "fft" (Inputs::Exactly(1)) {
        /// Taper by which windows are multiplied, as in `isochrony.taper_factors`, periodic.
        taper: String = "taper" { default: || json!("boxcar") },
        /// "none"; "spectrum", in which a sine of amplitude A has A/2; "psd", whose squared magnitudes are power per
        /// Hz, two-sided (both as `scipy.signal.stft`).
        scaling: String = "text" { choices: &["none", "spectrum", "psd"], default: || json!("none") },
        /// What is subtracted from each window: its mean ("constant"), its regression line ("linear"), or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("none") },
    }
    state {
        rows: RowProcessor,
    }
}

operator! {
    /// Computes the power spectrum of every window (periodogram).
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Rows of real numbers: shape (n, N // 2 + 1), one-sided, for real samples, shape (n, N), two-sided in NumPy's
    /// order, for complex ones; `Plan.frequencies` has the frequencies. float32 for float32 and complex64, otherwise
    /// float64. No edges, no delay.
    ///
    /// # Conventions
    /// As `scipy.signal.periodogram`. The sum of a density times rate / N is sum((x w)²) / sum(w²) for a detrended window
    /// x and a taper w: the mean square of x, weighted by w². NaN spreads to its window's row.
    ///
    /// # Errors
    /// Input that is not windows of samples; a taper's parameter out of range.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> sine = 2 * np.sin(2 * np.pi * 25 * np.arange(8) / 100)
    /// >>> iso.scan(sine, rate=100).rewindow(8).power(taper="boxcar", scaling="spectrum").collect().round(6)
    /// array([[0., 0., 2., 0., 0.]])
    /// ```
    pub struct Power = "power" (Inputs::Exactly(1)) {
        /// Taper by which windows are multiplied, as in `isochrony.taper_factors`, periodic.
        taper: String = "taper" { default: || json!("hann") },
        /// "density", in the unit squared per Hz; "spectrum", in the unit squared, in which a sine of amplitude A peaks
        /// at A²/2.
        scaling: String = "text" { choices: &Scaling::NAMES, default: || json!("density") },
        /// What is subtracted from each window: its mean ("constant"), its regression line ("linear"), or nothing.
        detrend: String = "text" { choices: &Detrend::NAMES, default: || json!("constant") },
    }
    state {
        rows: RowProcessor,
    }
}

fn amplitude(scaling: &str, factors: &[f64], input: &WindowInput) -> (f64, String) {
    let unit = input.unit();
    match scaling {
        "spectrum" => (1.0 / factors.iter().sum::<f64>(), unit.into()),
        "psd" => {
            let per_root = if unit.is_empty() {
                String::new()
            } else {
                format!("{unit}/Hz^0.5")
            };
            (
                Scaling::Density.factor(factors, input.rate).sqrt(),
                per_root,
            )
        }
        _ => (1.0, unit.into()),
    }
}

impl Operator for Fft {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = WindowInput::of("fft", &inputs[0])?;
        let factors = taper("fft", &self.taper)?.periodic(input.width);
        let detrend = Detrend::named(&self.detrend).unwrap_or_default();
        let (scale, unit) = amplitude(&self.scaling, &factors, &input);
        let (width, complex) = (input.width, input.complex);
        let kernel = kernel!(
            input,
            "fft",
            |T| Ok::<_, DspError>(Forward::<T>::new(width, complex, &factors, detrend)),
            |transform, window, row| {
                transform.transform(window, bytemuck::cast_slice_mut(row));
                if scale != 1.0 {
                    row.iter_mut().for_each(|number| *number *= scale as T);
                }
            }
        );
        let row = RowType {
            width: frequencies(width, complex),
            complex: true,
            unit,
        };
        let properties = self.rows.bind("fft", &input, None, kernel, row)?;
        Ok(properties.row_axis(RowAxis::Frequencies {
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
        let input = WindowInput::of("power", &inputs[0])?;
        let factors = taper("power", &self.taper)?.periodic(input.width);
        // The declaration allows no other names.
        let scaling = Scaling::named(&self.scaling).unwrap_or(Scaling::Density);
        let detrend = Detrend::named(&self.detrend).unwrap_or(Detrend::Constant);
        let (complex, rate) = (input.complex, input.rate);
        let kernel = kernel!(
            input,
            "power",
            |T| Ok::<_, DspError>(PowerRows::<T>::new(
                &factors, complex, detrend, scaling, rate
            )),
            |power, window, row| power.row(window, row)
        );
        let row = RowType {
            width: frequencies(input.width, complex),
            complex: false,
            unit: squared(input.unit(), scaling == Scaling::Density),
        };
        let properties = self.rows.bind("power", &input, None, kernel, row)?;
        Ok(properties.row_axis(RowAxis::Frequencies {
            nfft: input.width,
            complex,
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

/// Unit of squared values, per hertz if `density`; empty if unknown.
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
