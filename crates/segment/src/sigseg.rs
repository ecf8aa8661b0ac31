//! Signal segments: lists of buffers, sliced and joined without copying.

use std::fmt;
use std::ops::Range;

use smallvec::SmallVec;

use crate::{Buffer, DType, Sample, SegmentError, Stream, StreamId};

/// Samples of one stream at consecutive indices, reference-counted.
///
/// One cache line in size.
#[derive(Clone)]
pub struct SigSeg {
    /// In index order, none empty, none adjacent in memory to its predecessor.
    pub(crate) pieces: SmallVec<[Buffer; 1]>,
    start: i64,
    len: u64,
    stream: StreamId,
    dtype: DType,
}

impl SigSeg {
    /// A segment of a whole buffer, whose bytes are samples in native byte order.
    ///
    /// # Errors
    /// [`SegmentError::PartialSample`] if the bytes are not a whole number of samples, [`SegmentError::IndexOverflow`]
    /// if the segment would end beyond `i64::MAX`.
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

    /// An empty segment at index `start`.
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

    /// A segment with a copy of samples.
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
        // Cannot wrap: constructors check.
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

    /// The same samples in another stream or at another index.
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

    /// The samples with indices in `range`, without copying.
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
        // Both fit: the whole segment is in memory or mapped.
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

    /// Removes and returns the samples before index `at`, without copying; cheaper than two [`subseg`](Self::subseg)s.
    ///
    /// # Errors
    /// [`SegmentError::OutOfRange`] if `at` is not within the segment, which is then unchanged.
    pub fn split_front(&mut self, at: i64) -> Result<Self, SegmentError> {
        let front = self.subseg(self.start..at)?;
        let bytes = front.len as usize * self.dtype.size();
        match self.pieces.as_mut_slice() {
            // Shortens the view without counting references.
            [piece] if piece.len() > bytes => piece.advance(bytes),
            _ => {
                *self = self.subseg(at..self.end())?;
                return Ok(front);
            }
        }
        self.start = at;
        self.len -= front.len;
        Ok(front)
    }

    /// Appends `next`, which must start at this segment's end, without copying.
    ///
    /// Merges views adjacent in memory, so slicing and joining are inverse.
    ///
    /// # Errors
    /// [`SegmentError::StreamMismatch`], [`SegmentError::DTypeMismatch`], [`SegmentError::NotAdjacent`]; nothing
    /// changes.
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

    /// The buffers in index order, none empty.
    pub fn buffers(&self) -> Buffers<'_> {
        self.pieces.iter()
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
