//! Element types and their notations.

use std::fmt;
use std::str::FromStr;

use crate::SegmentError;

/// Type of a sample. The order of declaration is part of compact file formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum DType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    F32,
    F64,
    C64,
    C128,
    U32,
}

/// Byte order of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// Order of this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    /// Whether it is that of this machine.
    #[must_use]
    pub fn is_native(self) -> bool {
        self == Self::NATIVE
    }
}

impl DType {
    /// All element types, in order of declaration.
    pub const ALL: [Self; 12] = [
        Self::Bool,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::F32,
        Self::F64,
        Self::C64,
        Self::C128,
        Self::U32,
    ];

    /// Bytes per sample.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::F64 | Self::C64 => 8,
            Self::C128 => 16,
        }
    }

    /// Alignment in bytes of a typed view: that of one component.
    #[must_use]
    pub const fn align(self) -> usize {
        match self {
            Self::Bool => align_of::<u8>(),
            Self::I8 => align_of::<i8>(),
            Self::I16 => align_of::<i16>(),
            Self::I32 => align_of::<i32>(),
            Self::I64 => align_of::<i64>(),
            Self::U8 => align_of::<u8>(),
            Self::U16 => align_of::<u16>(),
            Self::U32 => align_of::<u32>(),
            Self::F32 | Self::C64 => align_of::<f32>(),
            Self::F64 | Self::C128 => align_of::<f64>(),
        }
    }

    /// Bytes per component (half a sample if complex): the unit of byte swapping.
    #[must_use]
    pub const fn component_size(self) -> usize {
        if self.is_complex() {
            self.size() / 2
        } else {
            self.size()
        }
    }

    /// Name in NumPy and Zarr v3: `"int16"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::U8 => "uint8",
            Self::U16 => "uint16",
            Self::U32 => "uint32",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::C64 => "complex64",
            Self::C128 => "complex128",
        }
    }

    /// NumPy's `dtype.str` with byte order: `"<i2"`, `"|u1"`.
    #[must_use]
    pub const fn numpy_str(self, order: ByteOrder) -> &'static str {
        let [one, little, big] = match self {
            Self::Bool => ["|b1"; 3],
            Self::I8 => ["|i1"; 3],
            Self::I16 => ["", "<i2", ">i2"],
            Self::I32 => ["", "<i4", ">i4"],
            Self::I64 => ["", "<i8", ">i8"],
            Self::U8 => ["|u1"; 3],
            Self::U16 => ["", "<u2", ">u2"],
            Self::U32 => ["", "<u4", ">u4"],
            Self::F32 => ["", "<f4", ">f4"],
            Self::F64 => ["", "<f8", ">f8"],
            Self::C64 => ["", "<c8", ">c8"],
            Self::C128 => ["", "<c16", ">c16"],
        };
        match (self.component_size(), order) {
            (1, _) => one,
            (_, ByteOrder::Little) => little,
            (_, ByteOrder::Big) => big,
        }
    }

    /// Whether samples are complex.
    #[must_use]
    pub const fn is_complex(self) -> bool {
        matches!(self, Self::C64 | Self::C128)
    }

    /// Whether samples are real or complex floats.
    #[must_use]
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64 | Self::C64 | Self::C128)
    }

    /// Whether samples are integers; bools are not.
    #[must_use]
    pub const fn is_integer(self) -> bool {
        matches!(
            self,
            Self::I8 | Self::I16 | Self::I32 | Self::I64 | Self::U8 | Self::U16 | Self::U32
        )
    }

    /// Whether samples are unsigned integers.
    #[must_use]
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32)
    }

    /// Parses any common NumPy notation; the byte order is native by default.
    ///
    /// Accepts `numpy.dtype.str` (`"<i2"`, `">f4"`, `"|u1"`, `"c16"`), names (`"int16"`, `"float32"`, `"double"`),
    /// names with an order (`">int16"`) and codes of one letter or the buffer protocol (`"h"`, `"=d"`, `"Zf"`). Digits
    /// after a single letter count bytes.
    ///
    /// # Errors
    /// [`SegmentError::UnsupportedDType`] for a type that signals cannot have (`"u8"`, `"float16"`),
    /// [`SegmentError::UnknownDType`] for other text.
    ///
    /// ```
    /// use isochrony_segment::{ByteOrder, DType};
    /// assert_eq!(DType::parse(">i2")?, (DType::I16, ByteOrder::Big));
    /// assert_eq!(DType::parse("float32")?.0, DType::F32);
    /// # Ok::<(), isochrony_segment::SegmentError>(())
    /// ```
    pub fn parse(text: &str) -> Result<(Self, ByteOrder), SegmentError> {
        let trimmed = text.trim();
        let (order, name) = match trimmed.as_bytes().first() {
            Some(b'<') => (ByteOrder::Little, &trimmed[1..]),
            Some(b'>' | b'!') => (ByteOrder::Big, &trimmed[1..]),
            Some(b'=' | b'|' | b'@') => (ByteOrder::NATIVE, &trimmed[1..]),
            _ => (ByteOrder::NATIVE, trimmed),
        };
        let dtype = match name {
            "b1" | "?" | "bool" | "bool_" | "bool8" => Self::Bool,
            "i1" | "b" | "int8" | "byte" => Self::I8,
            "i2" | "h" | "int16" | "short" => Self::I16,
            "i4" | "i" | "int32" | "intc" => Self::I32,
            "i8" | "q" | "int64" | "int" | "longlong" => Self::I64,
            "l" if size_of::<std::ffi::c_long>() == 4 => Self::I32,
            "l" => Self::I64,
            "u1" | "B" | "uint8" | "ubyte" => Self::U8,
            "u2" | "H" | "uint16" | "ushort" => Self::U16,
            "u4" | "I" | "uint32" | "uintc" => Self::U32,
            "f4" | "f" | "float32" | "single" => Self::F32,
            "f8" | "d" | "float64" | "double" | "float" => Self::F64,
            "c8" | "F" | "Zf" | "complex64" | "csingle" => Self::C64,
            "c16" | "D" | "Zd" | "complex128" | "cdouble" | "complex" => Self::C128,
            "u8" | "Q" | "L" | "uint64" | "uint" | "f2" | "e" | "float16" | "half" | "f12"
            | "f16" | "g" | "float96" | "float128" | "longdouble" | "c24" | "c32" | "G" | "Zg"
            | "complex192" | "complex256" | "O" | "object" | "S" | "U" | "M8" | "m8"
            | "datetime64" | "timedelta64" => {
                return Err(SegmentError::UnsupportedDType { text: text.into() });
            }
            _ if is_other_dtype(name) => {
                return Err(SegmentError::UnsupportedDType { text: text.into() });
            }
            _ => {
                // It may be the text of a file.
                let text = text.chars().take(100).collect();
                return Err(SegmentError::UnknownDType { text });
            }
        };
        let order = if dtype.component_size() == 1 {
            ByteOrder::NATIVE
        } else {
            order
        };
        Ok((dtype, order))
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = SegmentError;

    /// [`DType::parse`] without the byte order.
    fn from_str(text: &str) -> Result<Self, SegmentError> {
        Self::parse(text).map(|(dtype, _)| dtype)
    }
}
/// Whether NumPy writes texts, bytes, structures or times of a length or unit so: `U10`, `S4`, `V8`, `M8[ns]`.
fn is_other_dtype(name: &str) -> bool {
    let is_length = |text: &str| !text.is_empty() && text.bytes().all(|one| one.is_ascii_digit());
    let has_length = name
        .strip_prefix(['U', 'S', 'a', 'V'])
        .is_some_and(is_length);
    let times = ["M8[", "m8[", "datetime64[", "timedelta64["];
    let has_unit = times.iter().any(|start| name.starts_with(start)) && name.ends_with(']');
    has_length || has_unit && name.len() <= 40
}
