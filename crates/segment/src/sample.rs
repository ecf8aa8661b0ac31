//! Rust types of element types, and generic code over both.

use std::fmt;

use num_complex::{Complex32, Complex64};

use crate::DType;

/// A boolean sample in one byte: zero is false, any other byte is true. So every byte of a mapped file is valid.
/// Equality compares truth, not bytes.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool8(u8);

impl Bool8 {
    /// The truth value.
    #[must_use]
    pub const fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool8 {
    fn from(value: bool) -> Self {
        Self(u8::from(value))
    }
}

impl From<Bool8> for bool {
    fn from(value: Bool8) -> Self {
        value.get()
    }
}

impl PartialEq for Bool8 {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Bool8 {}

impl fmt::Debug for Bool8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.get(), f)
    }
}

mod sealed {
    pub trait Sealed {}
}

/// Rust type of a sample; sealed, one per [`DType`].
pub trait Sample:
    sealed::Sealed + bytemuck::Pod + Default + PartialEq + fmt::Debug + Send + Sync
{
    /// The element type.
    const DTYPE: DType;
    /// Type of a calibrated sample: f64, or complex of f64.
    type Physical: Sample;

    /// Converts with scale 1; 64-bit integers are rounded to nearest, a bool is 0 or 1.
    fn to_physical(self) -> Self::Physical;

    /// `self * scale + offset` in two roundings; the offset of a complex sample is real.
    fn calibrate(self, scale: f64, offset: f64) -> Self::Physical;
}

macro_rules! sample {
    ($($type:ty => $dtype:ident, $physical:ty, |$x:ident| $convert:expr;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Sample for $type {
            const DTYPE: DType = DType::$dtype;
            type Physical = $physical;

            #[inline(always)]
            fn to_physical(self) -> $physical {
                let $x = self;
                $convert
            }

            #[inline(always)]
            fn calibrate(self, scale: f64, offset: f64) -> $physical {
                self.to_physical() * scale + offset
            }
        }
    )*};
}

sample! {
    Bool8 => Bool, f64, |x| f64::from(u8::from(x.get()));
    i8 => I8, f64, |x| f64::from(x);
    i16 => I16, f64, |x| f64::from(x);
    i32 => I32, f64, |x| f64::from(x);
    i64 => I64, f64, |x| x as f64;
    u8 => U8, f64, |x| f64::from(x);
    u16 => U16, f64, |x| f64::from(x);
    u32 => U32, f64, |x| f64::from(x);
    f32 => F32, f64, |x| f64::from(x);
    f64 => F64, f64, |x| x;
    Complex32 => C64, Complex64, |x| Complex64::new(f64::from(x.re), f64::from(x.im));
    Complex64 => C128, Complex64, |x| x;
}

/// Evaluates an expression with a type alias for the Rust type of a [`DType`].
///
/// ```
/// use isochrony_segment::{DType, Sample, dispatch};
/// let size = dispatch!(DType::I16, T => size_of::<T>());
/// assert_eq!(size, 2);
/// ```
#[macro_export]
macro_rules! dispatch {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            $crate::DType::Bool => $crate::dispatch!(@ $T, $crate::Bool8, $body),
            $crate::DType::I8 => $crate::dispatch!(@ $T, i8, $body),
            $crate::DType::I16 => $crate::dispatch!(@ $T, i16, $body),
            $crate::DType::I32 => $crate::dispatch!(@ $T, i32, $body),
            $crate::DType::I64 => $crate::dispatch!(@ $T, i64, $body),
            $crate::DType::U8 => $crate::dispatch!(@ $T, u8, $body),
            $crate::DType::U16 => $crate::dispatch!(@ $T, u16, $body),
            $crate::DType::U32 => $crate::dispatch!(@ $T, u32, $body),
            $crate::DType::F32 => $crate::dispatch!(@ $T, f32, $body),
            $crate::DType::F64 => $crate::dispatch!(@ $T, f64, $body),
            $crate::DType::C64 => $crate::dispatch!(@ $T, $crate::Complex32, $body),
            $crate::DType::C128 => $crate::dispatch!(@ $T, $crate::Complex64, $body),
        }
    };
    (@ $T:ident, $type:ty, $body:expr) => {{
        type $T = $type;
        $body
    }};
}
