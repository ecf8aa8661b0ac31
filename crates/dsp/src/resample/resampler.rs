//! A chain of resampling stages.

use std::ops::Range;

use isochrony_time::Ratio;

use super::split::split;
use super::stage::Stage;
use super::{Edges, Quality};
use crate::DspError;
use crate::filter::parameter_error;
use crate::isa::Isa;
use crate::spectrum::Precision;

const BLOCK: usize = 2048;
const LEGAL_INDICES: Range<i64> = -(1 << 62)..1 << 62;

/// Resamples contiguous ranges, with state.
///
/// NaN and infinities affect the results within [`reach`](Self::reach).
///
/// ```
/// use isochrony_dsp::resample::{Edges, Quality, Ratio, Resampler};
///
/// let mut tenth = Resampler::new("decimate", Ratio::new(1, 10)?, Quality::default(), Edges::Steady)?;
/// let stretch = [3.0f64; 1005];
/// assert_eq!(tenth.begin(27)?, 3); // the first result lies at 30
/// let mut results = vec![0.0; tenth.ready(stretch.len())];
/// tenth.process(&stretch, &mut results)?;
/// let mut rest = vec![0.0; tenth.ready_at_end()];
/// tenth.finish(&mut rest)?;
/// results.extend(rest);
/// assert_eq!(results.len(), 101); // the last one lies at 1030
/// assert!(results.iter().all(|value| (value - 3.0).abs() < 1e-14));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Resampler<T> {
    operator: &'static str,
    ratio: Ratio,
    edges: Edges,
    stages: Vec<Stage<T>>,
    between: [Vec<T>; 2],
    next: i64,
    end: i64,
    last: Option<T>,
}

impl<T: Precision> Resampler<T> {
    /// Call [`begin`](Self::begin) before the first range.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if a quality is out of range, or rates differ by more than 2^20.
    pub fn new(
        operator: &'static str,
        ratio: Ratio,
        quality: Quality,
        edges: Edges,
    ) -> Result<Self, DspError> {
        Self::on(Isa::best(), operator, ratio, quality, edges)
    }

