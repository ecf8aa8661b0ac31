//! Spectra of windows.

use isochrony_expr::Expr;
use isochrony_segment::{Calibration, DType, StreamId};
use std::slice::from_ref;

use super::compiled::Compiled;
use super::transform::{Precision, Transform, frequencies, taper};
use super::wrong_input;
use crate::{
    Bound, Frames, Inputs, Item, Next, OpError, OpErrorKind, Operator, Out, PlanError, Port,
    PortType, json, operator,
};

operator! {
    /// The discrete Fourier transform of every window, one row of complex numbers each, not scaled.
    ///
    /// Windows of N real samples give N / 2 + 1 numbers, frequency k times rate / N; complex ones give N, in NumPy's
    /// order. Single precision for float32 and complex64, double for all else. Calibrated counts are values in their unit.
    pub struct Fft = "fft" (Inputs::Exactly(1)) {}
    state {
        rows: Rows,
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
        rows: Rows,
    }
}

/// Windows as values in their unit, their transform, and what is made of it.
#[derive(Default)]
struct Rows {
    values: Compiled,
    transform: Option<Either>,
    /// What squared magnitudes are multiplied by; None: the complex numbers themselves.
    power: Option<f64>,
    /// Numbers of a result, their type and stream.
    width: usize,
    result: Option<(DType, StreamId)>,
}

/// A transform in one of the precisions, and memory for one window of values.
enum Either {
    Single(Transform<f32>, Vec<f32>),
    Double(Transform<f64>, Vec<f64>),
}

/// Windows of samples, as a port gives them: their length, and the rate in Hz.
fn windows(operator: &'static str, port: &PortType) -> Result<(usize, f64), PlanError> {
    match *port {
        PortType::Frames {
            stream,
            window,
            width,
            ..
        } if width as u64 == window => Ok((width, stream.get().rate.to_f64())),
        _ => Err(wrong_input(
            operator,
            "windows of samples",
            port,
            "put rewindow(...) before it",
        )),
    }
}

fn planned<T: Precision>(width: usize, complex: bool, factors: &[f64]) -> (Transform<T>, Vec<T>) {
    let factors = factors.iter().map(|&factor| T::of(factor)).collect();
    if complex {
        (
            Transform::complex(width, factors),
            vec![T::of(0.0); 2 * width],
        )
    } else {
        (Transform::real(width, factors), vec![T::of(0.0); width])
    }
}

impl Rows {
    /// Prepares for the windows of a port. `values` are what of them is transformed, `factors` its taper.
    fn bind(
        &mut self,
        operator: &'static str,
        port: &PortType,
        values: &Expr,
        factors: &[f64],
        unit: String,
    ) -> Result<Bound, PlanError> {
        let given = self
            .values
            .bind(operator, Some(&Expr::input()), from_ref(port))?;
        let dtype = match given.output().dtype {
            own @ (DType::F32 | DType::C64 | DType::C128) => own,
            _ => DType::F64,
        };
        self.values
            .bind(operator, Some(&values.astype(dtype)), from_ref(port))?;
        let complex = matches!(dtype, DType::C64 | DType::C128);
        let single = matches!(dtype, DType::F32 | DType::C64);
        let PortType::Frames {
            stream,
            window,
            hop,
            width,
            ..
        } = *port
        else {
            return Err(wrong_input(
                operator,
                "windows of samples",
                port,
                "put rewindow(...) before it",
            ));
        };
        self.transform = Some(if single {
            let (transform, row) = planned(width, complex, factors);
            Either::Single(transform, row)
        } else {
            let (transform, row) = planned(width, complex, factors);
            Either::Double(transform, row)
        });
        self.width = frequencies(width, complex);
        let dtype = match (self.power.is_some(), single) {
            (true, true) => DType::F32,
            (true, false) => DType::F64,
            (false, true) => DType::C64,
            (false, false) => DType::C128,
        };
        let stream = stream
            .get()
            .clone()
            .with_calibration(Calibration::identity(unit))
            .intern();
        self.result = Some((dtype, stream));
        Ok(Bound::new([PortType::Frames {
            dtype,
            stream,
            window,
            hop,
            width: self.width,
        }])
        .in_step())
    }

    /// Puts what is made of each window's spectrum in the windows' place.
    fn process(&mut self, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Frames(frames), Some((dtype, stream))) = (&*item, self.result) else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            }
            .into());
        };
        let mut block = out.alloc(dtype, self.width * frames.count() as usize)?;
        let done = match &mut self.transform {
            Some(Either::Single(transform, row)) => rows(
                frames,
                &mut self.values,
                transform,
                row,
                self.power,
                block.samples_mut(),
            ),
            Some(Either::Double(transform, row)) => rows(
                frames,
                &mut self.values,
                transform,
                row,
                self.power,
                block.samples_mut(),
            ),
            None => Ok(()),
        };
        let buffer = out.seal(block);
        done?;
        if let Some(rows) = frames.with_rows(buffer, dtype, self.width, stream) {
            *item = rows.into();
        }
        Ok(Next::Tail)
    }
}

/// Transforms every window. `row` holds the values of one, `results` gets a row for each; complex numbers are pairs.
fn rows<T: Precision>(
    frames: &Frames,
    values: &mut Compiled,
    transform: &mut Transform<T>,
    row: &mut [T],
    power: Option<f64>,
    results: &mut [T],
) -> Result<(), OpError> {
    let each = results.len() / frames.count().max(1) as usize;
    for (k, result) in (0..).zip(results.chunks_exact_mut(each.max(1))) {
        let Some(window) = frames.sub(k..k + 1) else {
            break;
        };
        if window.width() != transform.width() {
            return Err(OpErrorKind::WrongItem {
                expected: "windows of equal length (rewindow with tail=\"drop\")",
                got: "a short last window",
            }
            .into());
        }
        values.run(&window, bytemuck::cast_slice_mut(row))?;
        transform.row(row);
        let spectrum = transform.spectrum();
        match power {
            Some(scale) => {
                for (at, (power, value)) in result.iter_mut().zip(spectrum).enumerate() {
                    *power = value.norm_sqr() * T::of(scale * transform.sides(at));
                }
            }
            None => {
                for (pair, value) in result.chunks_exact_mut(2).zip(spectrum) {
                    (pair[0], pair[1]) = (value.re, value.im);
                }
            }
        }
    }
    Ok(())
}

impl Operator for Fft {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        let port = &inputs[0];
        windows("fft", port)?;
        let unit = port.stream().map_or("", |stream| stream.calibration.unit());
        self.rows
            .bind("fft", port, &Expr::input(), &[], unit.into())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Power {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        let port = &inputs[0];
        let (width, rate) = windows("power", port)?;
        // The declaration allows no other name.
        let factors = taper(&self.taper, width).unwrap_or_default();
        let density = self.scaling == "density";
        self.rows.power = Some(if density {
            1.0 / (rate * factors.iter().map(|factor| factor * factor).sum::<f64>())
        } else {
            factors.iter().sum::<f64>().powi(-2)
        });
        let unit = port.stream().map_or("", |stream| stream.calibration.unit());
        let squared = if unit.chars().all(char::is_alphabetic) {
            format!("{unit}^2")
        } else {
            format!("({unit})^2")
        };
        let unit = match (unit.is_empty(), density) {
            (true, _) => String::new(),
            (false, true) => format!("{squared}/Hz"),
            (false, false) => squared,
        };
        let s = Expr::input();
        let values = if self.detrend == "constant" {
            &s - &s.mean()
        } else {
            s
        };
        self.rows.bind("power", port, &values, &factors, unit)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}
