//! Length prefixes: fixed-size numbers, and varints as in protobuf.

use std::fmt;

/// protobuf's limit on a message: 2 GiB less one byte.
const PROTOBUF_MAX_LENGTH: u64 = (1 << 31) - 1;

/// A varint carries 7 bits per byte, so 64 bits take ten.
const MAX_VARINT_BYTES: usize = 10;

/// Length prefix of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    pub(crate) encoding: LengthEncoding,
    /// Largest legal length.
    max_length: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LengthEncoding {
    Fixed {
        bytes: usize,
        big_endian: bool,
    },
    /// Base 128, least significant 7 bits first; every byte but the last has its high bit set.
    Varint,
}

/// Why a prefix is refused.
#[allow(missing_docs)] // The messages document the fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrefixFault {
    /// Varint of more than ten bytes or 64 bits.
    Overlong,
    /// Length above the limit.
    AboveLimit { length: u64, max_length: u64 },
}

impl fmt::Display for PrefixFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlong => write!(
                f,
                "is not a varint of 64 bits; check that the stream has such prefixes and begins with one"
            ),
            Self::AboveLimit { length, max_length } => write!(
                f,
                "gives a length of {length} bytes, but max_length={max_length}; \
                 check the framing, or give a larger max_length"
            ),
        }
    }
}

impl Prefix {
    /// A number of 1, 2, 4 or 8 bytes, least significant first.
    #[must_use]
    pub fn little_endian(bytes: usize) -> Self {
        Self::fixed(bytes, false)
    }

    /// A number of 1, 2, 4 or 8 bytes, most significant first.
    #[must_use]
    pub fn big_endian(bytes: usize) -> Self {
        Self::fixed(bytes, true)
    }

    /// A varint of 1 to 10 bytes, as in delimited protobuf messages; up to 2 GiB - 1 without
    /// [`with_max_length`](Self::with_max_length).
    #[must_use]
    pub fn varint() -> Self {
        Self {
            encoding: LengthEncoding::Varint,
            max_length: PROTOBUF_MAX_LENGTH,
        }
    }

    /// Sets the largest legal length.
    #[must_use]
    pub fn with_max_length(self, max_length: u64) -> Self {
        Self { max_length, ..self }
    }

    fn fixed(bytes: usize, big_endian: bool) -> Self {
        Self {
            encoding: LengthEncoding::Fixed { bytes, big_endian },
            max_length: u64::MAX,
        }
    }

    pub(crate) fn min_bytes(self) -> usize {
        match self.encoding {
            LengthEncoding::Fixed { bytes, .. } => bytes,
            LengthEncoding::Varint => 1,
        }
    }

    /// Length of the first record, prefix included; saturates. None if the prefix is incomplete.
    pub(crate) fn record_length(self, bytes: &[u8]) -> Result<Option<u64>, PrefixFault> {
        let Some((length, prefix_bytes)) = self.read(bytes)? else {
            return Ok(None);
        };
        if length > self.max_length {
            let max_length = self.max_length;
            return Err(PrefixFault::AboveLimit { length, max_length });
        }
        Ok(Some(length.saturating_add(prefix_bytes as u64)))
    }

    fn read(self, bytes: &[u8]) -> Result<Option<(u64, usize)>, PrefixFault> {
        match self.encoding {
            LengthEncoding::Fixed {
                bytes: size,
                big_endian,
            } => Ok(bytes
                .get(..size)
                .map(|digits| (fixed_number(digits, big_endian), size))),
            LengthEncoding::Varint => varint(bytes),
        }
    }
}

fn fixed_number(digits: &[u8], big_endian: bool) -> u64 {
    let add = |value: u64, digit: &u8| value << 8 | u64::from(*digit);
    if big_endian {
        digits.iter().fold(0, add)
    } else {
        digits.iter().rev().fold(0, add)
    }
}

fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, PrefixFault> {
    let mut value = 0;
    for (at, byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        // The tenth byte has the last of 64 bits, and must be the last byte.
        if at + 1 == MAX_VARINT_BYTES && *byte > 1 {
            return Err(PrefixFault::Overlong);
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok(Some((value, at + 1)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_read_as_protobuf_specifies() {
        let read = |bytes: &[u8]| Prefix::varint().read(bytes);
        // Examples of protobuf's encoding documentation.
        assert_eq!(read(&[0x01]), Ok(Some((1, 1))));
        assert_eq!(read(&[0x96, 0x01]), Ok(Some((150, 2))));
        // An incomplete one, and redundant zeros.
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[0x96]), Ok(None));
        assert_eq!(read(&[0x80, 0x80, 0x00, 9]), Ok(Some((0, 3))));
        let mut largest = [0xff; 10];
        largest[9] = 1;
        assert_eq!(read(&largest), Ok(Some((u64::MAX, 10))));
        largest[9] = 2;
        assert_eq!(read(&largest), Err(PrefixFault::Overlong));
        assert_eq!(read(&[0x80; 9]), Ok(None));
        assert_eq!(read(&[0x80; 10]), Err(PrefixFault::Overlong));
    }

    #[test]
    fn a_length_above_the_limit_is_refused() {
        let prefix = Prefix::varint().with_max_length(149);
        let fault = PrefixFault::AboveLimit {
            length: 150,
            max_length: 149,
        };
        assert_eq!(prefix.record_length(&[0x96, 0x01]), Err(fault));
        assert_eq!(prefix.record_length(&[0x95, 0x01]), Ok(Some(151)));
        // protobuf's limit.
        let two_gib = [0x80, 0x80, 0x80, 0x80, 0x08];
        assert!(Prefix::varint().record_length(&two_gib).is_err());
        let less = [0xff, 0xff, 0xff, 0xff, 0x07];
        assert_eq!(
            Prefix::varint().record_length(&less),
            Ok(Some((1 << 31) - 1 + 5))
        );
    }
}
