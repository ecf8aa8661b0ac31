//! Operators from windows to windows.

use bytemuck::cast_slice;
use isochrony_dsp::DspError;
use isochrony_dsp::spectrum::{Detrend as Trend, Inverse, Shaper};
use isochrony_segment::{Calibration, DType, StreamId};

use super::kernels::{kernel, taper};
use super::row_processor::{RowProcessor, RowType, WindowInput, dtype_of};
use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, Workspace, json,
};

operator! {
    /// Multiplies the samples of every window by a taper.
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Windows of the same shape: float32 and complex64 stay, otherwise float64 or complex128. No edges, no delay.
    ///
    /// # Conventions
    /// Factors are those of `isochrony.taper_factors`. Calibrated counts are values in their unit.
    ///
    /// # Errors
    /// Input that is not windows of samples; the taper's parameter out of range.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.ones(4), rate=100).rewindow(4).taper("hann").collect()
    /// array([[0. , 0.5, 1. , 0.5]])
    /// ```
    pub struct Taper = "taper" (Inputs::Exactly(1)) {
        /// Name of the taper, or its name and its parameter.
        taper: String = "taper" { default: || json!("hann"), positional: true },
        /// Whether both ends are alike; otherwise the window is its period, as spectra need it.
        symmetric: bool = "bool" { default: || json!(false) },
    }
    state {
        rows: RowProcessor,
    }
}

operator! {
    /// Subtracts from every window its mean or its regression line.
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Windows of the same shape: float32 and complex64 stay, otherwise float64 or complex128. No edges, no delay.
    ///
    /// # Conventions
    /// As `scipy.signal.detrend`. Calibrated counts are values in their unit. NaN spreads to its window.
    ///
    /// # Errors
    /// Input that is not windows of samples.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([1.0, 3.0, 2.0, 4.0]), rate=100).rewindow(4).detrend("linear").collect().round(6)
    /// array([[-0.3,  0.9, -0.9,  0.3]])
    /// ```
    pub struct Detrend = "detrend" (Inputs::Exactly(1)) {
        /// The mean ("constant") or the regression line ("linear").
        kind: String = "text" { choices: &["constant", "linear"], default: || json!("constant"), positional: true },
    }
    state {
        rows: RowProcessor,
    }
}

operator! {
    /// Transforms every row of `fft` back into its window.
    ///
    /// # Inputs
    /// Rows of complex numbers: N // 2 + 1 for windows of N real samples, N for complex ones.
    ///
    /// # Returns
    /// Rows of N samples, shape (n, N): float32 for complex64 and float64 for complex128 if the windows were real,
    /// otherwise complex. No edges, no delay.
    ///
    /// # Conventions
    /// As `numpy.fft.irfft` and `ifft`, divided by N. Imaginary parts of the first number and, for even N, of the last
    /// are ignored, because real windows have none.
    ///
    /// # Errors
    /// Rows of another length, or that are not complex.
    pub struct Ifft = "ifft" (Inputs::Exactly(1)) {
        /// Rows of windows of one or two samples, whose length does not tell, are those of complex samples.
        complex: bool = "bool" { default: || json!(false) },
    }
    state {
        inverse: Option<InverseTransform>,
    }
}

/// In either precision, with its output type.
enum InverseTransform {
    Single(Inverse<f32>, (DType, StreamId)),
    Double(Inverse<f64>, (DType, StreamId)),
}

/// Bytes of tables per sample.
const INVERSE_BYTES: u64 = 48;

fn bind_shaper(
    rows: &mut RowProcessor,
    operator: &'static str,
    port: &PortType,
    detrend: Trend,
    factors: impl FnOnce(usize) -> Vec<f64>,
) -> Result<OperatorProperties, PlanError> {
    let input = WindowInput::of(operator, port)?;
    let factors = factors(input.width);
    let complex = input.complex;
    let kernel = kernel!(
        input,
        "taper",
        |T| Ok::<_, DspError>(Shaper::<T>::new(&factors, complex, detrend)),
        |shaper, window, row| shaper.row(window, row)
    );
    let row = RowType {
        width: input.width,
        complex,
        unit: input.unit().into(),
    };
    rows.bind(operator, &input, None, kernel, row)
}

