//! Rational resampling.

mod part_resamplers;

use isochrony_dsp::DspError;
use isochrony_dsp::resample::{Edges, Quality, Resampler};
use isochrony_segment::{Calibration, DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, Ratio, TimeError};

use super::sample_input::SampleInput;
use crate::operator;
use crate::operators::general::compiled::CompiledExpr;
use crate::operators::windows::row_processor::dtype_of;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PlanError, Port, PortType, json,
};

use part_resamplers::{PartResamplers, Resamplers, dsp_error, with_resamplers};

/// Per item, unless one sample gives more.
const MAX_RESULTS: u64 = 1 << 17;

operator! {
    /// Resamples to another rate without delay: a lowpass at half the lower rate, evaluated at the new instants.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// Samples at the new rate, with indices of their own: float32 for float32, in single precision, complex64 and
    /// complex128 by their parts, otherwise float64. Index j lies at input index j * down / up, at the same civil time.
    /// Edges: as `edges` says, at both ends of each gap-free range. No delay in the signal; results wait for
    /// the samples that the lowpass needs.
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
        up: Option<u64> = "integer" { unit: Of("samples"), at_least: 1.0, default: || json!(null) },
        /// Input samples for each `up` output samples. Left out: 1.
        down: Option<u64> = "integer" { unit: Of("samples"), at_least: 1.0, default: || json!(null) },
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
        bound: Option<BoundState>,
    }
}

struct BoundState {
    /// None: samples already are values of the resamplers' precision.
    conversion: Option<CompiledExpr>,
    resamplers: Resamplers,
    ratio: Ratio,
    dtype: DType,
    stream: StreamId,
    /// Bounds the results of a call.
    max_samples: i64,
    begun: bool,
    /// Samples were removed since the last range.
    after_removal: bool,
    /// Index that would continue the results so far.
    next: i64,
    skips_result: bool,
}

impl BoundState {
    /// Begins a contiguous range. A missing index tells later operators that samples were removed; if none is missing,
    /// the first result is left out.
    fn begin(&mut self, start: i64, out: &mut Out<'_>) -> Result<(), OpError> {
        let first = with_resamplers!(&mut self.resamplers, resamplers => resamplers.begin(start))
            .map_err(dsp_error)?;
        self.skips_result = self.after_removal && first == self.next;
        self.after_removal = false;
        self.begun = true;
        out.holds(with_resamplers!(&self.resamplers, resamplers => resamplers.bytes()) as u64)
    }

    fn compute(
        &mut self,
        samples: Option<&SigSeg>,
        out: &mut Out<'_>,
    ) -> Result<Option<SigSeg>, OpError> {
        let (start, count) = with_resamplers!(&self.resamplers, resamplers => {
            let first = resamplers.first();
            (first.next(), match samples {
                Some(samples) => first.ready(samples.len() as usize),
                None => first.ready_at_end(),
            })
        });
        let mut block = out.alloc(self.dtype, count)?;
        let done = with_resamplers!(&mut self.resamplers, resamplers => {
            let results = bytemuck::cast_slice_mut(block.bytes_mut());
            match samples {
                Some(samples) => resamplers.run(samples, self.conversion.as_mut(), results),
                None => resamplers.finish(results),
            }
        });
        let buffer = out.seal(block);
        done?;
        if count == 0 {
            return Ok(None);
        }
        let results = SigSeg::new(buffer, start, self.dtype, self.stream)?;
        self.next = results.end();
        if !std::mem::take(&mut self.skips_result) {
            return Ok(Some(results));
        }
        match count {
            1 => Ok(None),
            _ => Ok(Some(results.subseg(start + 1..results.end())?)),
        }
    }

    fn end(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        if std::mem::take(&mut self.begun)
            && let Some(results) = self.compute(None, out)?
        {
            out.emit(0, &mut results.into())?;
        }
        Ok(())
    }
}

impl Resample {
    fn rate_error(&self, legal: String) -> PlanError {
        let (parameter, got) = match (self.rate_hz, self.up, self.down) {
            (Some(hz), ..) => ("rate_hz", hz.to_string()),
            (None, Some(up), Some(down)) => ("up/down", format!("{up}/{down}")),
            (None, None, Some(down)) => ("down", down.to_string()),
            (None, up, None) => ("up", up.unwrap_or(1).to_string()),
        };
        PlanError::Parameter {
            operator: "resample",
            parameter,
            got,
            legal,
        }
    }

    /// An error about the ratio in terms of what the caller gave.
    fn resampler_error(&self, error: DspError) -> PlanError {
        match error {
            DspError::Parameter {
                parameter: "up/down",
                allowed,
                ..
            } if self.rate_hz.is_some() => self.rate_error(allowed),
            other => other.into(),
        }
    }

