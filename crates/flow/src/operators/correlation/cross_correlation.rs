//! Cross-correlation and delay of two inputs' windows.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};
use isochrony_dsp::correlate::{Correlator, Delays, Kind, Refine};
use isochrony_segment::{Calibration, DType, StreamId};
use serde_json::Value;

use crate::operator;
use crate::operators::fan_in::window_pairs::{PairInput, WindowPairs};
use crate::operators::kernel_error;
use crate::operators::rows::{RowBuilder, float, flush_rows};
use crate::operators::spectral::spectrum::squared;
use crate::operators::windows::features::numbers;
use crate::operators::wrong_input;
use crate::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port, PortType, json,
};

operator! {
    /// Cross-correlates windows with those of another plan.
    ///
    /// # Inputs
    /// Windows of real samples, shape (n, N).
    ///
    /// `other`: windows of real samples, of the same length, hop and timebase.
    ///
    /// # Returns
    /// Rows of 2 max_lag + 1 numbers, shape (n, 2 max_lag + 1), float64: one row for each pair of windows at the same
    /// indices. No edges, no delay; a window without a partner gives no row.
    ///
    /// # Conventions
    /// The number at lag l, from -max_lag on, is the sum over i of first[i] times second[i + l], as far as both windows
    /// reach, which is `scipy.signal.correlate(second, first)`. A peak at a positive lag means that the second plan has
    /// the event later. Sums have an absolute error of about 1e-15 of the product of the windows' norms. NaN spreads to
    /// its pair's row.
    ///
    /// # Errors
    /// The inputs are not such windows; a lag of a window's length or more.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> x, y = np.zeros((2, 8))
    /// >>> x[3], y[5] = 2, 3
    /// >>> here, there = (iso.scan(z, rate=100).rewindow(8) for z in (x, y))
    /// >>> abs(here.xcorr(there, 2).collect().round(6))
    /// array([[0., 0., 0., 0., 6.]])
    /// ```
    pub struct Xcorr = "xcorr" (Inputs::Exactly(2)) {
        /// Largest lag, below the window's length.
        max_lag: u64 = "integer" { unit: Samples, range: (0.0, 1099511627776.0) },
        /// "coeff" divides by the product of the windows' norms: results lie from -1 to 1, and are 0 where a window is
        /// zero.
        normalise: String = "text" { choices: &["none", "coeff"], default: || json!("none") },
    }
    state {
        rows: CorrelationProcessor,
    }
}

operator! {
    /// Cross-correlates the phases of windows with those of another plan (GCC-PHAT).
    ///
    /// # Inputs
    /// Windows of real samples, shape (n, N).
    ///
    /// `other`: windows of real samples, of the same length, hop and timebase.
    ///
    /// # Returns
    /// Rows of 2 max_lag + 1 numbers, shape (n, 2 max_lag + 1), float64: one row for each pair of windows at the same
    /// indices. No edges, no delay; a window without a partner gives no row.
    ///
    /// # Conventions
    /// Every frequency of the band has the same weight, whatever its power: a pure delay gives a peak of 1, as sharp as
    /// the band allows, and echoes are separated. Lags have the sign of `xcorr`. NaN spreads to its pair's row.
    ///
    /// # Errors
    /// The inputs are not such windows; a lag of a window's length or more; a band outside 0 Hz to half the rate.
    ///
    /// # Source
    /// C. H. Knapp and G. C. Carter, "The generalized correlation method for estimation of time delay" (1976).
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> noise = np.random.default_rng(1).standard_normal(1030)
    /// >>> here, there = (iso.scan(z, rate=100).rewindow(1024) for z in (noise[3:1027], noise[:1024]))
    /// >>> int(here.gcc_phat(there, 5).collect().argmax()) - 5
    /// 3
    /// ```
    pub struct GccPhat = "gcc_phat" (Inputs::Exactly(2)) {
        /// Largest lag, below the window's length.
        max_lag: u64 = "integer" { unit: Samples, range: (0.0, 1099511627776.0) },
        /// Lower and upper frequency of the band that has signal. Left out: all frequencies.
        band_hz: Value = "numbers" { unit: Hertz, at_least: 0.0, default: || json!([]) },
        /// Added to each frequency's cross-power before dividing by it, as a share of the largest cross-power in the
        /// band. Frequencies with less than that count less, instead of adding noise.
        regularise: f64 = "number" { unit: Of("of the largest"), range: (0.0, 1e6), default: || json!(1e-3) },
    }
    state {
        rows: CorrelationProcessor,
    }
}

