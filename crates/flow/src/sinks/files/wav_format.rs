//! WAV sample encodings and headers.
//!
//! ```text
//! "RIFF" size "WAVE"
//! "JUNK" 28                    reserved for the sizes of a large file: then "ds64", and "RF64" instead of "RIFF"
//! "fmt " 16 | 18               format, channels, rate, bytes a second, bytes a frame, bits
//! "fact" 4                     frames, of floating-point samples
//! "LIST" "INFO" "INAM" "ICRD"  name of the signal, civil time of the first sample
//! "data" size                  samples, little-endian; one byte more where their number is odd
//! ```
//!
//! Sizes have 32 bits. Longer files are RF64 (EBU Tech 3306), with 64-bit sizes in the reserved chunk.

use isochrony_segment::DType;

/// Sample encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WavFormat {
    /// 8 bits, unsigned: 128 is zero.
    Int8,
    /// 16 bits.
    Int16,
    /// 24 bits.
    Int24,
    /// 32 bits.
    Int32,
    /// IEEE 32-bit float.
    Float32,
    /// IEEE 64-bit float.
    Float64,
}

impl WavFormat {
    /// Names and values.
    pub const ALL: [(&'static str, Self); 6] = [
        ("int8", Self::Int8),
        ("int16", Self::Int16),
        ("int24", Self::Int24),
        ("int32", Self::Int32),
        ("float32", Self::Float32),
        ("float64", Self::Float64),
    ];

    /// Format name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let own = Self::ALL.iter().find(|(_, format)| *format == self);
        own.map_or("int16", |(name, _)| name)
    }

    /// The format that holds all values of a dtype exactly.
    #[must_use]
    pub fn of(dtype: DType) -> Option<Self> {
        Some(match dtype {
            DType::I8 => Self::Int8,
            DType::I16 => Self::Int16,
            DType::U8 => Self::Int16,
            DType::U16 | DType::I32 => Self::Int32,
            DType::F32 => Self::Float32,
            DType::F64 => Self::Float64,
            DType::I64 | DType::U32 | DType::Bool | DType::C64 | DType::C128 => return None,
        })
    }

