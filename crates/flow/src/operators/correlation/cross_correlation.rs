//! How the windows of two inputs correlate, and by how much the second lags behind the first.

use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field};
use isochrony_dsp::correlate::{Correlator, Delays, Kind, Refine};
use isochrony_segment::{Calibration, DType, StreamId};
use serde_json::Value;

use crate::operator;
use crate::operators::fan_in::pairs::{Paired, Pairs};
use crate::operators::spectral::spectrum::squared;
use crate::operators::windows::features::numbers;
use crate::operators::windows::kernels::refused;
use crate::operators::wrong_input;
use crate::plan::rows::{Made, float};
use crate::{
    Break, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, json,
};

operator! {
    /// The cross-correlation of two inputs' windows at lags from -max_lag to max_lag, a row of 2 max_lag + 1 numbers for each
    /// pair, float64.
    ///
    /// At lag l the sum over i of first[i] times second[i + l], as far as both windows reach: SciPy's `correlate(second, first)`.
    /// A peak at a positive lag: the second has it later. Real samples; windows meet at equal indices.
    pub struct Xcorr = "xcorr" (Inputs::Exactly(2)) {
        /// Largest lag, below the window's length.
        max_lag: u64 = "integer" { unit: "samples", range: (0.0, 1099511627776.0) },
        /// What the sums are divided by: nothing, or the product of the windows' norms ("coeff"), so that they lie from -1 to 1.
        normalise: String = "text" { choices: &["none", "coeff"], default: || json!("none") },
    }
    state {
        rows: Correlations,
    }
}

operator! {
    /// The generalised cross-correlation with phase transform (GCC-PHAT) of two inputs' windows at lags from -max_lag to max_lag,
    /// a row of 2 max_lag + 1 numbers for each pair, float64.
    ///
    /// Every frequency of the band counts alike, whatever its power: a pure delay has a peak of 1 as sharp as the band allows. A peak
    /// at a positive lag: the second has it later. Real samples; windows meet at equal indices. Knapp and Carter (1976).
    pub struct GccPhat = "gcc_phat" (Inputs::Exactly(2)) {
        /// Largest lag, below the window's length.
        max_lag: u64 = "integer" { unit: "samples", range: (0.0, 1099511627776.0) },
        /// Two frequencies in Hz, the lower first: those between them count; all, if there are none.
        band_hz: Value = "numbers" { default: || json!([]) },
        /// What is added to each frequency's cross-power before it is divided by it, as a share of the largest in the band.
        regularise: f64 = "number" { unit: "of the largest", range: (0.0, 1e6), default: || json!(1e-3) },
    }
    state {
        rows: Correlations,
    }
}

operator! {
    /// By how many seconds the second input's windows lag behind the first's: a row for each pair.
    ///
    /// Columns are `start`, `end`, `time` where it is known, then `delay` (seconds, positive where the second has it later) and `peak`,
    /// the correlation there: the coefficient from -1 to 1, or that of the phase transform. NaN where windows have NaN or one of
    /// them is zero. Real samples; windows meet at equal indices.
    pub struct Delay = "delay" (Inputs::Exactly(2)) {
        /// Largest delay, below the window's length.
        max_lag: u64 = "integer" { unit: "samples", range: (0.0, 1099511627776.0) },
        /// The correlation: "xcorr" of coefficients, or "gcc_phat".
        method: String = "text" { choices: &["xcorr", "gcc_phat"], default: || json!("xcorr") },
        /// How a peak between samples is found: by a "parabola", or by the "band_limited" function through all values. If not
        /// given, a parabola for xcorr and band-limited for gcc_phat.
        refine: Option<String> = "text" { choices: &Refine::NAMES, default: || json!(null) },
        /// Two frequencies in Hz, the lower first, between which gcc_phat counts; all, if there are none.
        band_hz: Value = "numbers" { default: || json!([]) },
        /// As in gcc_phat.
        regularise: f64 = "number" { unit: "of the largest", range: (0.0, 1e6), default: || json!(1e-3) },
    }
    state {
        pairs: Pairs,
        ready: Option<Ready>,
    }
}

/// Pairs of windows, and the rows that are made of them.
#[derive(Default)]
struct Correlations {
    pairs: Pairs,
    correlator: Option<Correlator<f64>>,
    stream: Option<StreamId>,
}

fn samples(lag: u64) -> usize {
    usize::try_from(lag).unwrap_or(usize::MAX)
}

/// The phase transform of parameters.
fn phat(
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

impl Correlations {
    fn bind(
        &mut self,
        operator: &'static str,
        inputs: &[PortType],
        max_lag: u64,
        kind: impl FnOnce(&Paired) -> Result<(Kind, String), PlanError>,
    ) -> Result<OperatorProperties, PlanError> {
        let paired = self.pairs.bind(operator, inputs)?;
        let (kind, unit) = kind(&paired)?;
        let correlator = Correlator::new(paired.width, samples(max_lag), kind)
            .map_err(|error| refused(operator, error))?;
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
        Ok(self.pairs.bound(output))
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
        self.rows.bind("xcorr", inputs, self.max_lag, |paired| {
            let [first, second] = paired.units;
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
        self.rows.bind("gcc_phat", inputs, self.max_lag, |paired| {
            let kind = phat("gcc_phat", band, regularise, paired.rate)?;
            Ok((kind, String::new()))
        })
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.rows.process(port, item, out)
    }
}

/// Rows that wait to be given away.
struct Ready {
    made: Made,
    delays: Delays<f64>,
    rate: f64,
    seconds: Vec<f64>,
    peaks: Vec<f64>,
}

impl Operator for Delay {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let paired = self.pairs.bind("delay", inputs)?;
        let is_phat = self.method == "gcc_phat";
        let kind = match is_phat {
            true => phat("delay", &self.band_hz, self.regularise, paired.rate)?,
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
        let delays = Delays::new(paired.width, samples(self.max_lag), kind, refine)
            .map_err(|error| refused("delay", error))?;
        let fields = [
            Field::new("delay", DataType::Float64, false).with_metadata([("unit", "s")]),
            Field::new("peak", DataType::Float64, false),
        ];
        let (made, output) = Made::bind("delay", &inputs[0], fields)?;
        self.ready = Some(Ready {
            made,
            delays,
            rate: paired.rate,
            seconds: Vec::new(),
            peaks: Vec::new(),
        });
        Ok(self.pairs.bound(output))
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(Next::Done);
        };
        if !self.pairs.is_complete(port, item)? {
            return Ok(Next::Consumed);
        }
        if let Item::Frames(frames) = &*item {
            self.pairs.each(item, |x, y| {
                let delay = ready.delays.of(x, y);
                ready.seconds.push(delay.lag / ready.rate);
                ready.peaks.push(delay.peak);
            })?;
            ready.made.add(frames);
        }
        if ready.made.is_full() {
            self.flush(out)?;
        }
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        match why {
            // Rows do not care for what lies between them.
            Break::Removed => Ok(()),
            _ => self.flush(out),
        }
    }

    fn idle(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let ready = self.ready.as_ref();
        ready.map_or(upto, |ready| ready.made.upto(upto))
    }
}

impl Delay {
    /// Gives away the rows that wait.
    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(());
        };
        let columns = [&mut ready.seconds, &mut ready.peaks];
        let arrays: [ArrayRef; 2] = columns.map(|values| float(std::mem::take(values)));
        ready.made.give(arrays.map(Ok), out)
    }
}
