//! What windows are described by: a row of a few numbers each.

use isochrony_dsp::DspError;
use isochrony_dsp::features::{
    Count, Envelope as EnvelopeRows, Haar as HaarRows, HaarOfCounts, HaarOutput, Quantiles, rms,
    zero_crossings,
};
use isochrony_segment::DType;

use super::kernels::{EachRow, kernel, real_windows, refused};
use super::rowwise::{Kernel, Row, Rowwise, StoredRecording, Windowed};
use crate::operator;
use crate::operators::spectral::spectrum::squared;
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType, json,
};

operator! {
    /// The envelope of every window: magnitudes of its analytic signal, by its Fourier transform.
    ///
    /// As long as the window, in its unit. Real samples. Each window is taken as one period of a periodic signal: where its
    /// end does not continue into its beginning, values near both ends show it.
    pub struct Envelope = "envelope" (Inputs::Exactly(1)) {}
    state {
        rows: Rowwise,
    }
}

operator! {
    /// The root of the mean square of every window, one number each, in its unit; of complex samples that of magnitudes.
    ///
    /// NaN and infinities count: the result is NaN or infinite (`stats("rms")` leaves them out).
    pub struct Rms = "rms" (Inputs::Exactly(1)) {}
    state {
        rows: Rowwise,
    }
}

operator! {
    /// How often the sign changes from one sample of a window to the next that has one, one number each.
    ///
    /// Real samples. Zeros and NaN have no sign and are passed over.
    pub struct ZeroCrossings = "zero_crossings" (Inputs::Exactly(1)) {}
    state {
        rows: Rowwise,
    }
}

operator! {
    /// The orthonormal Haar wavelet transform of every window: energies of its frequency bands, or coefficients.
    ///
    /// Real samples. Energies are those of the details of levels 1, 2 ... and of what the last leaves: `levels` + 1
    /// numbers that add up to the sum of the squared samples. Level l sees about rate / 2^(l + 1) to rate / 2^l.
    pub struct Haar = "haar" (Inputs::Exactly(1)) {
        /// How often the window is halved; its length is a multiple of 2^levels.
        levels: u64 = "integer" { unit: "levels", range: (1.0, 62.0) },
        /// What is given: "energies"; the "details" of the last level, window / 2^levels numbers; or all "coefficients", the
        /// approximation first and then details from the last level to the first.
        output: String = "text" { choices: &HaarOutput::NAMES, default: || json!("energies") },
    }
    state {
        rows: Rowwise,
    }
}

operator! {
    /// Quantiles of every window, a number for each, in its unit.
    ///
    /// Real samples, by NumPy's default (linear) method; NaN of windows that have NaN.
    pub struct Quantile = "quantile" (Inputs::Exactly(1)) {
        /// One or more numbers from 0 (the minimum) to 1 (the maximum).
        at: serde_json::Value = "numbers" {},
    }
    state {
        rows: Rowwise,
    }
}

impl Operator for Envelope {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = real_windows("envelope", &inputs[0])?;
        let width = given.width;
        let kernel = kernel!(
            given,
            "envelope",
            |T| Ok::<_, DspError>(EnvelopeRows::<T>::new(width)),
            |envelope, window, row| envelope.row(window, row)
        );
        let unit = given.unit().into();
        let row = Row {
            width,
            complex: false,
            unit,
        };
        self.rows.bind("envelope", &given, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Rms {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Windowed::without_tables("rms", &inputs[0])?;
        let complex = given.complex;
        let kernel = kernel!(
            given,
            "rms",
            |T| Ok::<fn(&[T], bool) -> T, DspError>(rms::<T>),
            |rms, window, row| row[0] = rms(window, complex)
        );
        let unit = given.unit().into();
        let row = Row {
            width: 1,
            complex: false,
            unit,
        };
        self.rows.bind("rms", &given, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for ZeroCrossings {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = real_windows("zero_crossings", &inputs[0])?;
        let kernel = kernel!(
            given,
            "zero_crossings",
            |T| Ok::<fn(&[T]) -> usize, DspError>(zero_crossings::<T>),
            |crossings, window, row| row[0] = crossings(window) as T
        );
        let row = Row {
            width: 1,
            complex: false,
            unit: String::new(),
        };
        self.rows.bind("zero_crossings", &given, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

impl Operator for Haar {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = real_windows("haar", &inputs[0])?;
        let output = HaarOutput::named(&self.output).unwrap_or(HaarOutput::Energies);
        let (width, levels) = (given.width, self.levels as usize);
        let kernel = match haar_of_counts(&given, levels, output)? {
            Some(kernel) => kernel,
            None => kernel!(
                given,
                "haar",
                |T| HaarRows::<T>::new(width, levels, output),
                |haar, window, row| haar.row(window, row)
            ),
        };
        let (numbers, unit) = match output {
            HaarOutput::Energies => (levels + 1, squared(given.unit(), false)),
            HaarOutput::Details => (width >> levels, given.unit().into()),
            HaarOutput::Coefficients => (width, given.unit().into()),
        };
        let row = Row {
            width: numbers,
            complex: false,
            unit,
        };
        self.rows.bind("haar", &given, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}

/// The kernel of whole numbers as they are stored; None of other samples, and where sums might not be exact.
fn haar_of_counts(
    given: &Windowed,
    levels: usize,
    output: HaarOutput,
) -> Result<Option<Kernel>, PlanError> {
    fn kernel<T: Count>(
        made: Result<Option<HaarOfCounts<T>>, DspError>,
    ) -> Result<Option<Kernel>, PlanError> {
        let made = made.map_err(|error| refused("haar", error))?;
        Ok(made.map(|mut haar| {
            let each = EachRow(move |window: &[T], row: &mut [f64]| haar.row(window, row));
            Kernel::Stored(Box::new(StoredRecording::new(each)))
        }))
    }
    let Some((dtype, values)) = given.stored() else {
        return Ok(None);
    };
    let width = given.width;
    match dtype {
        DType::I8 => kernel::<i8>(HaarOfCounts::new(width, levels, output, values)),
        DType::U8 => kernel::<u8>(HaarOfCounts::new(width, levels, output, values)),
        DType::I16 => kernel::<i16>(HaarOfCounts::new(width, levels, output, values)),
        DType::U16 => kernel::<u16>(HaarOfCounts::new(width, levels, output, values)),
        DType::I32 => kernel::<i32>(HaarOfCounts::new(width, levels, output, values)),
        _ => Ok(None),
    }
}

/// The numbers of a parameter that is one or a list.
pub(crate) fn numbers(value: &serde_json::Value) -> Vec<f64> {
    match value.as_array() {
        Some(list) => list.iter().filter_map(serde_json::Value::as_f64).collect(),
        None => value.as_f64().into_iter().collect(),
    }
}

impl Operator for Quantile {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = real_windows("quantile", &inputs[0])?;
        let at = numbers(&self.at);
        let kernel = kernel!(
            given,
            "quantile",
            |T| Quantiles::<T>::new(&at),
            |quantiles, window, row| quantiles.row(window, row)
        );
        let unit = given.unit().into();
        let row = Row {
            width: at.len(),
            complex: false,
            unit,
        };
        self.rows.bind("quantile", &given, None, kernel, row)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(item, out)
    }
}
