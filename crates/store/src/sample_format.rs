//! Formats of stored samples that differ from the samples as read.
//!
//! Complex numbers as pairs of int16, from radio receivers, are stored as an int16 array with a last axis of two and
//! read as complex64, which is exact. Conversion ([`SampleFormat::decoded`]) is per chunk.

use std::fmt;
use std::str::FromStr;

use isochrony_segment::{Buffer, BufferMut, ByteOrder, Complex32, DType, SegmentError};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Format of stored samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleFormat {
    /// Stored as read.
    Plain(DType),
    /// Pairs of int16, real and imaginary, read as complex64.
    ComplexInt16,
}

impl SampleFormat {
    /// NumPy's name, or "complex_int16".
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain(dtype) => dtype.name(),
            Self::ComplexInt16 => "complex_int16",
        }
    }

    /// Type of samples as read.
    #[must_use]
    pub const fn dtype(self) -> DType {
        match self {
            Self::Plain(dtype) => dtype,
            Self::ComplexInt16 => DType::C64,
        }
    }

    /// Bytes per stored sample.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Plain(dtype) => dtype.size(),
            Self::ComplexInt16 => 4,
        }
    }

    /// Bytes per stored number, for byte swapping.
    #[must_use]
    pub const fn component_size(self) -> usize {
        match self {
            Self::Plain(dtype) => dtype.component_size(),
            Self::ComplexInt16 => 2,
        }
    }

    /// Whether reading needs no conversion.
    #[must_use]
    pub const fn is_plain(self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Whether samples of a type are written unconverted: the stored type, and for pairs their interleaved parts.
    #[must_use]
    pub fn takes(self, dtype: DType) -> bool {
        match self {
            Self::Plain(own) => own == dtype,
            Self::ComplexInt16 => dtype == DType::I16,
        }
    }

    pub(crate) fn shape(self, samples: u64) -> Vec<u64> {
        match self {
            Self::Plain(_) => vec![samples],
            Self::ComplexInt16 => vec![samples, 2],
        }
    }

    /// Only the first dimension is divided.
    pub(crate) fn place(self, chunk: u64) -> Vec<u64> {
        match self {
            Self::Plain(_) => vec![chunk],
            Self::ComplexInt16 => vec![chunk, 0],
        }
    }

    /// Converts stored samples to [`dtype`](Self::dtype), if needed.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn decoded(self, stored: Buffer) -> Result<Buffer, SegmentError> {
        Ok(self.decoded_copy(stored.bytes())?.unwrap_or(stored))
    }

    /// As [`decoded`](Self::decoded), from borrowed bytes; `None` if no conversion is needed.
    ///
    /// # Errors
    /// [`SegmentError::OutOfMemory`].
    pub fn decoded_copy(self, stored: &[u8]) -> Result<Option<Buffer>, SegmentError> {
        match self {
            Self::Plain(_) => Ok(None),
            Self::ComplexInt16 => {
                let mut memory = BufferMut::zeroed(2 * stored.len())?;
                pairs_to_complex(stored, memory.samples_mut());
                Ok(Some(memory.freeze()))
            }
        }
    }

    /// Parses a NumPy name ([`DType::parse`]), or int16 pairs: "complex_int16", "ci16", "ci16_le", "ci16_be", "cs16",
    /// "sc16".
    ///
    /// # Errors
    /// As [`DType::parse`]; [`SegmentError::UnsupportedComplex`] for other complex formats, such as "ci8".
    ///
    /// ```
    /// use isochrony_segment::{ByteOrder, DType};
    /// use isochrony_store::SampleFormat;
    /// assert_eq!(SampleFormat::parse("ci16_be")?, (SampleFormat::ComplexInt16, ByteOrder::Big));
    /// assert_eq!(SampleFormat::parse("int16")?.0, DType::I16.into());
    /// # Ok::<(), isochrony_segment::SegmentError>(())
    /// ```
    pub fn parse(text: &str) -> Result<(Self, ByteOrder), SegmentError> {
        let order = match text.trim() {
            "complex_int16" | "ci16" | "cs16" | "sc16" => ByteOrder::NATIVE,
            "ci16_le" => ByteOrder::Little,
            "ci16_be" => ByteOrder::Big,
            name => {
                let (dtype, order) = DType::parse(text).map_err(|error| match error {
                    SegmentError::UnknownDType { text } if is_complex_name(name) => {
                        SegmentError::UnsupportedComplex { text }
                    }
                    other => other,
                })?;
                return Ok((Self::Plain(dtype), order));
            }
        };
        Ok((Self::ComplexInt16, order))
    }
}

