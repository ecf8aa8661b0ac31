//! Features of windows.

use isochrony_dsp::DspError;
use isochrony_dsp::features::{
    Count, Envelope as EnvelopeRows, Haar as HaarRows, HaarOfCounts, HaarOutput, Quantiles, rms,
    zero_crossings,
};
use isochrony_segment::DType;

use super::kernels::{RowFunction, kernel, real_windows};
use super::row_processor::{AnyRowKernel, RowProcessor, RowType, TypedStoredKernel, WindowInput};
use crate::operator;
use crate::operators::kernel_error;
use crate::operators::spectral::spectrum::squared;
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType, json,
};

operator! {
    /// Computes the envelope of every window: the magnitude of its analytic signal.
    ///
    /// # Inputs
    /// Windows of real samples, shape (n, N).
    ///
    /// # Returns
    /// Rows as long as the window, shape (n, N), in its unit: float32 for float32, otherwise float64. Edges: each
    /// window is treated as one period of a periodic signal, so values near both ends are affected where the end does
    /// not continue into the beginning. No delay.
    ///
    /// # Conventions
    /// As `abs(scipy.signal.hilbert(window))`. An offset counts: remove it with `detrend`. NaN spreads to its window's
    /// row.
    ///
    /// # Errors
    /// Input that is not windows of real samples.
    pub struct Envelope = "envelope" (Inputs::Exactly(1)) {}
    state {
        rows: RowProcessor,
    }
}

operator! {
    /// Computes the root mean square of every window.
    ///
    /// # Inputs
    /// Windows, shape (n, N), real or complex.
    ///
    /// # Returns
    /// Rows of one number, shape (n, 1), in the unit of the window; of complex samples that of the magnitudes. float32
    /// for float32 and complex64, otherwise float64. No edges, no delay.
    ///
    /// # Conventions
    /// NaN and infinities count; `stats("rms")` leaves them out.
    ///
    /// # Errors
    /// Input that is not windows of samples.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([3.0, -4.0, 0.0, 0.0]), rate=100).rewindow(4).rms().collect()
    /// array([[2.5]])
    /// ```
    pub struct Rms = "rms" (Inputs::Exactly(1)) {}
    state {
        rows: RowProcessor,
    }
}

operator! {
    /// Counts the zero crossings of every window.
    ///
    /// # Inputs
    /// Windows of real samples, shape (n, N).
    ///
    /// # Returns
    /// Rows of one number, shape (n, 1): float32 for float32, otherwise float64. No edges, no delay.
    ///
    /// # Conventions
    /// Zeros of either sign and NaN have no sign and are skipped: 1, 0, -1 is one crossing, 1, 0, 1 is none.
    ///
    /// # Errors
    /// Input that is not windows of real samples.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([1, 0, -1, 2, 0, 3]), rate=100).rewindow(6).zero_crossings().collect()
    /// array([[2.]])
    /// ```
    pub struct ZeroCrossings = "zero_crossings" (Inputs::Exactly(1)) {}
    state {
        rows: RowProcessor,
    }
}

operator! {
    /// Computes the orthonormal Haar wavelet transform of every window: band energies, or coefficients.
    ///
    /// # Inputs
    /// Windows of real samples, shape (n, N), where N is a multiple of 2^levels.
    ///
    /// # Returns
    /// Rows: "energies" of the details of levels 1, 2 ... and of the last approximation, shape (n, levels + 1), which
    /// add up to the sum of the squared samples; the "details" of the last level, shape (n, N / 2^levels); or all
    /// "coefficients", shape (n, N). float32 for float32, otherwise float64. No edges, no delay.
    ///
    /// # Conventions
    /// Coefficients are ordered as in `np.concatenate(pywt.wavedec(window, "haar", level=levels))`: the approximation,
    /// then details from the last level to the first. Level l covers about rate / 2^(l + 1) to rate / 2^l Hz. NaN
    /// spreads to its window's row.
    ///
    /// # Errors
    /// Input that is not windows of real samples of such a length.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> steps = iso.scan(np.array([1.0, 1.0, 3.0, 3.0]), rate=100).rewindow(4)
    /// >>> steps.haar(2).collect().round(6)
    /// array([[ 0.,  4., 16.]])
    /// ```
    pub struct Haar = "haar" (Inputs::Exactly(1)) {
        /// Number of times the window is halved.
        levels: u64 = "integer" { unit: Of("levels"), range: (1.0, 62.0) },
        /// "energies", "details" of the last level, or all "coefficients".
        output: String = "text" { choices: &HaarOutput::NAMES, default: || json!("energies") },
    }
    state {
        rows: RowProcessor,
    }
}

