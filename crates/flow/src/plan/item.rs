//! Items that flow on an edge.
//!
//! Operators get items by `&mut`: one that keeps an item takes it, others copy nothing. Breaks are detected from each
//! item's first index and that of its continuation.

use std::ops::Range;

use isochrony_segment::{Buffer, DType, Sample, SegmentError, SigSeg, StreamId};
use isochrony_time::RunId;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::{PartialResult, Rows};

/// Input or output of an operator.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Item {
    /// Consecutive samples.
    Samples(SigSeg),
    /// Windows of samples, or one computed row each.
    Frames(Frames),
    /// Index ranges, such as detections.
    Ranges(Ranges),
    /// Rows of named fields.
    Rows(Rows),
    /// Partial result of a reducible operator for one task.
    Partial(PartialResult),
    /// Taken by an operator.
    Taken,
}

impl Item {
    /// First index, and that of a continuation.
    #[inline]
    #[must_use]
    pub fn extent(&self) -> Option<(i64, i64)> {
        match self {
            Self::Samples(samples) => Some((samples.start(), samples.end())),
            Self::Frames(frames) => Some((frames.start, frames.next_start())),
            Self::Rows(rows) => rows.extent(),
            Self::Ranges(_) | Self::Partial(_) | Self::Taken => None,
        }
    }

    /// Number of samples; overlapping windows count each once; 0 for ranges and rows.
    #[inline]
    #[must_use]
    pub fn samples(&self) -> u64 {
        match self {
            Self::Samples(samples) => samples.len(),
            Self::Frames(frames) => frames.count * frames.hop.min(frames.window),
            Self::Ranges(_) | Self::Rows(_) | Self::Partial(_) | Self::Taken => 0,
        }
    }

    /// Memory use, mapped or not.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Samples(samples) => samples.len() * samples.dtype().size() as u64,
            Self::Frames(frames) => frames.values.len() as u64,
            Self::Ranges(ranges) => 16 * ranges.ranges.len() as u64,
            Self::Rows(rows) => rows.bytes(),
            Self::Partial(partial) => partial.bytes(),
            Self::Taken => 0,
        }
    }

    /// From the first sample to the end of the last window.
    #[must_use]
    pub fn range(&self) -> Option<Range<i64>> {
        match self {
            Self::Samples(samples) => Some(samples.range()),
            Self::Frames(frames) => Some(frames.start..frames.end()),
            Self::Ranges(ranges) => {
                let first = ranges.ranges.first()?;
                Some(first.start..ranges.ranges.last()?.end)
            }
            Self::Rows(rows) => rows.covers(),
            Self::Partial(_) | Self::Taken => None,
        }
    }

    /// None without elements or indices.
    pub(crate) fn first_and_last_start(&self) -> Option<(i64, i64)> {
        match self {
            Self::Samples(samples) => {
                (!samples.is_empty()).then(|| (samples.start(), samples.end() - 1))
            }
            Self::Frames(frames) => {
                let last = frames.count.checked_sub(1)?;
                Some((frames.start, frames.window_start(last)))
            }
            Self::Ranges(ranges) => {
                let (first, last) = (ranges.ranges.first()?, ranges.ranges.last()?);
                Some((first.start, last.start))
            }
            Self::Rows(rows) => rows.first_and_last_start(),
            Self::Partial(_) | Self::Taken => None,
        }
    }

    /// Splits before an index after the first element's start and not after the last's.
    pub(crate) fn split_at(self, index: i64) -> Result<(Self, Self), SegmentError> {
        Ok(match self {
            Self::Samples(samples) => {
                let Range { start, end } = samples.range();
                let index = index.clamp(start, end);
                let before = samples.subseg(start..index)?;
                (before.into(), samples.subseg(index..end)?.into())
            }
            Self::Frames(frames) => {
                let before = frames.begin_before(index);
                let part = |range| frames.sub(range).map_or(Self::Taken, Self::Frames);
                (part(0..before), part(before..frames.count))
            }
            Self::Ranges(mut ranges) => {
                let starts = ranges.ranges.iter();
                let before = starts.take_while(|range| range.start < index).count();
                let after = ranges.ranges.drain(before..).collect();
                let after = Ranges {
                    stream: ranges.stream,
                    ranges: after,
                };
                (Self::Ranges(ranges), Self::Ranges(after))
            }
            Self::Rows(rows) => {
                let before = rows.begin_before(index);
                let (before, after) = rows.split(before);
                (before.into(), after.into())
            }
            other @ (Self::Partial(_) | Self::Taken) => (other, Self::Taken),
        })
    }

    pub(crate) fn part(&self, range: Range<i64>) -> Result<Option<Self>, SegmentError> {
        let Some((first, last)) = self.first_and_last_start() else {
            return Ok(None);
        };
        if last < range.start || first >= range.end {
            return Ok(None);
        }
        let mut part = self.clone();
        if last >= range.end {
            part = part.split_at(range.end)?.0;
        }
        if first < range.start {
            part = part.split_at(range.start)?.1;
        }
        Ok(part.first_and_last_start().map(|_| part))
    }

    /// Item kind, for errors.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Samples(_) => "samples",
            Self::Frames(_) => "frames",
            Self::Ranges(_) => "ranges",
            Self::Rows(_) => "rows",
            Self::Partial(_) => "a partial result",
            Self::Taken => "nothing",
        }
    }

    /// Takes the item, leaving [`Item::Taken`].
    #[must_use]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Taken)
    }
}

