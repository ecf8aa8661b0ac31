//! Samples of a stream that may be cut within them.

use crate::BytesError;

pub(crate) const DTYPES: &str = "one of i1 i2 i4 i8 u1 u2 u4 f4 f8, with < or > before it";

const WIDEST: usize = 8;

/// The beginning of a sample that continues in the next buffer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragment {
    bytes: [u8; WIDEST],
    have: usize,
}

pub(crate) struct CompletedSamples<'a> {
    /// The one that began in the previous buffer.
    pub(crate) first: Option<[u8; WIDEST]>,
    /// Whole samples.
    pub(crate) whole: &'a [u8],
}

impl Fragment {
    /// Bytes present.
    pub(crate) fn len(&self) -> usize {
        self.have
    }

    /// Keeps an incomplete last sample of `size` bytes.
    pub(crate) fn take<'a>(&mut self, bytes: &'a [u8], size: usize) -> CompletedSamples<'a> {
        let mut rest = bytes;
        let mut first = None;
        if self.have > 0 {
            let (head, tail) = rest.split_at((size - self.have).min(rest.len()));
            self.bytes[self.have..][..head.len()].copy_from_slice(head);
            self.have += head.len();
            rest = tail;
            if self.have < size {
                return CompletedSamples { first, whole: rest };
            }
            first = Some(self.bytes);
            self.have = 0;
        }
        let (whole, tail) = rest.split_at(rest.len() - rest.len() % size);
        self.bytes[..tail.len()].copy_from_slice(tail);
        self.have = tail.len();
        CompletedSamples { first, whole }
    }

    /// Checks that the stream does not end within a sample.
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

pub(crate) fn round_up(offset: u64, grain: u64) -> u64 {
    // No stream reaches 2^64.
    offset.next_multiple_of(grain)
}

pub(crate) fn round_down(offset: u64, grain: u64) -> u64 {
    offset - offset % grain
}

/// All samples are whole.
pub(crate) fn reverse_each(bytes: &mut [u8], size: usize) {
    let swapped = isochrony_dsp::convert::swap_bytes(bytes, size);
    debug_assert!(swapped.is_ok(), "{} bytes of {size} each", bytes.len());
}
