//! Samples at another rate.

mod parts;

use isochrony_dsp::resample::{Edges, Quality, Resampler};
use isochrony_segment::{Calibration, DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, Ratio, TimeError};

use super::sampled::Sampled;
use crate::operator;
use crate::operators::general::compiled::Compiled;
use crate::operators::windows::rowwise::dtype_of;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PlanError, Port, PortType, json,
};

use parts::{Kernels, Parts, either, failed};

/// Results that are given away together at most, but for those of one sample.
const MOST_RESULTS: u64 = 1 << 17;

operator! {
    /// Resamples to another rate without delay: a lowpass at half the lower rate, evaluated at the new instants.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// Samples at the new rate, with indices of their own: float32 for float32, in single precision, complex64 and
    /// complex128 by their parts, otherwise float64. Index j lies at input index j * down / up, at the same civil time.
    /// Edges: as `edges` says, at both ends of each gap-free range. No delay.
    ///
    /// # Conventions
    /// With "zeros" there are as many samples as from `scipy.signal.resample_poly`, and they agree with it, given a
    /// lowpass of this passband and attenuation, to within `attenuation_db`. A ratio of 1 copies samples. Constants are
    /// preserved. NaN and infinities reach as far as the lowpass. Up to 2**17 weights are exact; beyond, they are
    /// interpolated by cubics to within `attenuation_db`.
    ///
    /// # Errors
    /// Not exactly one of `rate_hz` and `up` or `down`; rates more than 2**20 apart; input that is not samples.
    ///
    /// # Source
    /// A. V. Oppenheim and R. W. Schafer, "Discrete-Time Signal Processing", 3rd edition, 4.6 and 7.5.
    pub struct Resample = "resample" (Inputs::Exactly(1)) {
        /// Output samples for each `down` input samples. Left out: 1.
        up: Option<u64> = "integer" { unit: Samples, range: (1.0, 9e15), default: || json!(null) },
        /// Input samples for each `up` output samples. Left out: 1.
        down: Option<u64> = "integer" { unit: Samples, range: (1.0, 9e15), default: || json!(null) },
        /// The new rate, instead of `up` and `down`; its ratio to the signal's nominal rate is taken exactly.
        rate_hz: Option<f64> = "number" { unit: Hertz, range: (1e-9, 1e12), default: || json!(null) },
        /// Attenuation of aliases and images, and accuracy of the passband. Rounding of float32 samples is 120 to 130
        /// dB down.
        attenuation_db: f64 = "number" { unit: Decibels, range: (20.0, 160.0), default: || json!(100.0) },
        /// Passband, as a share of half the lower rate.
        passband: f64 = "number" { range: (0.05, 0.99), default: || json!(0.9) },
        /// "inside" gives only results that depend on samples of the gap-free range alone, which leaves out about
        /// (attenuation_db - 8) / (14 (1 - passband)) samples at the lower rate, and a few more, at both ends; "zeros"
        /// and "steady" give a result for each instant, as if zeros, or the first and last sample, continued outside.
        edges: String = "text" { choices: &["inside", "zeros", "steady"], default: || json!("inside") },
    }
    state {
        ready: Option<Ready>,
    }
}

struct Ready {
    /// What is computed of samples first; None: they are values of the kernels' precision already.
    converted: Option<Compiled>,
    kernels: Kernels,
    ratio: Ratio,
    dtype: DType,
    stream: StreamId,
    /// Samples that are taken at a time, so that results stay few.
    at_a_time: i64,
    /// Whether a stretch is under way.
    begun: bool,
    /// Something was removed before what comes next, which nobody tells those behind.
    removed: bool,
    /// Index that would continue what was given, and whether the result there is to be left out.
    next: i64,
    leave_out: bool,
}

impl Ready {
    /// A stretch begins. Those behind see by a missing index that something was removed: if none is missing, one is left
    /// out.
    fn begin(&mut self, start: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let first = either!(&mut self.kernels, parts => parts.begin(start)).map_err(failed)?;
        self.leave_out = self.removed && first == self.next;
        self.removed = false;
        self.begun = true;
        out.holds(either!(&self.kernels, parts => parts.bytes()) as u64)
    }

    /// Results with their indices: None if there are none.
    fn made(
        &mut self,
        samples: Option<&SigSeg>,
        out: &mut Out<'_>,
    ) -> Result<Option<SigSeg>, OpError> {
        let (start, ready) = either!(&self.kernels, parts => {
            let one = parts.one();
            (one.next(), match samples {
                Some(samples) => one.ready(samples.len() as usize),
                None => one.ready_at_end(),
            })
        });
        let mut block = out.alloc(self.dtype, ready)?;
        let done = either!(&mut self.kernels, parts => {
            let results = bytemuck::cast_slice_mut(block.bytes_mut());
            match samples {
                Some(samples) => parts.run(samples, self.converted.as_mut(), results),
                None => parts.finish(results),
            }
        });
        let buffer = out.seal(block);
        done?;
        if ready == 0 {
            return Ok(None);
        }
        let results = SigSeg::new(buffer, start, self.dtype, self.stream)?;
        self.next = results.end();
        if !std::mem::take(&mut self.leave_out) {
            return Ok(Some(results));
        }
        match ready {
            1 => Ok(None),
            _ => Ok(Some(results.subseg(start + 1..results.end())?)),
        }
    }

