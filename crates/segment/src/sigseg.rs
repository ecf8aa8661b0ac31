//! The signal segment.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use crate::{Buffer, BufferMut, DType, Sample, SegmentError, Stream, StreamId, dispatch};

/// Samples of one stream at consecutive indices, shared by reference count.
///
/// One cache line in size; cloning, slicing and creating one of a single buffer allocate nothing.
#[derive(Clone)]
pub struct SigSeg {
    /// In index order; none is empty, and none continues its predecessor in memory.
    pieces: SmallVec<[Buffer; 1]>,
    start: i64,
    len: u64,
    stream: StreamId,
    dtype: DType,
}

/// Samples of an unaligned piece are copied through a block of this many values on the stack.
const BLOCK: usize = 256;

impl SigSeg {
    /// A segment over all of a buffer, whose bytes are samples in native byte order.
    ///
    /// # Errors
    /// [`SegmentError::PartialSample`] if the bytes are no whole number of samples,
    /// [`SegmentError::IndexOverflow`] if the segment would end beyond `i64::MAX`.
    pub fn new(
        buffer: Buffer,
        start: i64,
        dtype: DType,
        stream: StreamId,
    ) -> Result<Self, SegmentError> {
        let bytes = buffer.len();
        if !bytes.is_multiple_of(dtype.size()) {
            return Err(SegmentError::PartialSample { bytes, dtype });
        }
        let len = (bytes / dtype.size()) as u64;
        if start.checked_add_unsigned(len).is_none() {
            return Err(SegmentError::IndexOverflow { start, len });
        }
        let mut pieces = SmallVec::new();
        if len > 0 {
            pieces.push(buffer);
        }
        Ok(Self {
            pieces,
            start,
            len,
            stream,
            dtype,
        })
    }

    /// A segment of no samples at index `start`.
    #[must_use]
    pub fn empty(start: i64, dtype: DType, stream: StreamId) -> Self {
        Self {
            pieces: SmallVec::new(),
            start,
            len: 0,
            stream,
            dtype,
        }
    }

    /// A segment that owns a copy of samples.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`], [`SegmentError::IndexOverflow`].
    pub fn from_slice<T: Sample>(
        samples: &[T],
        start: i64,
        stream: StreamId,
    ) -> Result<Self, SegmentError> {
        Self::new(Buffer::copy_of(samples)?, start, T::DTYPE, stream)
    }

    /// Index of the first sample.
    #[must_use]
    pub fn start(&self) -> i64 {
        self.start
    }

    /// Index after the last sample.
    #[must_use]
    pub fn end(&self) -> i64 {
        // Cannot wrap: every constructor checked it.
        self.start.wrapping_add_unsigned(self.len)
    }

    /// Indices of the samples.
    #[must_use]
    pub fn range(&self) -> Range<i64> {
        self.start..self.end()
    }

    /// Number of samples.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no samples.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Type of the samples.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Id of the stream.
    #[must_use]
    pub fn stream_id(&self) -> StreamId {
        self.stream
    }