operator! {
    /// Measures by how many seconds the windows of another plan lag behind those of this one.
    ///
    /// # Inputs
    /// Windows of real samples, shape (n, N).
    ///
    /// `other`: windows of real samples, of the same length, hop and timebase.
    ///
    /// # Returns
    /// Rows: `start`, `end` (int64), `time` where the signal knows civil time, `delay` (seconds, float64; positive if
    /// the second plan has the event later) and `peak` (float64), the correlation at that delay. One row for each pair
    /// of windows at the same indices; no edges, no delay.
    ///
    /// # Conventions
    /// The delay is that of the highest peak. NaN where a window has NaN or is zero. A parabola through the highest
    /// value and its neighbours is biased towards the nearer sample: for a flat band by up to 0.011 samples if the band
    /// ends at a sixth of the rate, 0.026 at a quarter, 0.12 at half the rate. "band_limited" takes the peak of the
    /// band-limited function through all values and has no bias.
    ///
    /// # Errors
    /// The inputs are not such windows; a lag of a window's length or more; a band out of range, or one given for
    /// "xcorr".
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> t = np.arange(200)
    /// >>> x, y = (np.exp(-((t - at) ** 2) / 50) for at in (90, 92.5))
    /// >>> here, there = (iso.scan(z, rate=100).rewindow(200) for z in (x, y))
    /// >>> here.delay(there, 10, refine="band_limited").select("delay", "peak").collect()
    ///  delay (s)  peak
    ///      0.025     1
    /// [1 rows]
    /// ```
    pub struct Delay = "delay" (Inputs::Exactly(2)) {
        /// Largest delay, below the window's length.
        max_lag: u64 = "integer" { unit: Samples, range: (0.0, 1099511627776.0) },
        /// Correlation whose highest peak is the delay: coefficients of `xcorr`, or `gcc_phat`.
        method: String = "text" { choices: &["xcorr", "gcc_phat"], default: || json!("xcorr") },
        /// Interpolation of the peak between samples. Left out: a parabola for "xcorr", band-limited for "gcc_phat".
        refine: Option<String> = "text" { choices: &Refine::NAMES, default: || json!(null) },
        /// Band of "gcc_phat", as there.
        band_hz: Value = "numbers" { unit: Hertz, at_least: 0.0, default: || json!([]) },
        /// Regularisation of "gcc_phat", as there.
        regularise: f64 = "number" { unit: Of("of the largest"), range: (0.0, 1e6), default: || json!(1e-3) },
    }
    state {
        pairs: WindowPairs,
        bound: Option<BoundState>,
    }
}

#[derive(Default)]
struct CorrelationProcessor {
    pairs: WindowPairs,
    correlator: Option<Correlator<f64>>,
    stream: Option<StreamId>,
}

fn lag_samples(lag: u64) -> usize {
    usize::try_from(lag).unwrap_or(usize::MAX)
}

fn phase_transform(
    operator: &'static str,
    band_hz: &Value,
    regularise: f64,
    rate: f64,
) -> Result<Kind, PlanError> {
    let half = rate / 2.0;
    let band = match numbers(band_hz)[..] {
        [] => (0.0, 0.5),
        [low, high] if 0.0 <= low && low < high && high <= half => (low / rate, high / rate),
        _ => {
            return Err(PlanError::Parameter {
                operator,
                parameter: "band_hz",
                got: band_hz.to_string(),
                legal: format!("two frequencies, the lower first, from 0 to {half} Hz"),
            });
        }
    };
    Ok(Kind::Phat { regularise, band })
}