impl Operator for Taper {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let (taper, symmetric) = (taper("taper", &self.taper)?, self.symmetric);
        bind_shaper(&mut self.rows, "taper", &inputs[0], Trend::None, |width| {
            if symmetric {
                taper.symmetric(width)
            } else {
                taper.periodic(width)
            }
        })
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Detrend {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let detrend = Trend::named(&self.kind).unwrap_or(Trend::Constant);
        let ones = |width| vec![1.0; width];
        bind_shaper(&mut self.rows, "detrend", &inputs[0], detrend, ones)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Ifft {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let parameter_error = || {
            let mend = "put fft() before it, and keep its rows' length and dtype";
            wrong_input(
                "ifft",
                "complex rows of N or N / 2 + 1 numbers",
                &inputs[0],
                mend,
            )
        };
        let PortType::Frames {
            dtype,
            stream,
            window,
            hop,
            width,
        } = inputs[0]
        else {
            return Err(parameter_error());
        };
        // Real and complex spectra of one or two samples have equal lengths.
        let complex = width as u64 == window && (window > 2 || self.complex);
        let real = width as u64 == window / 2 + 1 && !complex;
        if !dtype.is_complex() || !(real || complex) {
            return Err(parameter_error());
        }
        let single = dtype == DType::C64;
        let dtype = dtype_of(single, !real);
        let values = Calibration::identity(stream.get().calibration.unit());
        let stream = stream.get().clone().with_calibration(values).intern();
        let workspace = Workspace::check("ifft", "window", window, INVERSE_BYTES)?;
        let samples = window as usize;
        self.inverse = Some(if single {
            InverseTransform::Single(Inverse::new(samples, !real), (dtype, stream))
        } else {
            InverseTransform::Double(Inverse::new(samples, !real), (dtype, stream))
        });
        Ok(OperatorProperties::new([PortType::Frames {
            dtype,
            stream,
            window,
            hop,
            width: samples,
        }])
        .workspace(workspace)
        .in_step())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Frames(frames), Some(transform)) = (&*item, &mut self.inverse) else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            }
            .into());
        };
        let (InverseTransform::Single(_, (dtype, stream))
        | InverseTransform::Double(_, (dtype, stream))) = *transform;
        let samples = frames.window() as usize;
        let mut block = out.alloc(dtype, samples * frames.count() as usize)?;
        let rows = frames.buffer().bytes();
        match transform {
            InverseTransform::Single(inverse, _) => {
                let windows = bytemuck::cast_slice_mut(block.bytes_mut());
                invert(inverse, cast_slice(rows), windows, frames);
            }
            InverseTransform::Double(inverse, _) => {
                let windows = bytemuck::cast_slice_mut(block.bytes_mut());
                invert(inverse, cast_slice(rows), windows, frames);
            }
        }
        let buffer = out.seal(block);
        if let Some(windows) = frames.with_rows(buffer, dtype, samples, stream) {
            *item = windows.into();
        }
        Ok(Next::Forward)
    }
}

/// Gives each row's window; complex numbers are pairs.
fn invert<T: isochrony_dsp::spectrum::Precision>(
    inverse: &mut Inverse<T>,
    rows: &[T],
    windows: &mut [T],
    frames: &crate::Frames,
) {
    let each = windows.len() / frames.count().max(1) as usize;
    let (width, stride) = (2 * frames.width(), 2 * frames.stride());
    for (k, window) in windows.chunks_exact_mut(each.max(1)).enumerate() {
        let spectrum: &mut [T] = bytemuck::cast_slice_mut(inverse.spectrum());
        spectrum.copy_from_slice(&rows[k * stride..][..width]);
        inverse.window(window);
    }
}
