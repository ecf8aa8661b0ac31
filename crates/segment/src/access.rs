//! Typed access to samples: in place, in pieces, as a copy, calibrated.

use std::borrow::Cow;

use crate::{Buffer, BufferMut, Buffers, Sample, SegmentError, SigSeg, dispatch};

/// Samples of a stack block, for unaligned pieces.
const BLOCK: usize = 256;

impl SigSeg {
    /// All samples as one slice, if they are of type `T`, aligned, and in one buffer.
    #[must_use]
    pub fn as_contiguous<T: Sample>(&self) -> Option<&[T]> {
        if T::DTYPE != self.dtype() {
            return None;
        }
        match self.pieces.as_slice() {
            [] => Some(&[]),
            [piece] => piece.samples(),
            _ => None,
        }
    }

    /// Whether all samples are aligned and in one buffer: a typed view needs no copy.
    #[must_use]
    pub fn is_contiguous(&self) -> bool {
        dispatch!(self.dtype(), T => self.as_contiguous::<T>().is_some())
    }

    /// One slice per buffer; only unaligned buffers are copied.
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

    /// Calls `each` with all samples in order. Allocates nothing: unaligned samples pass through a stack block.
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

    /// Copies the samples into `out`, which must have the segment's length.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`]; [`SegmentError::OutOfRange`] if the lengths differ.
    pub fn copy_to<T: Sample>(&self, out: &mut [T]) -> Result<(), SegmentError> {
        self.check::<T>()?;
        if out.len() as u64 != self.len() {
            return Err(SegmentError::OutOfRange {
                stream: self.stream().name.clone(),
                start: self.start(),
                end: self.start().saturating_add_unsigned(out.len() as u64),
                have_start: self.start(),
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

    /// Copies the samples to a vector.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`].
    pub fn to_vec<T: Sample>(&self) -> Result<Vec<T>, SegmentError> {
        let mut samples = vec![T::default(); self.len() as usize];
        self.copy_to(&mut samples)?;
        Ok(samples)
    }

    /// The samples in one aligned buffer, copied unless contiguous.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn materialise(&self) -> Result<Self, SegmentError> {
        if self.is_contiguous() {
            return Ok(self.clone());
        }
        let buffer = Buffer::concat(self.pieces.iter().map(Buffer::bytes))?;
        Self::new(buffer, self.start(), self.dtype(), self.stream_id())
    }

    /// The samples for writing; copied first if shared, mapped or scattered.
    ///
    /// # Errors
    /// [`SegmentError::DTypeMismatch`], [`SegmentError::OutOfMemory`].
    pub fn make_mut<T: Sample>(&mut self) -> Result<&mut [T], SegmentError> {
        self.check::<T>()?;
        if !self.is_contiguous() {
            *self = self.materialise()?;
        }
        match self.pieces.first_mut() {
            // Aligned: checked or materialised above, or a copy.
            Some(piece) => Ok(bytemuck::cast_slice_mut(piece.make_mut()?)),
            None => Ok(&mut []),
        }
    }

    /// The samples in the stream's unit, as f64 or complex128.
    ///
    /// With an identity calibration, a clone of the original dtype.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn to_physical(&self) -> Result<Self, SegmentError> {
        let calibration = &self.stream().calibration;
        if calibration.is_identity() {
            return Ok(self.clone());
        }
        dispatch!(self.dtype(), T => {
            type P = <T as Sample>::Physical;
            let mut memory = BufferMut::zeroed_samples::<P>(self.len() as usize)?;
            let mut rest = memory.samples_mut::<P>();
            self.visit::<T>(|counts| {
                let (head, tail) = std::mem::take(&mut rest).split_at_mut(counts.len());
                calibration.apply(counts, head);
                rest = tail;
            })?;
            Self::new(memory.freeze(), self.start(), P::DTYPE, self.stream_id().physical())
        })
    }

    fn check<T: Sample>(&self) -> Result<(), SegmentError> {
        if T::DTYPE == self.dtype() {
            return Ok(());
        }
        Err(SegmentError::DTypeMismatch {
            expected: T::DTYPE,
            got: self.dtype(),
        })
    }
}

/// Samples of a segment, one slice per buffer.
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
