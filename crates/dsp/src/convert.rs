//! Byte order and calibration of stored samples.

use isochrony_segment::{Calibration, Complex32, Complex64, DType, Sample};

use crate::DspError;
use crate::isa::{Isa, Kernel, Level};

/// Reverses the bytes of every number of `size` bytes; a `size` of 0 or 1 changes nothing.
///
/// For complex samples, `size` is that of a component ([`isochrony_segment::DType::component_size`]).
///
/// # Errors
/// [`DspError::PartialSample`] unless the bytes are whole numbers.
///
/// ```
/// let mut bytes = [0x12, 0x34, 0x56, 0x78];
/// isochrony_dsp::convert::swap_bytes(&mut bytes, 2)?;
/// assert_eq!(bytes, [0x34, 0x12, 0x78, 0x56]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
pub fn swap_bytes(bytes: &mut [u8], size: usize) -> Result<(), DspError> {
    if size > 1 && !bytes.len().is_multiple_of(size) {
        return Err(DspError::PartialSample {
            operator: "swap_bytes",
            bytes: bytes.len(),
            size,
        });
    }
    Isa::best().run(SwapBytes { bytes, size });
    Ok(())
}

struct SwapBytes<'a> {
    bytes: &'a mut [u8],
    size: usize,
}

impl Kernel for SwapBytes<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        match self.size {
            0 | 1 => {}
            2 => reverse_each::<2>(self.bytes),
            4 => reverse_each::<4>(self.bytes),
            8 => reverse_each::<8>(self.bytes),
            size => self.bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse),
        }
    }
}

#[inline(always)]
fn reverse_each<const N: usize>(bytes: &mut [u8]) {
    for number in bytes.as_chunks_mut::<N>().0 {
        number.reverse();
    }
}

/// Calibrates: `value = count * scale + offset`, in two roundings.
///
/// Same bits as [`Calibration::apply`]. `out` is as long as `counts`: f64, or complex f64 with a real offset.
///
/// # Errors
/// [`DspError::OutputLength`].
pub fn calibrate<T: Sample>(
    counts: &[T],
    calibration: &Calibration,
    out: &mut [T::Physical],
) -> Result<(), DspError> {
    if counts.len() != out.len() {
        return Err(DspError::OutputLength {
            operator: "calibrate",
            expected: counts.len(),
            got: out.len(),
        });
    }
    Isa::best().run(Calibrate {
        counts,
        calibration,
        out,
    });
    Ok(())
}

/// A value in a unit, real or complex.
pub trait ValueType: Sample {
    /// Result of calibration: f64 or complex f64.
    type Exact: Sample;

    /// Rounds a value to this type.
    fn rounded(value: Self::Exact) -> Self;

    /// Linear interpolation; `share` is from 0 to 1.
    fn between(before: Self, after: Self, share: f64) -> Self;
}

macro_rules! value_type {
    ($($type:ty, $exact:ty, |$x:ident| $rounded:expr, |$widened:ident| $exactly:expr;)*) => {$(
        impl ValueType for $type {
            type Exact = $exact;

            #[inline(always)]
            fn rounded($x: $exact) -> Self {
                $rounded
            }

            #[inline(always)]
            fn between(before: Self, after: Self, share: f64) -> Self {
                let exactly = |$widened: Self| $exactly;
                let (before, after): ($exact, $exact) = (exactly(before), exactly(after));
                Self::rounded(before + (after - before) * share)
            }
        }
    )*};
}

value_type! {
    f64, f64, |x| x, |x| x;
    f32, f64, |x| x as f32, |x| f64::from(x);
    Complex64, Complex64, |x| x, |x| x;
    Complex32, Complex64, |x| Complex32::new(x.re as f32, x.im as f32), |x| x.to_physical();
}

/// Converts counts to any [`ValueType`]: [`calibrate`], rounded once more. Without calibration the sign of zero is
/// kept.
///
/// # Errors
/// [`DspError::OutputLength`].
///
/// # Panics
/// Unless counts and values are both real or both complex.
pub fn values<T: Sample, V: ValueType>(
    counts: &[T],
    calibration: &Calibration,
    out: &mut [V],
) -> Result<(), DspError> {
    if counts.len() != out.len() {
        return Err(DspError::OutputLength {
            operator: "values",
            expected: counts.len(),
            got: out.len(),
        });
    }
    assert_eq!(
        T::DTYPE.is_complex(),
        V::DTYPE.is_complex(),
        "real and complex numbers"
    );
    Isa::best().run(ValueKernel {
        counts,
        calibration,
        out,
    });
    Ok(())
}

struct ValueKernel<'a, T, V> {
    counts: &'a [T],
    calibration: &'a Calibration,
    out: &'a mut [V],
}

impl<T: Sample, V: ValueType> Kernel for ValueKernel<'_, T, V> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        if (T::DTYPE, V::DTYPE) == (DType::I64, DType::F32) && self.calibration.is_identity() {
            let counts: &[i64] = bytemuck::cast_slice(self.counts);
            let out: &mut [f32] = bytemuck::cast_slice_mut(self.out);
            let pairs = out.iter_mut().zip(counts);
            return pairs.for_each(|(value, &count)| *value = count as f32);
        }
        let rounded = |value: T::Physical| V::rounded(bytemuck::cast(value));
        let pairs = self.out.iter_mut().zip(self.counts);
        if self.calibration.is_identity() {
            pairs.for_each(|(value, count)| *value = rounded(count.to_physical()));
            return;
        }
        let (scale, offset) = (self.calibration.scale(), self.calibration.offset());
        pairs.for_each(|(value, count)| *value = rounded(count.calibrate(scale, offset)));
    }
}

struct Calibrate<'a, T: Sample> {
    counts: &'a [T],
    calibration: &'a Calibration,
    out: &'a mut [T::Physical],
}

impl<T: Sample> Kernel for Calibrate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        self.calibration.apply(self.counts, self.out);
    }
}