    fn ratio_and_rate(&self, rate: Rate) -> Result<(Ratio, Rate), PlanError> {
        let overflow = |_: TimeError| {
            self.rate_error(format!(
                "such that the new rate and its ratio to {rate} Hz are fractions of 63-bit numbers"
            ))
        };
        match (self.rate_hz, self.up, self.down) {
            (Some(hz), None, None) => {
                let to = Rate::from_f64(hz).map_err(overflow)?;
                let ratio = Ratio::between(rate, to).map_err(overflow)?;
                Ok((ratio, to))
            }
            (Some(_), ..) => Err(self.rate_error("left out where up= or down= is given".into())),
            (None, None, None) => Err(PlanError::NeedsParameter {
                operator: "resample",
                needs: "needs rate_hz= or a ratio".into(),
                mend: "give rate_hz=, or up=, down= or both",
            }),
            (None, up, down) => {
                let ratio = Ratio::new(up.unwrap_or(1), down.unwrap_or(1)).map_err(overflow)?;
                let to = ratio.rate(rate).map_err(overflow)?;
                Ok((ratio, to))
            }
        }
    }
}

impl Operator for Resample {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = SampleInput::of("resample", &inputs[0])?;
        let from = input.stream().get();
        let (ratio, rate) = self.ratio_and_rate(from.rate)?;
        let quality = Quality {
            attenuation_db: self.attenuation_db,
            passband: self.passband,
        };
        let edges = match self.edges.as_str() {
            "zeros" => Edges::Zeros,
            "steady" => Edges::Steady,
            _ => Edges::Inside,
        };
        let part_count = if input.complex { 2 } else { 1 };
        // Refuses rates more than 2^20 apart.
        let resamplers = match input.single {
            true => {
                let resampler = Resampler::new("resample", ratio, quality, edges)
                    .map_err(|error| self.resampler_error(error))?;
                Resamplers::Single(PartResamplers::new(resampler, part_count))
            }
            false => {
                let resampler = Resampler::new("resample", ratio, quality, edges)
                    .map_err(|error| self.resampler_error(error))?;
                Resamplers::Double(PartResamplers::new(resampler, part_count))
            }
        };
        let timebase = from.timebase.resampled(ratio).map_err(|_| {
            let legal =
                "such that the ratio of the new rate to the recording's is a fraction of 63-bit numbers";
            self.rate_error(legal.into())
        })?;
        let dtype = dtype_of(input.single, input.complex);
        let stream = Stream {
            timebase,
            rate,
            calibration: Calibration::identity(input.unit()),
            name: from.name.clone(),
        };
        let stream = stream.intern();
        let (before, after) =
            with_resamplers!(&resamplers, resamplers => resamplers.first().reach());
        let max_samples =
            u128::from(MAX_RESULTS) * u128::from(ratio.down()) / u128::from(ratio.up());
        self.bound = Some(BoundState {
            conversion: input.conversion("resample")?,
            resamplers,
            ratio,
            dtype,
            stream,
            max_samples: i64::try_from(max_samples.max(1)).unwrap_or(i64::MAX),
            begun: false,
            after_removal: false,
            next: i64::MIN,
            skips_result: false,
        });
        let mut properties = OperatorProperties::new([PortType::Samples { dtype, stream }]);
        properties.ratio = Some((ratio.up(), ratio.down()));
        // Results come late, but have the times of their samples.
        properties.delay = after.cast_signed();
        Ok(properties
            .cost_ns(6.0)
            .contract(Contract::Overlap { before, after }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let (Item::Samples(samples), Some(bound)) = (&*item, &mut self.bound) else {
            return Err(OpErrorKind::WrongItem {
                expected: "samples",
                got: item.kind(),
            }
            .into());
        };
        let mut samples = samples.materialise()?;
        if !bound.begun {
            bound.begin(samples.start(), out)?;
        }
        while samples.len() > bound.max_samples.unsigned_abs() {
            let piece = samples.split_front(samples.start() + bound.max_samples)?;
            if let Some(results) = bound.compute(Some(&piece), out)? {
                out.emit(0, &mut results.into())?;
            }
        }
        match bound.compute(Some(&samples), out)? {
            Some(results) => {
                *item = results.into();
                Ok(Next::Forward)
            }
            None => Ok(Next::Consumed),
        }
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        bound.end(out)?;
        bound.after_removal = *why == Break::Removed;
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.bound.as_mut().map_or(Ok(()), |bound| bound.end(out))
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let Some(bound) = &self.bound else {
            return i64::MIN;
        };
        let upto = bound.ratio.first_from(upto).unwrap_or(i64::MIN);
        match bound.begun {
            true => with_resamplers!(&bound.resamplers, resamplers => resamplers.first().next())
                .min(upto),
            false => upto,
        }
    }
}