impl From<SigSeg> for Item {
    fn from(samples: SigSeg) -> Self {
        Self::Samples(samples)
    }
}

impl From<Rows> for Item {
    fn from(rows: Rows) -> Self {
        Self::Rows(rows)
    }
}

impl From<Frames> for Item {
    fn from(frames: Frames) -> Self {
        Self::Frames(frames)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FrameShape {
    start: i64,
    window: u64,
    hop: u64,
    count: u64,
    width: usize,
    stride: usize,
}

/// `count` windows of `window` samples every `hop`, the first at index `start`. Each has a row of `width` values in one
/// aligned buffer: its samples, shared with overlapping windows, or computed values.
#[derive(Debug, Clone)]
pub struct Frames {
    values: Buffer,
    dtype: DType,
    stream: StreamId,
    start: i64,
    window: u64,
    hop: u64,
    count: u64,
    width: usize,
    stride: usize,
}

impl Frames {
    /// Cuts `samples` into windows from the first sample; None if shorter than one. Copies samples that are not in one
    /// aligned buffer.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn windows(samples: &SigSeg, window: u64, hop: u64) -> Result<Option<Self>, SegmentError> {
        if window == 0 || hop == 0 || samples.len() < window {
            return Ok(None);
        }
        let count = (samples.len() - window) / hop + 1;
        let used = samples
            .start()
            .saturating_add_unsigned((count - 1) * hop + window);
        let samples = samples.subseg(samples.start()..used)?.materialise()?;
        let Some(values) = samples.buffers().next().cloned() else {
            return Ok(None);
        };
        Ok(Some(Self {
            values,
            dtype: samples.dtype(),
            stream: samples.stream_id(),
            start: samples.start(),
            window,
            hop,
            count,
            // Windows are in memory, so their lengths fit.
            width: window as usize,
            stride: hop as usize,
        }))
    }

    /// The same windows with computed rows. None unless `values` are `count * width` aligned values of `dtype`.
    #[must_use]
    pub fn with_rows(
        &self,
        values: Buffer,
        dtype: DType,
        width: usize,
        stream: StreamId,
    ) -> Option<Self> {
        let bytes = width
            .checked_mul(dtype.size())?
            .checked_mul(usize::try_from(self.count).ok()?)?;
        let aligned = values.as_ptr().addr().is_multiple_of(dtype.size().min(16));
        (values.len() == bytes && aligned && width > 0).then(|| Self {
            values,
            dtype,
            stream,
            width,
            stride: width,
            ..*self
        })
    }

    /// One window at `start`. None unless `values` are `width` aligned values of `dtype`.
    #[must_use]
    pub(crate) fn one_row(
        start: i64,
        window: u64,
        values: Buffer,
        dtype: DType,
        width: usize,
        stream: StreamId,
    ) -> Option<Self> {
        let shape = Self {
            values: values.clone(),
            dtype,
            stream,
            start,
            window,
            hop: window,
            count: 1,
            width,
            stride: width,
        };
        shape.with_rows(values, dtype, width, stream)
    }

    /// Computed rows of `width` values for windows of `window` samples every `hop`, the first at `start`. None unless
    /// `values` are whole aligned rows of `dtype`.
    #[must_use]
    pub fn computed(
        start: i64,
        (window, hop): (u64, u64),
        values: Buffer,
        dtype: DType,
        width: usize,
        stream: StreamId,
    ) -> Option<Self> {
        let row = width.checked_mul(dtype.size()).filter(|&row| row > 0)?;
        let shape = Self {
            values: values.clone(),
            dtype,
            stream,
            start,
            window,
            hop,
            count: (values.len() / row) as u64,
            width,
            stride: width,
        };
        shape.with_rows(values, dtype, width, stream)
    }

    /// One computed number per window. None unless `values` are aligned numbers of `dtype`.
    #[must_use]
    pub(crate) fn numbers_from(
        &self,
        start: i64,
        values: Buffer,
        dtype: DType,
        stream: StreamId,
    ) -> Option<Self> {
        let count = (values.len() / dtype.size()) as u64;
        Self {
            start,
            count,
            ..self.clone()
        }
        .with_rows(values, dtype, 1, stream)
    }

    /// None unless `values` are exactly aligned rows of this shape.
    #[must_use]
    pub(crate) fn of_parts(
        shape: FrameShape,
        values: Buffer,
        dtype: DType,
        stream: StreamId,
    ) -> Option<Self> {
        let FrameShape {
            start,
            window,
            hop,
            count,
            width,
            stride,
        } = shape;
        let rows = usize::try_from(count).ok()?.checked_sub(1)?;
        let used = rows.checked_mul(stride)?.checked_add(width)?;
        let span = (count - 1).checked_mul(hop)?.checked_add(window)?;
        start
            .checked_add_unsigned(span)?
            .checked_add_unsigned(hop)?;
        let fits = values.len() == used.checked_mul(dtype.size())?
            && values.as_ptr().addr().is_multiple_of(dtype.size().min(16));
        (fits && window > 0 && hop > 0 && width > 0 && stride > 0).then_some(Self {
            values,
            dtype,
            stream,
            start,
            window,
            hop,
            count,
            width,
            stride,
        })
    }

    pub(crate) fn shape(&self) -> FrameShape {
        FrameShape {
            start: self.start,
            window: self.window,
            hop: self.hop,
            count: self.count,
            width: self.width,
            stride: self.stride,
        }
    }

    /// First index of the first window.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.start
    }