    /// Bytes per sample.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Int8 => 1,
            Self::Int16 => 2,
            Self::Int24 => 3,
            Self::Int32 | Self::Float32 => 4,
            Self::Float64 => 8,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::Float32 | Self::Float64)
    }

    /// Values from -2^k to 2^k - 1 fit.
    fn magnitude_bits(self) -> u32 {
        8 * self.size() as u32 - 1
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct OutOfRange {
    /// Among the samples passed in.
    pub(super) at: usize,
    pub(super) value: f64,
}

/// Integers keep their values in integer formats; for floats they are divided by full scale.
pub(super) fn encode(
    samples: &[u8],
    dtype: DType,
    format: WavFormat,
    out: &mut Vec<u8>,
) -> Result<(), OutOfRange> {
    macro_rules! ints {
        ($type:ty) => {{
            let values = samples.chunks_exact(size_of::<$type>());
            let values = values.map(|bytes| {
                let mut value = [0; size_of::<$type>()];
                value.copy_from_slice(bytes);
                i64::from(<$type>::from_ne_bytes(value))
            });
            encode_integers(values, 8 * size_of::<$type>() as u32 - 1, format, out)
        }};
    }
    macro_rules! floats {
        ($type:ty) => {{
            let values = samples.chunks_exact(size_of::<$type>());
            let values = values.map(|bytes| {
                let mut value = [0; size_of::<$type>()];
                value.copy_from_slice(bytes);
                f64::from(<$type>::from_ne_bytes(value))
            });
            encode_floats(values, format, out)
        }};
    }
    match dtype {
        DType::I8 => ints!(i8),
        DType::I16 => ints!(i16),
        DType::I32 => ints!(i32),
        DType::U8 => ints!(u8),
        DType::U16 => ints!(u16),
        DType::U32 => ints!(u32),
        DType::F32 => floats!(f32),
        DType::F64 => floats!(f64),
        // Refused by `accepts`.
        DType::I64 | DType::Bool | DType::C64 | DType::C128 => Ok(()),
    }
}

fn put_integer(value: i64, format: WavFormat, out: &mut Vec<u8>) {
    match format {
        WavFormat::Int8 => out.push((value + 128) as u8),
        _ => out.extend(&value.to_le_bytes()[..format.size()]),
    }
}

fn encode_integers(
    values: impl Iterator<Item = i64>,
    bits: u32,
    format: WavFormat,
    out: &mut Vec<u8>,
) -> Result<(), OutOfRange> {
    let scale = (0.5f64).powi(bits as i32);
    let most = 1i64 << format.magnitude_bits().min(62);
    for (at, value) in values.enumerate() {
        match format {
            WavFormat::Float32 => out.extend(((value as f64 * scale) as f32).to_le_bytes()),
            WavFormat::Float64 => out.extend((value as f64 * scale).to_le_bytes()),
            _ if (-most..most).contains(&value) => put_integer(value, format, out),
            _ => {
                let value = value as f64;
                return Err(OutOfRange { at, value });
            }
        }
    }
    Ok(())
}

fn encode_floats(
    values: impl Iterator<Item = f64>,
    format: WavFormat,
    out: &mut Vec<u8>,
) -> Result<(), OutOfRange> {
    let most = (1i64 << format.magnitude_bits().min(62)) as f64;
    for (at, value) in values.enumerate() {
        match format {
            WavFormat::Float32 => out.extend((value as f32).to_le_bytes()),
            WavFormat::Float64 => out.extend(value.to_le_bytes()),
            // 1.0 becomes the greatest integer, 2^-k below full scale.
            _ if (-1.0..=1.0).contains(&value) => {
                put_integer(
                    (value * most).round_ties_even().min(most - 1.0) as i64,
                    format,
                    out,
                );
            }
            _ => return Err(OutOfRange { at, value }),
        }
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Header {
    pub(super) format: WavFormat,
    pub(super) channels: u16,
    pub(super) rate: u32,
    pub(super) name: String,
    pub(super) start_time: Option<String>,
}

/// Limit of 32-bit sizes, which exclude the first eight bytes.
pub(super) const MAX_RIFF_BYTES: u64 = u32::MAX as u64 + 8;

impl Header {
    pub(super) fn bytes(&self, data: u64, largest: u64) -> Vec<u8> {
        let mut chunks = Vec::new();
        let align = u64::from(self.channels) * self.format.size() as u64;
        let frames = data / align.max(1);
        let mut chunk = |name: &[u8; 4], content: &[u8]| {
            chunks.extend(name);
            chunks.extend((content.len() as u32).to_le_bytes());
            chunks.extend(content);
            if content.len() % 2 == 1 {
                chunks.push(0);
            }
        };
        let float = self.format.is_float();
        let mut format = Vec::new();
        format.extend((if float { 3u16 } else { 1 }).to_le_bytes());
        format.extend(self.channels.to_le_bytes());
        format.extend(self.rate.to_le_bytes());
        let a_second = u64::from(self.rate) * align;
        format.extend((a_second.min(u64::from(u32::MAX)) as u32).to_le_bytes());
        format.extend((align as u16).to_le_bytes());
        format.extend((8 * self.format.size() as u16).to_le_bytes());
        if float {
            // Size of the extension, required in non-integer formats.
            format.extend([0, 0]);
        }
        chunk(b"fmt ", &format);
        if float {
            let frames = frames.min(u64::from(u32::MAX)) as u32;
            chunk(b"fact", &frames.to_le_bytes());
        }
        let mut info = b"INFO".to_vec();
        let texts = [
            (b"INAM", Some(&self.name)),
            (b"ICRD", self.start_time.as_ref()),
        ];
        for (name, text) in texts {
            let Some(text) = text.filter(|text| !text.is_empty()) else {
                continue;
            };
            // Zero-terminated, of even length.
            let mut text: Vec<u8> = text.bytes().chain([0]).collect();
            text.resize(text.len().next_multiple_of(2), 0);
            info.extend(name);
            info.extend((text.len() as u32).to_le_bytes());
            info.extend(text);
        }
        chunk(b"LIST", &info);
        let before = 12 + 8 + 28 + chunks.len() as u64 + 8;
        let all = before + data + data % 2;
        let large = all > largest;
        let size = |size: u64| if large { u32::MAX } else { size as u32 }.to_le_bytes();
        let mut out = Vec::with_capacity(before as usize);
        out.extend(if large { b"RF64" } else { b"RIFF" });
        out.extend(size(all - 8));
        out.extend(b"WAVE");
        out.extend(if large { b"ds64" } else { b"JUNK" });
        out.extend(28u32.to_le_bytes());
        let sizes = [all - 8, data, frames];
        for number in sizes.map(|number| if large { number } else { 0 }) {
            out.extend(number.to_le_bytes());
        }
        // No table of other large chunks.
        out.extend([0; 4]);
        out.extend(chunks);
        out.extend(b"data");
        out.extend(size(data));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded<T: bytemuck::Pod>(
        samples: &[T],
        dtype: DType,
        format: WavFormat,
    ) -> Result<Vec<u8>, OutOfRange> {
        let mut out = Vec::new();
        encode(bytemuck::cast_slice(samples), dtype, format, &mut out).map(|()| out)
    }

    #[test]
    fn integers_keep_their_values_and_floats_are_relative_to_full_scale() {
        let twos = encoded(
            &[1i32, -2, 8_388_607, -8_388_608],
            DType::I32,
            WavFormat::Int24,
        );
        assert_eq!(
            twos.unwrap(),
            [1, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0x80]
        );
        assert_eq!(
            encoded(&[-128i8, 0, 127], DType::I8, WavFormat::Int8).unwrap(),
            [0, 128, 255]
        );
        let halves = encoded(&[0.5f32, -1.0, 1.0], DType::F32, WavFormat::Int16).unwrap();
        assert_eq!(halves, [0, 0x40, 0, 0x80, 0xff, 0x7f]);
        let singles = encoded(&[16384i16, -32768], DType::I16, WavFormat::Float32).unwrap();
        assert_eq!(
            bytemuck::pod_collect_to_vec::<u8, f32>(&singles),
            [0.5, -1.0]
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let unfit = encoded(&[0i32, 40_000], DType::I32, WavFormat::Int16).unwrap_err();
        assert_eq!((unfit.at, unfit.value), (1, 40_000.0));
        assert!(encoded(&[1.5f32], DType::F32, WavFormat::Int16).is_err());
        assert!(encoded(&[f64::NAN], DType::F64, WavFormat::Int32).is_err());
        assert!(encoded(&[f64::NAN], DType::F64, WavFormat::Float32).is_ok());
    }

    fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
        let bytes = bytes[at..at + size].iter().rev();
        bytes.fold(0, |sum, &byte| sum << 8 | u64::from(byte))
    }

    #[test]
    fn sizes_beyond_32_bits_are_in_64() {
        let header = Header {
            format: WavFormat::Int24,
            channels: 2,
            rate: 48_000,
            name: "mic".into(),
            start_time: Some("2026-01-01T00:00:00Z".into()),
        };
        let small = header.bytes(600, MAX_RIFF_BYTES);
        assert_eq!(&small[..4], b"RIFF");
        assert_eq!(number(&small, 4, 4), small.len() as u64 + 600 - 8);
        assert_eq!(&small[12..16], b"JUNK");
        let data = 5 * 3600 * 48_000 * 6;
        let large = header.bytes(data, MAX_RIFF_BYTES);
        assert_eq!(large.len(), small.len());
        assert_eq!(
            (&large[..4], &large[12..16]),
            (b"RF64".as_slice(), b"ds64".as_slice())
        );
        assert_eq!(
            (number(&large, 4, 4), number(&large, 16, 4)),
            (0xffff_ffff, 28)
        );
        assert_eq!(number(&large, 20, 8), large.len() as u64 + data - 8);
        assert_eq!(
            (number(&large, 28, 8), number(&large, 36, 8)),
            (data, data / 6)
        );
        assert_eq!(number(&large, large.len() - 4, 4), 0xffff_ffff);
        let most = MAX_RIFF_BYTES - small.len() as u64;
        assert_eq!(&header.bytes(most - 1, MAX_RIFF_BYTES)[..4], b"RIFF");
        assert_eq!(&header.bytes(most + 2, MAX_RIFF_BYTES)[..4], b"RF64");
    }
}
