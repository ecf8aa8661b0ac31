//! Conversions between stored and usable samples: byte order and calibration.

use isochrony_segment::{Calibration, Sample};

use crate::DspError;
use crate::isa::{Isa, Kernel, Level};

/// Reverses the bytes of every number of `size` bytes, in place: big-endian input on a
/// little-endian machine, or the reverse. A `size` of 0 or 1 leaves the bytes as they are.
///
/// For complex samples `size` is that of one component ([`isochrony_segment::DType::component_size`]).
///
/// # Errors
/// [`DspError::PartialSample`] if the bytes are no whole number of numbers.
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

/// Calibrates counts to values: `value = count * scale + offset`, in two roundings.
///
/// Same bits as [`Calibration::apply`], compiled for the CPU at hand. `out` has the length of
/// `counts`; real samples give f64, complex ones complex f64 with a real offset.
///
/// # Errors
/// [`DspError::OutputLength`] if the lengths differ.
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