/// Names in other programs: "ci8", "cs8", "sc8", "cf32_le", "complex32".
fn is_complex_name(name: &str) -> bool {
    let name = name.trim_start_matches(['<', '>', '=']);
    let rest = ["complex_int", "complex", "ci", "cs", "cu", "cf", "sc", "c"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix));
    rest.is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}

fn pairs_to_complex(stored: &[u8], samples: &mut [Complex32]) {
    for (sample, pair) in samples.iter_mut().zip(stored.chunks_exact(4)) {
        let re = i16::from_ne_bytes([pair[0], pair[1]]);
        let im = i16::from_ne_bytes([pair[2], pair[3]]);
        *sample = Complex32::new(re.into(), im.into());
    }
}

impl From<DType> for SampleFormat {
    fn from(dtype: DType) -> Self {
        Self::Plain(dtype)
    }
}

impl fmt::Display for SampleFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for SampleFormat {
    type Err = SegmentError;

    fn from_str(text: &str) -> Result<Self, SegmentError> {
        Ok(Self::parse(text)?.0)
    }
}

/// Number in compact files, next to those of [`DType`].
const COMPLEX_INT16_NUMBER: u8 = 128;

impl Serialize for SampleFormat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Plain(dtype) => dtype.serialize(serializer),
            Self::ComplexInt16 if serializer.is_human_readable() => {
                serializer.serialize_str(self.name())
            }
            Self::ComplexInt16 => serializer.serialize_u8(COMPLEX_INT16_NUMBER),
        }
    }
}

impl<'de> Deserialize<'de> for SampleFormat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            return String::deserialize(deserializer)?
                .parse()
                .map_err(de::Error::custom);
        }
        match u8::deserialize(deserializer)? {
            COMPLEX_INT16_NUMBER => Ok(Self::ComplexInt16),
            number => match DType::ALL.get(usize::from(number)) {
                Some(&dtype) => Ok(Self::Plain(dtype)),
                None => Err(de::Error::custom(format_args!(
                    "no sample format has number {number}"
                ))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_read_as_complex_numbers() {
        let pairs = [[1i16, -2], [i16::MIN, i16::MAX], [0, 0]];
        let stored = Buffer::copy_of(pairs.as_flattened()).unwrap();
        let read = SampleFormat::ComplexInt16.decoded(stored).unwrap();
        let expected = pairs.map(|[re, im]| Complex32::new(re.into(), im.into()));
        assert_eq!(read.samples::<Complex32>().unwrap(), expected);
    }

    #[test]
    fn names_and_numbers_round_trip() {
        let all = DType::ALL
            .map(SampleFormat::Plain)
            .into_iter()
            .chain([SampleFormat::ComplexInt16]);
        for format in all {
            assert_eq!(format.name().parse(), Ok(format));
            let compact = postcard::to_allocvec(&format).unwrap();
            assert_eq!(postcard::from_bytes(&compact), Ok(format));
            let text = serde_json::to_string(&format).unwrap();
            assert_eq!(serde_json::from_str::<SampleFormat>(&text).unwrap(), format);
        }
        // Formats replace dtypes in files with the same encoding.
        for dtype in DType::ALL {
            let compact = postcard::to_allocvec(&dtype).unwrap();
            assert_eq!(
                postcard::to_allocvec(&SampleFormat::from(dtype)).unwrap(),
                compact
            );
        }
        assert_eq!("sc16".parse(), Ok(SampleFormat::ComplexInt16));
        for other in ["ci32", "ci8", "cs8_le", "complex32", "<c4", "cf16"] {
            let error = other.parse::<SampleFormat>().unwrap_err();
            assert_eq!(error.code(), "unsupported_complex", "{other}");
        }
        for none in ["csv", "complex", "c", "scale", "i3", "complexity2"] {
            let code = none.parse::<SampleFormat>().err().map(|error| error.code());
            assert_ne!(code, Some("unsupported_complex"), "{none}");
        }
        assert!(postcard::from_bytes::<SampleFormat>(&[100]).is_err());
    }
}