    /// [`new`](Self::new) on an instruction set, for tests.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn on(
        isa: Isa,
        operator: &'static str,
        ratio: Ratio,
        quality: Quality,
        edges: Edges,
    ) -> Result<Self, DspError> {
        let stages = split(operator, ratio, quality)?;
        let stages = stages.iter().map(|spec| Stage::new(isa, operator, spec));
        let mut made = Self {
            operator,
            ratio,
            edges,
            stages: stages.collect::<Result<_, _>>()?,
            between: Default::default(),
            next: 0,
            end: 0,
            last: None,
        };
        made.begin(0)?;
        Ok(made)
    }

    /// Results per sample.
    #[must_use]
    pub fn ratio(&self) -> Ratio {
        self.ratio
    }

    /// Samples that a result needs before the one at or before its position, and behind that.
    #[must_use]
    pub fn reach(&self) -> (u64, u64) {
        let mut dense = 1.0;
        let (mut before, mut behind) = (0, 0);
        for (at, stage) in self.stages.iter().enumerate() {
            let (back, ahead) = stage.reach();
            let back = back + u64::from(at > 0);
            before += (back as f64 / dense).ceil() as u64;
            behind += (ahead as f64 / dense).ceil() as u64;
            dense *= stage.ratio().to_f64();
        }
        (before, behind)
    }

    /// Bytes of buffers.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let between = self.between.iter().map(|between| size_of_val(&between[..]));
        self.stages.iter().map(Stage::bytes).chain(between).sum()
    }

    /// Index of the next result.
    #[must_use]
    pub fn next(&self) -> i64 {
        self.next
    }

    /// Starts a range, and returns the index of its first result, if it is long enough.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if an index, before or after resampling, is beyond 2^62.
    pub fn begin(&mut self, start: i64) -> Result<i64, DspError> {
        (self.end, self.last) = (start, None);
        let first = self.first(start).filter(|at| LEGAL_INDICES.contains(at));
        self.next = first.ok_or_else(|| {
            let allowed = format!("such that indices stay below 2^62, at index {start}");
            parameter_error(self.operator, "up/down", self.ratio.to_string(), allowed)
        })?;
        Ok(self.next)
    }

    fn first(&mut self, start: i64) -> Option<i64> {
        let mut first = Some(start);
        if self.edges != Edges::Inside {
            first = start.checked_sub_unsigned(self.reach().0);
        }
        for stage in &mut self.stages {
            first = stage.begin(first.filter(|at| LEGAL_INDICES.contains(at))?);
        }
        match (self.edges, self.stages.last_mut()) {
            (Edges::Inside, _) | (_, None) => first,
            (_, Some(last)) => last.seek(self.ratio.first_from(start)?),
        }
    }

    fn outside(&self, samples: usize) -> usize {
        let begins = self.last.is_none() && samples > 0 && self.edges != Edges::Inside;
        if begins { self.reach().0 as usize } else { 0 }
    }

    /// Results after `samples` more samples.
    #[must_use]
    pub fn ready(&self, samples: usize) -> usize {
        let samples = samples + self.outside(samples);
        let stages = self.stages.iter();
        stages.fold(samples, |samples, stage| stage.ready(samples))
    }

    /// Results left if the range ends now.
    #[must_use]
    pub fn ready_at_end(&self) -> usize {
        if self.edges == Edges::Inside || self.last.is_none() {
            return 0;
        }
        let behind = self.ratio.first_from(self.end).unwrap_or(i64::MAX);
        usize::try_from(behind.saturating_sub(self.next)).unwrap_or(0)
    }

    /// Computes the results that become [`ready`](Self::ready).
    ///
    /// # Errors
    /// [`DspError::OutputLength`] unless `output` has that length.
    pub fn process(&mut self, input: &[T], output: &mut [T]) -> Result<(), DspError> {
        self.fits(self.ready(input.len()), output.len())?;
        let (Some(&first), Some(&last)) = (input.first(), input.last()) else {
            return Ok(());
        };
        self.continued(first, self.outside(input.len()), &mut []);
        self.last = Some(last);
        self.end = self.end.saturating_add_unsigned(input.len() as u64);
        self.through(input, output);
        Ok(())
    }

    /// Computes the rest; then [`begin`](Self::begin) is needed.
    ///
    /// # Errors
    /// [`DspError::OutputLength`] unless `output` is as long as [`ready_at_end`](Self::ready_at_end).
    pub fn finish(&mut self, output: &mut [T]) -> Result<(), DspError> {
        self.fits(self.ready_at_end(), output.len())?;
        let last = self.last.take().filter(|_| !output.is_empty());
        if let (Some(last), true) = (last, self.edges != Edges::Inside) {
            self.continued(last, self.reach().1 as usize, output);
        }
        Ok(())
    }

    fn continued(&mut self, nearest: T, count: usize, mut output: &mut [T]) {
        let outside = match self.edges {
            Edges::Steady => nearest,
            Edges::Inside | Edges::Zeros => T::zero(),
        };
        let block = [outside; 256];
        let mut left = count;
        let until_full = !output.is_empty();
        while left > 0 && !(until_full && output.is_empty()) {
            let now = left.min(block.len());
            let results = self.through(&block[..now], output);
            output = &mut output[results..];
            left -= now;
        }
    }

    /// Returns the number of results.
    fn through(&mut self, input: &[T], output: &mut [T]) -> usize {
        let Some((last, others)) = self.stages.split_last_mut() else {
            return 0;
        };
        let mut done = 0;
        let block = if others.is_empty() {
            input.len()
        } else {
            BLOCK
        };
        for block in input.chunks(block.max(1)) {
            let [from, to] = &mut self.between;
            let mut input = block;
            for stage in &mut *others {
                to.resize(stage.ready(input.len()), T::zero());
                stage.process(input, to);
                std::mem::swap(from, to);
                input = &from[..];
            }
            let ready = last.ready(input.len()).min(output.len() - done);
            last.process(input, &mut output[done..done + ready]);
            done += ready;
        }
        self.next += done as i64;
        done
    }

    fn fits(&self, expected: usize, got: usize) -> Result<(), DspError> {
        if expected == got {
            return Ok(());
        }
        Err(DspError::OutputLength {
            operator: self.operator,
            expected,
            got,
        })
    }
}