operator! {
    /// Computes quantiles of every window.
    ///
    /// # Inputs
    /// Windows of real samples, shape (n, N).
    ///
    /// # Returns
    /// Rows of one number for each quantile, shape (n, q), in the unit of the window: float32 for float32, otherwise
    /// float64. No edges, no delay.
    ///
    /// # Conventions
    /// By the linear method of `numpy.quantile`. NaN for a window that has NaN.
    ///
    /// # Errors
    /// Input that is not windows of real samples.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([4, 1, 2, 3]), rate=100).rewindow(4).quantile([0.5, 1]).collect()
    /// array([[2.5, 4. ]])
    /// ```
    pub struct Quantile = "quantile" (Inputs::Exactly(1)) {
        /// One or more quantiles: 0 is the minimum, 0.5 the median, 1 the maximum.
        at: serde_json::Value = "numbers" { range: (0.0, 1.0) },
    }
    state {
        rows: RowProcessor,
    }
}

impl Operator for Envelope {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = real_windows("envelope", &inputs[0])?;
        let width = input.width;
        let kernel = kernel!(
            input,
            "envelope",
            |T| Ok::<_, DspError>(EnvelopeRows::<T>::new(width)),
            |envelope, window, row| envelope.row(window, row)
        );
        let unit = input.unit().into();
        let row = RowType {
            width,
            complex: false,
            unit,
        };
        self.rows.bind("envelope", &input, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Rms {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = WindowInput::without_tables("rms", &inputs[0])?;
        let complex = input.complex;
        let kernel = kernel!(
            input,
            "rms",
            |T| Ok::<fn(&[T], bool) -> T, DspError>(rms::<T>),
            |rms, window, row| row[0] = rms(window, complex)
        );
        let unit = input.unit().into();
        let row = RowType {
            width: 1,
            complex: false,
            unit,
        };
        self.rows.bind("rms", &input, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for ZeroCrossings {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = real_windows("zero_crossings", &inputs[0])?;
        let kernel = kernel!(
            input,
            "zero_crossings",
            |T| Ok::<fn(&[T]) -> usize, DspError>(zero_crossings::<T>),
            |crossings, window, row| row[0] = crossings(window) as T
        );
        let row = RowType {
            width: 1,
            complex: false,
            unit: String::new(),
        };
        self.rows.bind("zero_crossings", &input, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Haar {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = real_windows("haar", &inputs[0])?;
        let output = HaarOutput::named(&self.output).unwrap_or(HaarOutput::Energies);
        let (width, levels) = (input.width, self.levels as usize);
        let kernel = match integer_haar_kernel(&input, levels, output)? {
            Some(kernel) => kernel,
            None => kernel!(
                input,
                "haar",
                |T| HaarRows::<T>::new(width, levels, output),
                |haar, window, row| haar.row(window, row)
            ),
        };
        let (numbers, unit) = match output {
            HaarOutput::Energies => (levels + 1, squared(input.unit(), false)),
            HaarOutput::Details => (width >> levels, input.unit().into()),
            HaarOutput::Coefficients => (width, input.unit().into()),
        };
        let row = RowType {
            width: numbers,
            complex: false,
            unit,
        };
        self.rows.bind("haar", &input, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

/// For integers as stored; None for other samples, and where sums might be inexact.
fn integer_haar_kernel(
    input: &WindowInput,
    levels: usize,
    output: HaarOutput,
) -> Result<Option<AnyRowKernel>, PlanError> {
    fn kernel<T: Count>(
        haar_kernel: Result<Option<HaarOfCounts<T>>, DspError>,
    ) -> Result<Option<AnyRowKernel>, PlanError> {
        let haar_kernel = haar_kernel.map_err(|error| kernel_error("haar", error))?;
        Ok(haar_kernel.map(|mut haar| {
            let each = RowFunction(move |window: &[T], row: &mut [f64]| haar.row(window, row));
            AnyRowKernel::Stored(Box::new(TypedStoredKernel::new(each)))
        }))
    }
    let Some((dtype, values)) = input.stored() else {
        return Ok(None);
    };
    let width = input.width;
    match dtype {
        DType::I8 => kernel::<i8>(HaarOfCounts::new(width, levels, output, values)),
        DType::U8 => kernel::<u8>(HaarOfCounts::new(width, levels, output, values)),
        DType::I16 => kernel::<i16>(HaarOfCounts::new(width, levels, output, values)),
        DType::U16 => kernel::<u16>(HaarOfCounts::new(width, levels, output, values)),
        DType::U32 => kernel::<u32>(HaarOfCounts::new(width, levels, output, values)),
        DType::I32 => kernel::<i32>(HaarOfCounts::new(width, levels, output, values)),
        _ => Ok(None),
    }
}

/// A parameter may be one number or a list.
pub(crate) fn numbers(value: &serde_json::Value) -> Vec<f64> {
    match value.as_array() {
        Some(list) => list.iter().filter_map(serde_json::Value::as_f64).collect(),
        None => value.as_f64().into_iter().collect(),
    }
}

impl Operator for Quantile {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = real_windows("quantile", &inputs[0])?;
        let at = numbers(&self.at);
        let kernel = kernel!(
            input,
            "quantile",
            |T| Quantiles::<T>::new(&at),
            |quantiles, window, row| quantiles.row(window, row)
        );
        let unit = input.unit().into();
        let row = RowType {
            width: at.len(),
            complex: false,
            unit,
        };
        self.rows.bind("quantile", &input, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}