    /// Name, timebase, rate and calibration.
    #[must_use]
    pub fn stream(&self) -> &'static Stream {
        self.stream.get()
    }

    /// The same samples as part of another stream or at another index, as an operator's output.
    ///
    /// # Errors
    /// [`SegmentError::IndexOverflow`].
    pub fn relabelled(mut self, start: i64, stream: StreamId) -> Result<Self, SegmentError> {
        if start.checked_add_unsigned(self.len).is_none() {
            return Err(SegmentError::IndexOverflow {
                start,
                len: self.len,
            });
        }
        self.start = start;
        self.stream = stream;
        Ok(self)
    }

    /// The samples with the indices in `range`; copies nothing.
    ///
    /// # Errors
    /// [`SegmentError::OutOfRange`] if `range` is reversed or not within the segment.
    pub fn subseg(&self, range: Range<i64>) -> Result<Self, SegmentError> {
        if range.start > range.end || range.start < self.start || range.end > self.end() {
            return Err(SegmentError::OutOfRange {
                stream: self.stream().name.clone(),
                start: range.start,
                end: range.end,
                have_start: self.start,
                have_end: self.end(),
            });
        }
        // Both offsets fit: the bytes of the whole segment are in memory or mapped.
        let size = self.dtype.size();
        let mut skip = range.start.abs_diff(self.start) as usize * size;
        let mut left = range.end.abs_diff(range.start) as usize * size;
        let mut pieces = SmallVec::new();
        for piece in &self.pieces {
            if left == 0 {
                break;
            }
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let take = left.min(piece.len() - skip);
            pieces.extend(piece.slice(skip..skip + take));
            skip = 0;
            left -= take;
        }
        Ok(Self {
            pieces,
            start: range.start,
            len: range.end.abs_diff(range.start),
            ..*self
        })
    }

    /// Joins `next`, which must start where this segment ends; copies no samples.
    ///
    /// Views that touch in memory become one again, so cutting and joining leaves no trace.
    ///
    /// # Errors
    /// [`SegmentError::StreamMismatch`], [`SegmentError::DTypeMismatch`],
    /// [`SegmentError::NotAdjacent`] naming both ends; this segment is then unchanged.
    pub fn append(&mut self, next: Self) -> Result<(), SegmentError> {
        if next.stream != self.stream {
            return Err(SegmentError::StreamMismatch {
                stream: self.stream().name.clone(),
                id: self.stream.as_u32(),
                next_stream: next.stream().name.clone(),
                next_id: next.stream.as_u32(),
            });
        }
        if next.dtype != self.dtype {
            return Err(SegmentError::DTypeMismatch {
                expected: self.dtype,
                got: next.dtype,
            });
        }
        if next.start != self.end() {
            return Err(SegmentError::NotAdjacent {
                stream: self.stream().name.clone(),
                end: self.end(),
                next_stream: next.stream().name.clone(),
                next_start: next.start,
            });
        }
        self.len += next.len;
        for piece in next.pieces {
            match self.pieces.last_mut() {
                None => self.pieces.push(piece),
                Some(last) => {
                    if let Err(piece) = last.try_join(piece) {
                        self.pieces.push(piece);
                    }
                }
            }
        }
        Ok(())
    }

    /// The buffers in index order, none of them empty; copies nothing.
    #[must_use]
    pub fn buffers(&self) -> Buffers<'_> {
        self.pieces.iter()
    }

    /// All samples as one slice, if they lie in one buffer, aligned, and are of type `T`.
    #[must_use]
    pub fn as_contiguous<T: Sample>(&self) -> Option<&[T]> {
        if T::DTYPE != self.dtype {
            return None;
        }
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [piece] => piece.samples(),
            _ => None,
        }
    }

    /// Whether all samples lie in one buffer and are aligned, so that a typed view needs no copy.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        dispatch!(self.dtype, T => self.as_contiguous::<T>().is_some())
    }

    /// The samples as one slice a buffer; only a buffer that is not aligned for `T` is copied.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`].
    pub fn as_slices<T: Sample>(&self) -> Result<Slices<'_, T>, SegmentError> {
        self.check::<T>()?;
        Ok(Slices {
            pieces: self.pieces.iter(),
            samples: std::marker::PhantomData,
        })
    }

    /// Calls `each` with all samples in order, in slices as long as the buffers allow; samples
    /// that are not aligned pass through a small block on the stack. Allocates nothing.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`].
    pub fn visit<T: Sample>(&self, mut each: impl FnMut(&[T])) -> Result<(), SegmentError> {
        self.check::<T>()?;
        for piece in &self.pieces {
            if let Some(samples) = piece.samples() {
                each(samples);
                continue;
            }
            let mut block = [T::Physical::default(); BLOCK];
            let block: &mut [T] = bytemuck::cast_slice_mut(&mut block);
            for bytes in piece.bytes().chunks(size_of_val(block)) {
                let block = &mut block[..bytes.len() / size_of::<T>()];
                bytemuck::cast_slice_mut(block).copy_from_slice(bytes);
                each(block);
            }
        }
        Ok(())
    }

    /// Copies the samples into `out`, which must be as long as the segment.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`]; [`SegmentError::OutOfRange`] if the lengths differ.
    pub fn copy_to<T: Sample>(&self, out: &mut [T]) -> Result<(), SegmentError> {
        self.check::<T>()?;
        if out.len() as u64 != self.len {
            return Err(SegmentError::OutOfRange {
                stream: self.stream().name.clone(),
                start: self.start,
                end: self.start.saturating_add_unsigned(out.len() as u64),
                have_start: self.start,
                have_end: self.end(),
            });
        }
        let mut rest: &mut [u8] = bytemuck::cast_slice_mut(out);
        for piece in &self.pieces {
            let (head, tail) = rest.split_at_mut(piece.len());
            head.copy_from_slice(piece.bytes());
            rest = tail;
        }
        Ok(())
    }

    /// The samples as a vector.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`].
    pub fn to_vec<T: Sample>(&self) -> Result<Vec<T>, SegmentError> {
        let mut samples = vec![T::default(); self.len as usize];
        self.copy_to(&mut samples)?;
        Ok(samples)
    }

    /// The same samples in one aligned buffer: itself if it is contiguous, else one copy.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn materialise(&self) -> Result<Self, SegmentError> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        let buffer = Buffer::concat(self.pieces.iter().map(Buffer::bytes))?;
        Self::new(buffer, self.start, self.dtype, self.stream)
    }

    /// The samples for writing. They are copied first if shared, mapped or scattered, so that
    /// other segments over the same memory keep what they see.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`], [`SegmentError::OutOfMemory`].
    pub fn make_mut<T: Sample>(&mut self) -> Result<&mut [T], SegmentError> {
        self.check::<T>()?;
        if !self.is_contiguous() {
            *self = self.materialise()?;
        }
        match self.pieces.first_mut() {
            // Aligned: materialised above, or aligned already; a copy is aligned anyway.
            Some(piece) => Ok(bytemuck::cast_slice_mut(piece.make_mut()?)),
            None => Ok(&mut []),
        }
    }

    /// The samples as values in the stream's unit, as f64 (complex128 for complex samples).
    ///
    /// Where the calibration is the identity, counts are values and this is a plain clone of
    /// whatever dtype; otherwise one copy.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn to_physical(&self) -> Result<Self, SegmentError> {
        let calibration = &self.stream().calibration;
        if calibration.is_identity() {
            return Ok(self.clone());
        }
        dispatch!(self.dtype, T => {
            type P = <T as Sample>::Physical;
            let mut memory = BufferMut::zeroed_samples::<P>(self.len as usize)?;
            let mut rest = memory.samples_mut::<P>();
            self.visit::<T>(|counts| {
                let (head, tail) = std::mem::take(&mut rest).split_at_mut(counts.len());
                calibration.apply(counts, head);
                rest = tail;
            })?;
            Self::new(memory.freeze(), self.start, P::DTYPE, self.stream.physical())
        })
    }

    fn check<T: Sample>(&self) -> Result<(), SegmentError> {
        if T::DTYPE == self.dtype {
            return Ok(());
        }
        Err(SegmentError::DTypeMismatch {
            expected: T::DTYPE,
            got: self.dtype,
        })
    }
}

impl fmt::Debug for SigSeg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigSeg")
            .field("stream", &self.stream().name)
            .field("range", &self.range())
            .field("dtype", &self.dtype)
            .field("pieces", &self.pieces)
            .finish()
    }
}

/// The buffers of a segment, in index order.
pub type Buffers<'a> = std::slice::Iter<'a, Buffer>;

/// The samples of a segment, one slice a buffer.
#[derive(Debug, Clone)]
pub struct Slices<'a, T> {
    pieces: Buffers<'a>,
    samples: std::marker::PhantomData<&'a T>,
}

impl<'a, T: Sample> Iterator for Slices<'a, T> {
    type Item = Cow<'a, [T]>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.pieces.next()?;
        Some(match piece.samples() {
            Some(samples) => Cow::Borrowed(samples),
            None => Cow::Owned(bytemuck::allocation::pod_collect_to_vec(piece.bytes())),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.pieces.size_hint()
    }
}

impl<T: Sample> ExactSizeIterator for Slices<'_, T> {}