    /// End index of the last window.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.window_start(self.count.saturating_sub(1))
            .saturating_add_unsigned(self.window)
    }

    /// Start index of the next window.
    #[inline]
    #[must_use]
    pub fn next_start(&self) -> i64 {
        self.start
            .wrapping_add_unsigned(self.count.wrapping_mul(self.hop))
    }

    /// Start index of window `k`.
    #[must_use]
    pub fn window_start(&self, k: u64) -> i64 {
        self.start.wrapping_add_unsigned(k.wrapping_mul(self.hop))
    }

    /// Window length in samples.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Samples between window starts.
    #[must_use]
    pub fn hop(&self) -> u64 {
        self.hop
    }

    /// Number of windows.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Values per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Values between row starts.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Type of the values.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Stream of the values.
    #[must_use]
    pub fn stream_id(&self) -> StreamId {
        self.stream
    }

    /// Buffer of all rows.
    #[must_use]
    pub fn buffer(&self) -> &Buffer {
        &self.values
    }

    /// All values; row `k` is `values[k * stride..][..width]`. None if not of type `T`.
    #[must_use]
    pub fn values<T: Sample>(&self) -> Option<&[T]> {
        if T::DTYPE != self.dtype {
            return None;
        }
        self.values.samples()
    }

    pub(crate) fn begin_before(&self, index: i64) -> u64 {
        let into = index.max(self.start).abs_diff(self.start);
        into.div_ceil(self.hop).min(self.count)
    }

    /// Windows `range`, from the first; None if empty or out of bounds.
    #[must_use]
    pub fn sub(&self, range: Range<u64>) -> Option<Self> {
        if range.start >= range.end || range.end > self.count {
            return None;
        }
        let size = self.dtype.size();
        let from = range.start as usize * self.stride * size;
        let to = ((range.end as usize - 1) * self.stride + self.width) * size;
        Some(Self {
            values: self.values.slice(from..to)?,
            start: self.window_start(range.start),
            count: range.end - range.start,
            ..*self
        })
    }
}

/// Index ranges of one stream, by start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranges {
    /// Stream of the indices.
    pub stream: StreamId,
    /// The ranges.
    pub ranges: SmallVec<[Range<i64>; 2]>,
}

/// Why the next item does not continue the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Break {
    /// No samples were recorded at these indices.
    Gap(Range<i64>),
    /// Clock set: the next item belongs to another run.
    ClockStep {
        /// Run before.
        old: RunId,
        /// Run after.
        new: RunId,
    },
    /// Samples lost, for example by an overloaded source.
    Dropped(Range<i64>),
    /// Samples removed by an operator; no gap in the recording.
    Removed,
    /// The next items lie before the last ones, as in a selection by civil time over a clock set back. The break of a
    /// gap or clock step there follows.
    Rewind,
}
