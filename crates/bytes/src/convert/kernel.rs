//! Converts blocks of samples: one loader and one writer per type, not a loop per pair of types.

use bytemuck::Pod;
use isochrony_dsp::{Isa, Level};
use isochrony_segment::DType;

use super::Conversion;
use crate::samples::reverse_each;

/// Samples per step; they stay in the first-level cache.
const BLOCK: usize = 1024;

/// The first sample that does not fit, and its converted value.
#[derive(Debug)]
pub(super) struct Misfit {
    pub(super) sample: usize,
    pub(super) value: String,
}

pub(super) struct Kernel {
    conversion: Conversion,
    /// Intermediate numbers are integers, not f64.
    exact: bool,
    /// There is a scale or an offset.
    scales: bool,
    isa: Isa,
}

fn is_integer(dtype: DType) -> bool {
    !matches!(dtype, DType::F32 | DType::F64)
}

/// Evaluates an expression with an alias of a dtype's type. Other types were refused before.
macro_rules! with_real {
    ($dtype:expr, $name:ident => $run:expr) => {
        match $dtype {
            DType::I8 => {
                type $name = i8;
                $run
            }
            DType::I16 => {
                type $name = i16;
                $run
            }
            DType::I32 => {
                type $name = i32;
                $run
            }
            DType::I64 => {
                type $name = i64;
                $run
            }
            DType::U16 => {
                type $name = u16;
                $run
            }
            DType::U32 => {
                type $name = u32;
                $run
            }
            DType::F32 => {
                type $name = f32;
                $run
            }
            DType::F64 => {
                type $name = f64;
                $run
            }
            DType::U8 | DType::Bool | DType::C64 | DType::C128 => {
                type $name = u8;
                $run
            }
        }
    };
}

impl Kernel {
    pub(super) fn new(conversion: Conversion) -> Self {
        let scales = conversion.scale != 1.0 || conversion.offset != 0.0;
        Self {
            conversion,
            exact: !scales && is_integer(conversion.from.0) && is_integer(conversion.to.0),
            scales,
            isa: Isa::best(),
        }
    }

    pub(super) fn run(&self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Misfit> {
        if self.exact {
            self.by_way_of::<i64>(bytes, out)
        } else {
            self.by_way_of::<f64>(bytes, out)
        }
    }

    fn by_way_of<N: IntermediateNumber>(
        &self,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Misfit>
    where
        i8: ConvertibleSample<N>,
        i16: ConvertibleSample<N>,
        i32: ConvertibleSample<N>,
        i64: ConvertibleSample<N>,
        u8: ConvertibleSample<N>,
        u16: ConvertibleSample<N>,
        u32: ConvertibleSample<N>,
        f32: ConvertibleSample<N>,
        f64: ConvertibleSample<N>,
    {
        let Conversion { from, to, .. } = self.conversion;
        let (size, wide) = (from.0.component_size(), to.0.component_size());
        let mut numbers = [N::default(); BLOCK];
        let mut samples = [0u64; BLOCK];
        let samples: &mut [u8] = bytemuck::cast_slice_mut(&mut samples);
        for (block, bytes) in bytes.chunks(BLOCK * size).enumerate() {
            let numbers = &mut numbers[..bytes.len() / size];
            // The copy is aligned, and stays in the cache.
            let copy = &mut samples[..bytes.len()];
            copy.copy_from_slice(bytes);
            if !from.1.is_native() {
                reverse_each(copy, size);
            }
            let conversion = self.scales.then_some(&self.conversion);
            let finite = with_real!(from.0, T => self.isa.run(Load::<T, N> { samples: bytemuck::cast_slice(copy), numbers: &mut *numbers, conversion }));
            if !finite {
                with_real!(from.0, T => self.isa.run(Load::<T, N> { samples: bytemuck::cast_slice(copy), numbers: &mut *numbers, conversion: None }));
                self.scale_each(numbers).map_err(|(at, value)| Misfit {
                    sample: block * BLOCK + at,
                    value,
                })?;
            }
            let room = &mut samples[..numbers.len() * wide];
            let fits = with_real!(to.0, T => self.isa.run(Store::<T, N> { numbers, room: bytemuck::cast_slice_mut(room) }));
            if !fits {
                let bad = with_real!(to.0, T => misfit::<T, N>(numbers, self.conversion.saturate));
                if let Some((at, number)) = bad {
                    return Err(Misfit {
                        sample: block * BLOCK + at,
                        value: number.to_string(),
                    });
                }
            }
            if !to.1.is_native() {
                reverse_each(room, wide);
            }
            out.extend_from_slice(room);
        }
        Ok(())
    }

    /// Scales up to the first number that leaves the range.
    fn scale_each<N: IntermediateNumber>(&self, numbers: &mut [N]) -> Result<(), (usize, String)> {
        for (at, number) in numbers.iter_mut().enumerate() {
            if !number.scale(&self.conversion) {
                return Err((at, number.to_string()));
            }
        }
        Ok(())
    }
}

/// The first number that the type cannot hold, unless saturating helps.
fn misfit<T: ConvertibleSample<N>, N: IntermediateNumber>(
    numbers: &[N],
    saturate: bool,
) -> Option<(usize, N)> {
    numbers
        .iter()
        .copied()
        .enumerate()
        .find(|&(_, number)| !(T::holds(number) || saturate && number.is_number()))
}

/// A number between the two sample types.
trait IntermediateNumber: Copy + Default + Send + ToString + 'static {
    /// Whether it stays within the range; if saturating, it is clamped and stays.
    fn scale(&mut self, conversion: &Conversion) -> bool;
    fn is_number(self) -> bool;
}

impl IntermediateNumber for i64 {
    #[inline(always)]
    fn scale(&mut self, _conversion: &Conversion) -> bool {
        true
    }

