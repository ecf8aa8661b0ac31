//! CRC-32C in parts: combines the checksums of two consecutive ranges.
//!
//! A checksum is a remainder of polynomials over the field of two elements: that of a range with `n` more bytes is the
//! first times `x^(8n)`, plus the second (initial and final inversions cancel). The powers `x^(2^k)` are constants, so
//! a combination takes one product per set bit of the length. `crc32c_combine` squares matrices, which takes 20 us, a
//! tenth of scanning 4 MiB.

use crate::processor::{JoinOutcome, Needs, Output, Piece, Processor};
use crate::{BytesError, Digest, Outcome};

/// Up to this length, adding bytes is faster than combining.
const SHORT: usize = 1024;

/// The polynomial without its highest power; the highest bit is the lowest power.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// `x^(2^k)` for each bit of a length.
const POWERS: [u32; 67] = {
    let mut powers = [0; 67];
    powers[0] = 1 << 30;
    let mut k = 1;
    while k < powers.len() {
        powers[k] = multiply(powers[k - 1], powers[k - 1]);
        k += 1;
    }
    powers
};

/// The product modulo the polynomial.
const fn multiply(a: u32, mut b: u32) -> u32 {
    let mut product = 0;
    let mut power = 0;
    while power < 32 {
        // A branch would be mispredicted.
        product ^= b & (a >> (31 - power) & 1).wrapping_neg();
        b = (b >> 1) ^ (POLYNOMIAL & (b & 1).wrapping_neg());
        power += 1;
    }
    product
}

/// `second`: checksum of the `bytes` bytes that follow.
fn combine(mut first: u32, second: u32, bytes: u64) -> u32 {
    let mut rest = bytes;
    while rest != 0 {
        first = multiply(POWERS[rest.trailing_zeros() as usize + 3], first);
        rest &= rest - 1;
    }
    first ^ second
}

pub(super) struct Crc32c;

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
    ) -> Result<JoinOutcome, BytesError> {
        *state = if piece.bytes.len() < SHORT || part.bytes != piece.bytes.len() {
            crc32c::crc32c_append(*state, piece.bytes)
        } else {
            combine(*state, part.crc, part.bytes as u64)
        };
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, state: &mut u32, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        Ok(Outcome::Digest(Digest {
            bytes: state.to_be_bytes().to_vec(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks powers of `x` against ranges of zeros, appended byte by byte, and against the crate's matrices.
    #[test]
    fn combining_is_appending() {
        let zeros = vec![0; 1 << 17];
        for first in [0, 1, 0x8000_0000, 0xdead_beef] {
            for bytes in [0usize, 1, 2, 3, 255, 256, 4095, 100_001, 1 << 17] {
                let second = crc32c::crc32c(&zeros[..bytes]);
                let want = crc32c::crc32c_append(first, &zeros[..bytes]);
                assert_eq!(combine(first, second, bytes as u64), want, "{bytes}");
            }
            for bytes in [1usize << 20, (1 << 33) + 5, (1 << 50) - 1] {
                let want = crc32c::crc32c_combine(first, 0x1234_5678, bytes);
                assert_eq!(combine(first, 0x1234_5678, bytes as u64), want, "{bytes}");
            }
        }
    }
}
