//! Spectra of windows.

use isochrony_dsp::Windows;
use isochrony_dsp::spectrum::{Precision, Transform, frequencies};
use isochrony_dsp::window::taper;
use isochrony_expr::Expr;

use super::rowwise::{Kernel, Row, RowKernel, Rowwise, Windowed};
use crate::{
    Bound, Inputs, Item, Next, OpError, Operator, Out, PlanError, Port, PortType, json, operator,
};

operator! {
    /// The discrete Fourier transform of every window, one row of complex numbers each, not scaled.
    ///
    /// Windows of N real samples give N / 2 + 1 numbers, frequency k times rate / N; complex ones give N, in NumPy's
    /// order. Single precision for float32 and complex64, double for all else. Calibrated counts are values in their unit.
    pub struct Fft = "fft" (Inputs::Exactly(1)) {}
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
        /// Factors by which the window's samples are multiplied first.
        taper: String = "text" { choices: &["hann", "hamming", "blackman", "boxcar"], default: || json!("hann") },
        /// What the values mean.
        scaling: String = "text" { choices: &["density", "spectrum"], default: || json!("density") },
        /// What is taken from the window's samples first: their mean ("constant"), or nothing.
        detrend: String = "text" { choices: &["constant", "none"], default: || json!("constant") },
    }
    state {
        rows: Rowwise,
    }
}

/// The transform of windows, and what is made of it.
struct Spectrum<T: Precision> {
    transform: Transform<T>,
    /// What squared magnitudes are multiplied by; None: the complex numbers themselves.
    power: Option<f64>,
}

impl<T: Precision> Spectrum<T> {
    fn new(given: &Windowed, factors: &[f64], power: Option<f64>) -> Self {
        let factors = factors.iter().map(|&factor| T::of(factor)).collect();
        let transform = if given.complex {
            Transform::complex(given.width, factors)
        } else {
            Transform::real(given.width, factors)
        };
        Self { transform, power }
    }
}

impl<T: Precision> RowKernel<T> for Spectrum<T> {
    fn rows(&mut self, windows: Windows<'_, T>, results: &mut [T]) {
        let each = results.len() / windows.count().max(1);
        for (window, result) in windows.iter().zip(results.chunks_exact_mut(each.max(1))) {
            self.transform.row(window);
            let spectrum = self.transform.spectrum();
            match self.power {
                Some(scale) => {
                    for (at, (power, value)) in result.iter_mut().zip(spectrum).enumerate() {
                        *power = value.norm_sqr() * T::of(scale * self.transform.sides(at));
                    }
                }
                None => {
                    for (pair, value) in result.chunks_exact_mut(2).zip(spectrum) {
                        (pair[0], pair[1]) = (value.re, value.im);
                    }
                }
            }
        }
    }
}

/// The kernel for given windows.
fn kernel(given: &Windowed, factors: &[f64], power: Option<f64>) -> Kernel {
    given.kernel(
        || Spectrum::new(given, factors, power),
        || Spectrum::new(given, factors, power),
    )
}

impl Operator for Fft {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        let given = Windowed::of("fft", &inputs[0])?;
        let row = Row {
            width: frequencies(given.width, given.complex),
            complex: true,
            unit: given.unit().into(),
        };
        let kernel = kernel(&given, &[], None);
        self.rows.bind("fft", &given, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Power {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        let given = Windowed::of("power", &inputs[0])?;
        // The declaration allows no other name.
        let factors = taper(&self.taper, given.width).unwrap_or_default();
        let density = self.scaling == "density";
        let scale = if density {
            1.0 / (given.rate * factors.iter().map(|factor| factor * factor).sum::<f64>())
        } else {
            factors.iter().sum::<f64>().powi(-2)
        };
        let row = Row {
            width: frequencies(given.width, given.complex),
            complex: false,
            unit: squared(given.unit(), density),
        };
        let s = Expr::input();
        let centred = (self.detrend == "constant").then(|| &s - &s.mean());
        let kernel = kernel(&given, &factors, Some(scale));
        self.rows
            .bind("power", &given, centred.as_ref(), kernel, row)
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