    fn is_number(self) -> bool {
        true
    }
}

impl IntermediateNumber for f64 {
    #[inline(always)]
    fn scale(&mut self, conversion: &Conversion) -> bool {
        let scaled = *self * conversion.scale + conversion.offset;
        let beyond = scaled.is_infinite() & self.is_finite();
        *self = if beyond & conversion.saturate {
            f64::MAX.copysign(scaled)
        } else {
            scaled
        };
        !beyond | conversion.saturate
    }

    fn is_number(self) -> bool {
        !self.is_nan()
    }
}

trait ConvertibleSample<N>: Pod {
    fn load(self) -> N;
    /// Whether the rounded number is a value of this type.
    fn holds(number: N) -> bool;
    /// The nearest value of this type; any for NaN.
    fn store(number: N) -> Self;
}

macro_rules! integer {
    ($($type:ident)*) => {$(
        impl ConvertibleSample<i64> for $type {
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn load(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn holds(number: i64) -> bool {
                (number >= $type::MIN as i64) & (number <= $type::MAX as i64)
            }

            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn store(number: i64) -> Self {
                number.clamp($type::MIN as i64, $type::MAX as i64) as $type
            }
        }

        impl ConvertibleSample<f64> for $type {
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn load(self) -> f64 {
                self as f64
            }

            /// Ties go to even, so half a step above an odd maximum is out of range.
            #[inline(always)]
            #[allow(clippy::cast_lossless)]
            fn holds(number: f64) -> bool {
                /// The maximum plus one: a power of two, exact for every width.
                const ABOVE: f64 = ($type::MAX / 2 + 1) as f64 * 2.0;
                let rounded = number.round_ties_even();
                (rounded >= $type::MIN as f64) & (rounded < ABOVE)
            }

            #[inline(always)]
            fn store(number: f64) -> Self {
                number.round_ties_even() as $type
            }
        }
    )*};
}

integer!(i8 i16 i32 i64 u8 u16 u32);

/// Integers are never converted to floats here.
macro_rules! never_exact {
    ($($type:ident)*) => {$(
        impl ConvertibleSample<i64> for $type {
            #[inline(always)]
            fn load(self) -> i64 {
                self as i64
            }

            #[inline(always)]
            fn holds(_number: i64) -> bool {
                true
            }

            #[inline(always)]
            fn store(number: i64) -> Self {
                number as $type
            }
        }
    )*};
}

never_exact!(f32 f64);

impl ConvertibleSample<f64> for f32 {
    #[inline(always)]
    fn load(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn holds(number: f64) -> bool {
        (number as f32).is_finite() | !number.is_finite()
    }

    /// Infinite numbers stay infinite, finite ones finite.
    #[inline(always)]
    fn store(number: f64) -> f32 {
        let rounded = number as f32;
        if rounded.is_infinite() && number.is_finite() {
            f32::MAX.copysign(rounded)
        } else {
            rounded
        }
    }
}

impl ConvertibleSample<f64> for f64 {
    #[inline(always)]
    fn load(self) -> f64 {
        self
    }

    #[inline(always)]
    fn holds(_number: f64) -> bool {
        true
    }

    #[inline(always)]
    fn store(number: f64) -> f64 {
        number
    }
}

struct Load<'a, T, N> {
    samples: &'a [T],
    numbers: &'a mut [N],
    conversion: Option<&'a Conversion>,
}

impl<T: ConvertibleSample<N>, N: IntermediateNumber> isochrony_dsp::Kernel for Load<'_, T, N> {
    /// Whether all numbers stayed within the range.
    type Output = bool;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> bool {
        let pairs = self.numbers.iter_mut().zip(self.samples);
        let Some(conversion) = self.conversion else {
            pairs.for_each(|(number, sample)| *number = sample.load());
            return true;
        };
        let mut all = true;
        for (number, sample) in pairs {
            let mut scaled = sample.load();
            all &= scaled.scale(conversion);
            *number = scaled;
        }
        all
    }
}

struct Store<'a, T, N> {
    numbers: &'a [N],
    room: &'a mut [T],
}

impl<T: ConvertibleSample<N>, N: Copy> isochrony_dsp::Kernel for Store<'_, T, N> {
    /// Whether all numbers fit.
    type Output = bool;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> bool {
        let mut fits = true;
        for (sample, &number) in self.room.iter_mut().zip(self.numbers) {
            fits &= T::holds(number);
            *sample = T::store(number);
        }
        fits
    }
}
