//! Samples in a stream that may be cut through them.

use crate::BytesError;

/// Largest size of a sample.
const WIDEST: usize = 8;

/// The bytes of a sample of which the rest is still to come.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragment {
    bytes: [u8; WIDEST],
    have: usize,
}

/// What one buffer adds to the samples of a stream.
pub(crate) struct Cut<'a> {
    /// A sample that the buffer completes.
    pub(crate) first: Option<[u8; WIDEST]>,
    /// Whole samples.
    pub(crate) whole: &'a [u8],
}

impl Fragment {
    /// Bytes that there are.
    pub(crate) fn len(&self) -> usize {
        self.have
    }

    /// Takes the next bytes of the stream; keeps those of an incomplete last sample of `size` bytes.
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8], size: usize) -> Cut<'a> {
        let mut rest = bytes;
        let mut first = None;
        if self.have > 0 {
            let (head, tail) = rest.split_at((size - self.have).min(rest.len()));
            self.bytes[self.have..][..head.len()].copy_from_slice(head);
            self.have += head.len();
            rest = tail;
            if self.have < size {
                return Cut { first, whole: rest };
            }
            first = Some(self.bytes);
            self.have = 0;
        }
        let (whole, tail) = rest.split_at(rest.len() - rest.len() % size);
        self.bytes[..tail.len()].copy_from_slice(tail);
        self.have = tail.len();
        Cut { first, whole }
    }

    /// At the stream's end: that it does not end inside a sample.
    pub(crate) fn finish(
        &self,
        processor: &'static str,
        end: u64,
        size: usize,
    ) -> Result<(), BytesError> {
        if self.have == 0 {
            return Ok(());
        }
        Err(BytesError::PartialSample {
            processor,
            offset: end - self.have as u64,
            bytes: self.have,
            size,
        })
    }
}

/// The next multiple of `grain` at or after `offset`.
pub(crate) fn round_up(offset: u64, grain: u64) -> u64 {
    // Beyond 2^64 there is no stream.
    offset.next_multiple_of(grain)
}

/// The last multiple of `grain` at or before `offset`.
pub(crate) fn round_down(offset: u64, grain: u64) -> u64 {
    offset - offset % grain
}

/// Reverses the bytes of every sample; there are only whole ones.
pub(crate) fn reverse_each(bytes: &mut [u8], size: usize) {
    let swapped = isochrony_dsp::convert::swap_bytes(bytes, size);
    debug_assert!(swapped.is_ok(), "{} bytes of {size} each", bytes.len());
}
