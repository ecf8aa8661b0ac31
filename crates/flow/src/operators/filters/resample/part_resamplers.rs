//! Resamples segments in either precision, complex ones in parts.

use isochrony_dsp::DspError;
use isochrony_dsp::resample::Resampler;
use isochrony_dsp::spectrum::Precision;
use isochrony_segment::SigSeg;

use crate::operators::general::compiled::CompiledExpr;
use crate::{Item, OpError, OpErrorKind};

const TILE_VALUES: usize = 2048;

pub(super) enum Resamplers {
    Single(PartResamplers<f32>),
    Double(PartResamplers<f64>),
}

macro_rules! with_resamplers {
    ($resamplers:expr, $parts:ident => $does:expr) => {
        match $resamplers {
            Resamplers::Single($parts) => $does,
            Resamplers::Double($parts) => $does,
        }
    };
}
pub(super) use with_resamplers;

/// One per part of a number, all in step.
pub(super) struct PartResamplers<T> {
    resamplers: Vec<Resampler<T>>,
    values: Vec<T>,
    /// One part of complex values, and its results.
    part: Vec<T>,
    part_results: Vec<T>,
}

impl<T: Precision> PartResamplers<T> {
    pub(super) fn new(one: Resampler<T>, parts: usize) -> Self {
        Self {
            resamplers: vec![one; parts],
            values: vec![T::zero(); parts * TILE_VALUES],
            part: Vec::new(),
            part_results: Vec::new(),
        }
    }

    /// The others are in step.
    pub(super) fn first(&self) -> &Resampler<T> {
        &self.resamplers[0]
    }

    pub(super) fn begin(&mut self, start: i64) -> Result<i64, DspError> {
        let mut resamplers = self.resamplers.iter_mut();
        resamplers.try_fold(start, |_, resampler| resampler.begin(start))
    }

    pub(super) fn bytes(&self) -> usize {
        let own = [&self.values, &self.part, &self.part_results];
        let own: usize = own.iter().map(|own| size_of_val(&own[..])).sum();
        own + self.resamplers.iter().map(Resampler::bytes).sum::<usize>()
    }

    /// Takes a segment contiguous in memory; computes all results available.
    pub(super) fn run(
        &mut self,
        samples: &SigSeg,
        conversion: Option<&mut CompiledExpr>,
        mut results: &mut [T],
    ) -> Result<(), OpError> {
        let parts = self.resamplers.len();
        let len = samples.len() as usize;
        let Some(conversion) = conversion else {
            let bytes = samples.buffers().next().map(|buffer| buffer.bytes());
            // Segments are aligned.
            let own: &[T] = bytemuck::try_cast_slice(bytes.unwrap_or_default()).unwrap_or_default();
            if own.len() != parts * len {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples of the bound type",
                    got: "others",
                }
                .into());
            }
            return self.resample(own, results);
        };
        let mut values = std::mem::take(&mut self.values);
        for from in (0..len).step_by(TILE_VALUES) {
            let to = len.min(from + TILE_VALUES);
            let at = |k: usize| samples.start().saturating_add_unsigned(k as u64);
            let tile = &mut values[..parts * (to - from)];
            let some = Item::Samples(samples.subseg(at(from)..at(to))?);
            conversion.run_items([&some], bytemuck::cast_slice_mut(tile))?;
            let ready = parts * self.first().ready(to - from);
            let (now, rest) = results.split_at_mut(ready);
            self.resample(tile, now)?;
            results = rest;
        }
        self.values = values;
        Ok(())
    }

    fn resample(&mut self, values: &[T], results: &mut [T]) -> Result<(), OpError> {
        if let [resampler] = &mut self.resamplers[..] {
            return resampler.process(values, results).map_err(dsp_error);
        }
        let parts = self.resamplers.len();
        self.part.resize(values.len() / parts, T::zero());
        self.part_results.resize(results.len() / parts, T::zero());
        for (k, resampler) in self.resamplers.iter_mut().enumerate() {
            let one = values.iter().skip(k).step_by(parts);
            self.part
                .iter_mut()
                .zip(one)
                .for_each(|(to, from)| *to = *from);
            resampler
                .process(&self.part, &mut self.part_results)
                .map_err(dsp_error)?;
            let one = results.iter_mut().skip(k).step_by(parts);
            one.zip(&self.part_results)
                .for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, results: &mut [T]) -> Result<(), OpError> {
        let parts = self.resamplers.len();
        if let [resampler] = &mut self.resamplers[..] {
            return resampler.finish(results).map_err(dsp_error);
        }
        self.part_results.resize(results.len() / parts, T::zero());
        for (k, resampler) in self.resamplers.iter_mut().enumerate() {
            resampler
                .finish(&mut self.part_results)
                .map_err(dsp_error)?;
            let one = results.iter_mut().skip(k).step_by(parts);
            one.zip(&self.part_results)
                .for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }
}

pub(super) fn dsp_error(error: DspError) -> OpError {
    OpErrorKind::Failed(Box::new(error)).into()
}
