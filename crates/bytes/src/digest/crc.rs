//! CRC-32C in parts: the checksum of two stretches from theirs and the second's length.

use crate::processor::{Joined, Needs, Output, Piece, Processor};
use crate::{BytesError, Digest, Outcome};

/// Bytes that are faster added than combined, which takes the time of a few thousand whatever the length.
const SHORT: usize = 4096;

pub(super) struct Crc32c;

/// Checksum of the buffer.
pub(super) struct Part {
    crc: u32,
    bytes: usize,
}

impl Processor for Crc32c {
    type Part = Part;
    type State = u32;

    fn needs(&self) -> Needs {
        Needs {
            scan: true,
            ..Needs::default()
        }
    }

    fn blockwise(&self) -> bool {
        true
    }

    fn part_bytes(&self, _buffer: usize) -> usize {
        size_of::<Part>()
    }

    fn state_bytes(&self) -> usize {
        size_of::<u32>()
    }

    fn part(&self) -> Part {
        Part { crc: 0, bytes: 0 }
    }

    fn state(&self) -> u32 {
        0
    }

    fn scan(
        &self,
        piece: Piece<'_>,
        first: bool,
        part: &mut Part,
        _out: &mut Output,
    ) -> Result<(), BytesError> {
        if first {
            *part = self.part();
        }
        part.crc = crc32c::crc32c_append(part.crc, piece.bytes);
        part.bytes += piece.bytes.len();
        Ok(())
    }

    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut Part,
        state: &mut u32,
        _out: &mut Output,
    ) -> Result<Joined, BytesError> {
        *state = if piece.bytes.len() < SHORT || part.bytes != piece.bytes.len() {
            crc32c::crc32c_append(*state, piece.bytes)
        } else {
            crc32c::crc32c_combine(*state, part.crc, part.bytes)
        };
        Ok(Joined::Done)
    }

    fn finish(&self, state: &mut u32, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        Ok(Outcome::Digest(Digest {
            bytes: state.to_be_bytes().to_vec(),
        }))
    }
}