    /// The stretch has ended.
    fn end(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        if std::mem::take(&mut self.begun)
            && let Some(results) = self.made(None, out)?
        {
            out.emit(0, &mut results.into())?;
        }
        Ok(())
    }
}

impl Resample {
    /// What the parameters say of samples at a rate: the ratio, and the rate of what comes out.
    fn asked(&self, rate: Rate) -> Result<(Ratio, Rate), PlanError> {
        let refused = |parameter, got: String, legal: &str| PlanError::Parameter {
            operator: "resample",
            parameter,
            got,
            legal: legal.into(),
        };
        let beyond = |parameter, got: String| {
            move |_: TimeError| {
                let legal = format!(
                    "such that its ratio to {rate} Hz, and the rate, are fractions of 63 bits"
                );
                refused(parameter, got, &legal)
            }
        };
        match (self.rate_hz, self.up, self.down) {
            (Some(hz), None, None) => {
                let to = Rate::from_f64(hz).map_err(beyond("rate_hz", hz.to_string()))?;
                let ratio = Ratio::between(rate, to).map_err(beyond("rate_hz", hz.to_string()))?;
                Ok((ratio, to))
            }
            (Some(hz), ..) => {
                let legal = "left out where up= or down= is given";
                Err(refused("rate_hz", hz.to_string(), legal))
            }
            (None, None, None) => {
                let legal = "given, or up= or down= or both";
                Err(refused("rate_hz", "none".into(), legal))
            }
            (None, up, down) => {
                let (up, down) = (up.unwrap_or(1), down.unwrap_or(1));
                let ratio = Ratio::new(up, down).map_err(beyond("up", up.to_string()))?;
                let to = ratio.rate(rate).map_err(beyond("up", up.to_string()))?;
                Ok((ratio, to))
            }
        }
    }
}

impl Operator for Resample {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let given = Sampled::of("resample", &inputs[0])?;
        let from = given.stream().get();
        let (ratio, rate) = self.asked(from.rate)?;
        let quality = Quality {
            attenuation_db: self.attenuation_db,
            passband: self.passband,
        };
        let edges = match self.edges.as_str() {
            "zeros" => Edges::Zeros,
            "steady" => Edges::Steady,
            _ => Edges::Inside,
        };
        let parts = if given.complex { 2 } else { 1 };
        let kernels = match given.single {
            true => {
                let one = Resampler::new("resample", ratio, quality, edges)?;
                Kernels::Single(Parts::new(one, parts))
            }
            false => {
                let one = Resampler::new("resample", ratio, quality, edges)?;
                Kernels::Double(Parts::new(one, parts))
            }
        };
        let timebase = from
            .timebase
            .resampled(ratio)
            .map_err(|_| PlanError::Parameter {
                operator: "resample",
                parameter: "up",
                got: ratio.to_string(),
                legal: "such that its ratio to the signal that was read is a fraction of 63 bits"
                    .into(),
            })?;
        let dtype = dtype_of(given.single, given.complex);
        let stream = Stream {
            timebase,
            rate,
            calibration: Calibration::identity(given.unit()),
            name: from.name.clone(),
        };
        let stream = stream.intern();
        let (before, after) = either!(&kernels, parts => parts.one().reach());
        let few = u128::from(MOST_RESULTS) * u128::from(ratio.down()) / u128::from(ratio.up());
        self.ready = Some(Ready {
            converted: given.converted("resample")?,
            kernels,
            ratio,
            dtype,
            stream,
            at_a_time: i64::try_from(few.max(1)).unwrap_or(i64::MAX),
            begun: false,
            removed: false,
            next: i64::MIN,
            leave_out: false,
        });
        let mut bound = OperatorProperties::new([PortType::Samples { dtype, stream }]);
        bound.ratio = Some((ratio.up(), ratio.down()));
        bound.delay = after.cast_signed();
        Ok(bound.contract(Contract::Overlap { before, after }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Samples(samples), Some(ready)) = (&*item, &mut self.ready) else {
            return Err(OpErrorKind::WrongItem {
                expected: "samples",
                got: item.kind(),
            }
            .into());
        };
        let mut samples = samples.materialise()?;
        if !ready.begun {
            ready.begin(samples.start(), out)?;
        }
        while samples.len() > ready.at_a_time.unsigned_abs() {
            let piece = samples.split_front(samples.start() + ready.at_a_time)?;
            if let Some(results) = ready.made(Some(&piece), out)? {
                out.emit(0, &mut results.into())?;
            }
        }
        match ready.made(Some(&samples), out)? {
            Some(results) => {
                *item = results.into();
                Ok(Next::Forward)
            }
            None => Ok(Next::Consumed),
        }
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(());
        };
        ready.end(out)?;
        ready.removed = *why == Break::Removed;
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.ready.as_mut().map_or(Ok(()), |ready| ready.end(out))
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let Some(ready) = &self.ready else {
            return i64::MIN;
        };
        let upto = ready.ratio.first_from(upto).unwrap_or(i64::MIN);
        match ready.begun {
            true => either!(&ready.kernels, parts => parts.one().next()).min(upto),
            false => upto,
        }
    }
}
