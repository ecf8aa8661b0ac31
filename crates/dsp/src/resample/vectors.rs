//! Vectors of 32 bytes: compilers do not reliably vectorise reductions.

use bytemuck::Pod;

use crate::spectrum::Precision;

pub(super) const VECTOR_BYTES: usize = 32;

/// All implementations give the same bits.
pub(super) trait Vector: Copy {
    type Level: Copy;
    type Scalar: Precision;
    type Lane: Pod;

    fn load(level: Self::Level, lane: &Self::Lane) -> Self;
    fn all(level: Self::Level, number: Self::Scalar) -> Self;
    fn store(self) -> Self::Lane;
    fn mul(self, other: Self) -> Self;
    fn add(self, other: Self) -> Self;
    /// Sums by halves.
    fn sum(self) -> Self::Scalar;
}

#[derive(Clone, Copy)]
pub(super) struct Plain<T, const N: usize>([T; N]);

impl<T: Precision, const N: usize> Plain<T, N> {
    #[inline(always)]
    fn with(mut self, other: Self, op: impl Fn(T, T) -> T) -> Self {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = op(*a, b);
        }
        self
    }
}

macro_rules! plain {
    ($number:ty, $count:literal) => {
        impl Vector for Plain<$number, $count> {
            type Level = ();
            type Scalar = $number;
            type Lane = [$number; $count];

            #[inline(always)]
            fn load((): (), lane: &Self::Lane) -> Self {
                Self(*lane)
            }

            #[inline(always)]
            fn all((): (), number: $number) -> Self {
                Self([number; $count])
            }

            #[inline(always)]
            fn store(self) -> Self::Lane {
                self.0
            }

            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.with(other, |a, b| a * b)
            }

            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.with(other, |a, b| a + b)
            }

            #[inline(always)]
            fn sum(mut self) -> $number {
                let mut half = $count / 2;
                while half > 0 {
                    for k in 0..half {
                        self.0[k] += self.0[k + half];
                    }
                    half /= 2;
                }
                self.0[0]
            }
        }
    };
}

plain!(f32, 8);
plain!(f64, 4);
