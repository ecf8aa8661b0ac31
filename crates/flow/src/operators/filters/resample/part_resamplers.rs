//! Resamplers over segments: values in their unit a tile at a time, complex samples part by part, in either precision.

use isochrony_dsp::DspError;
use isochrony_dsp::resample::Resampler;
use isochrony_dsp::spectrum::Precision;
use isochrony_segment::SigSeg;

use crate::operators::general::compiled::Compiled;
use crate::{Item, OpError, OpErrorKind};

/// Samples that are computed at a time where they are no numbers of the filter's precision.
const TILE: usize = 2048;

/// Resamplers in one of the precisions.
pub(super) enum Kernels {
    Single(Parts<f32>),
    Double(Parts<f64>),
}

/// Does the same in either precision.
macro_rules! either {
    ($kernels:expr, $parts:ident => $does:expr) => {
        match $kernels {
            Kernels::Single($parts) => $does,
            Kernels::Double($parts) => $does,
        }
    };
}
pub(super) use either;

/// A resampler for each part of a number, in step, and memory for a tile.
pub(super) struct Parts<T> {
    kernels: Vec<Resampler<T>>,
    /// Values that had to be computed.
    values: Vec<T>,
    /// One part of complex values, and its results.
    part: Vec<T>,
    made: Vec<T>,
}

impl<T: Precision> Parts<T> {
    pub(super) fn new(one: Resampler<T>, parts: usize) -> Self {
        Self {
            kernels: vec![one; parts],
            values: vec![T::zero(); parts * TILE],
            part: Vec::new(),
            made: Vec::new(),
        }
    }

    /// The first of them, which all others are in step with.
    pub(super) fn one(&self) -> &Resampler<T> {
        &self.kernels[0]
    }

    pub(super) fn begin(&mut self, start: i64) -> Result<i64, DspError> {
        let mut kernels = self.kernels.iter_mut();
        kernels.try_fold(start, |_, kernel| kernel.begin(start))
    }

    pub(super) fn bytes(&self) -> usize {
        let own = [&self.values, &self.part, &self.made];
        let own: usize = own.iter().map(|own| size_of_val(&own[..])).sum();
        own + self.kernels.iter().map(Resampler::bytes).sum::<usize>()
    }

    /// Takes the samples of a segment in one piece; gives all results that are ready then.
    pub(super) fn run(
        &mut self,
        samples: &SigSeg,
        converted: Option<&mut Compiled>,
        mut results: &mut [T],
    ) -> Result<(), OpError> {
        let parts = self.kernels.len();
        let len = samples.len() as usize;
        let Some(converted) = converted else {
            let bytes = samples.buffers().next().map(|buffer| buffer.bytes());
            // Alignment is the segment's promise.
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
        for from in (0..len).step_by(TILE) {
            let to = len.min(from + TILE);
            let at = |k: usize| samples.start().saturating_add_unsigned(k as u64);
            let tile = &mut values[..parts * (to - from)];
            let some = Item::Samples(samples.subseg(at(from)..at(to))?);
            converted.run_items([&some], bytemuck::cast_slice_mut(tile))?;
            let ready = parts * self.one().ready(to - from);
            let (now, rest) = results.split_at_mut(ready);
            self.resample(tile, now)?;
            results = rest;
        }
        self.values = values;
        Ok(())
    }

    fn resample(&mut self, values: &[T], results: &mut [T]) -> Result<(), OpError> {
        if let [kernel] = &mut self.kernels[..] {
            return kernel.process(values, results).map_err(failed);
        }
        let parts = self.kernels.len();
        self.part.resize(values.len() / parts, T::zero());
        self.made.resize(results.len() / parts, T::zero());
        for (k, kernel) in self.kernels.iter_mut().enumerate() {
            let one = values.iter().skip(k).step_by(parts);
            self.part
                .iter_mut()
                .zip(one)
                .for_each(|(to, from)| *to = *from);
            kernel.process(&self.part, &mut self.made).map_err(failed)?;
            let one = results.iter_mut().skip(k).step_by(parts);
            one.zip(&self.made).for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }

    /// The results that are left at the end of a stretch.
    pub(super) fn finish(&mut self, results: &mut [T]) -> Result<(), OpError> {
        let parts = self.kernels.len();
        if let [kernel] = &mut self.kernels[..] {
            return kernel.finish(results).map_err(failed);
        }
        self.made.resize(results.len() / parts, T::zero());
        for (k, kernel) in self.kernels.iter_mut().enumerate() {
            kernel.finish(&mut self.made).map_err(failed)?;
            let one = results.iter_mut().skip(k).step_by(parts);
            one.zip(&self.made).for_each(|(to, from)| *to = *from);
        }
        Ok(())
    }
}

/// A resampler's error as an operator's.
pub(super) fn failed(error: DspError) -> OpError {
    OpErrorKind::Failed(Box::new(error)).into()
}