impl CorrelationProcessor {
    fn bind(
        &mut self,
        operator: &'static str,
        inputs: &[PortType],
        max_lag: u64,
        kind: impl FnOnce(&PairInput) -> Result<(Kind, String), PlanError>,
    ) -> Result<OperatorProperties, PlanError> {
        let pair = self.pairs.bind(operator, inputs)?;
        let (kind, unit) = kind(&pair)?;
        let correlator = Correlator::new(pair.width, lag_samples(max_lag), kind)
            .map_err(|error| kernel_error(operator, error))?;
        let PortType::Frames {
            stream,
            window,
            hop,
            ..
        } = inputs[0]
        else {
            return Err(wrong_input(
                operator,
                "windows",
                &inputs[0],
                "put rewindow(...) before it",
            ));
        };
        let stream = stream
            .get()
            .clone()
            .with_calibration(Calibration::identity(unit))
            .intern();
        let output = PortType::Frames {
            dtype: DType::F64,
            stream,
            window,
            hop,
            width: correlator.lags(),
        };
        self.correlator = Some(correlator);
        self.stream = Some(stream);
        Ok(self.pairs.properties(output))
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Some(correlator), Some(stream)) = (&mut self.correlator, self.stream) else {
            return Ok(Next::Done);
        };
        if !self.pairs.is_complete(port, item)? {
            return Ok(Next::Consumed);
        }
        let Item::Frames(frames) = &*item else {
            return Ok(Next::Consumed);
        };
        let lags = correlator.lags();
        let mut block = out.alloc(DType::F64, lags * frames.count() as usize)?;
        let mut rows = block.samples_mut::<f64>().chunks_exact_mut(lags);
        let done = self.pairs.each(item, |x, y| {
            if let Some(row) = rows.next() {
                correlator.row(x, y, row);
            }
        });
        let buffer = out.seal(block);
        done?;
        if let Some(rows) = frames.with_rows(buffer, DType::F64, lags, stream) {
            *item = rows.into();
        }
        Ok(Next::Forward)
    }
}

impl Operator for Xcorr {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let coefficient = self.normalise == "coeff";
        self.rows.bind("xcorr", inputs, self.max_lag, |pair| {
            let [first, second] = pair.units;
            Ok(if coefficient {
                (Kind::Coefficient, String::new())
            } else if first == second {
                (Kind::Correlation, squared(first, false))
            } else {
                (Kind::Correlation, format!("({first})({second})"))
            })
        })
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(port, item, out)
    }
}

impl Operator for GccPhat {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let (band, regularise) = (&self.band_hz, self.regularise);
        self.rows.bind("gcc_phat", inputs, self.max_lag, |pair| {
            let kind = phase_transform("gcc_phat", band, regularise, pair.rate)?;
            Ok((kind, String::new()))
        })
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(port, item, out)
    }
}

struct BoundState {
    rows: RowBuilder,
    delays: Delays<f64>,
    rate: f64,
    seconds: Vec<f64>,
    peaks: Vec<f64>,
}

impl Operator for Delay {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let pair = self.pairs.bind("delay", inputs)?;
        let is_phat = self.method == "gcc_phat";
        let kind = match is_phat {
            true => phase_transform("delay", &self.band_hz, self.regularise, pair.rate)?,
            false if numbers(&self.band_hz).is_empty() => Kind::Coefficient,
            false => {
                return Err(PlanError::Parameter {
                    operator: "delay",
                    parameter: "band_hz",
                    got: self.band_hz.to_string(),
                    legal: "left out of xcorr: filter before it, or choose gcc_phat".into(),
                });
            }
        };
        let refine = self.refine.as_deref().and_then(Refine::named);
        let refine = refine.unwrap_or(match is_phat {
            true => Refine::BandLimited,
            false => Refine::Parabola,
        });
        let delays = Delays::new(pair.width, lag_samples(self.max_lag), kind, refine)
            .map_err(|error| kernel_error("delay", error))?;
        let fields = [
            Field::new("delay", DataType::Float64, false).with_metadata([("unit", "s")]),
            Field::new("peak", DataType::Float64, false),
        ];
        let (rows, output) = RowBuilder::bind("delay", &inputs[0], fields)?;
        self.bound = Some(BoundState {
            rows,
            delays,
            rate: pair.rate,
            seconds: Vec::new(),
            peaks: Vec::new(),
        });
        Ok(self.pairs.properties(output))
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(Next::Done);
        };
        if !self.pairs.is_complete(port, item)? {
            return Ok(Next::Consumed);
        }
        if let Item::Frames(frames) = &*item {
            self.pairs.each(item, |x, y| {
                let delay = bound.delays.of(x, y);
                bound.seconds.push(delay.lag / bound.rate);
                bound.peaks.push(delay.peak);
            })?;
            bound.rows.add(frames);
        }
        if bound.rows.is_full() {
            self.flush(out)?;
        }
        Ok(Next::Consumed)
    }

    flush_rows!();
}

impl Delay {
    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        let columns = [&mut bound.seconds, &mut bound.peaks];
        let arrays: [ArrayRef; 2] = columns.map(|values| float(std::mem::take(values)));
        bound.rows.emit(arrays.map(Ok), out)
    }
}
