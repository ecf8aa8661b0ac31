//! Portable tiles: loops over memory.

use super::Tile;
use crate::isa::Baseline;

macro_rules! with {
    ($($method:ident, $each:ident, |$a:ident, $b:ident| $map:expr;)*) => {$(
        #[inline(always)]
        fn $method(&mut self, x: Self::Operand<'_>) {
            self.$each(x, |$a, $b| $map);
        }
    )*};
}

macro_rules! plain {
    ($name:ident, $number:ident, $bits:ident, $samples:literal) => {
        #[derive(Clone, Copy)]
        pub(crate) struct $name([$number; $samples]);

        impl $name {
            #[inline(always)]
            fn each(&mut self, x: &[$number; $samples], map: impl Fn($number, $number) -> $number) {
                for (sample, &x) in self.0.iter_mut().zip(x) {
                    *sample = map(*sample, x);
                }
            }

            #[inline(always)]
            fn mask(&mut self, x: &[$number; $samples], holds: impl Fn($number, $number) -> bool) {
                self.each(x, |a, b| {
                    $number::from_bits($bits::from(holds(a, b)).wrapping_neg())
                });
            }

            #[inline(always)]
            fn bits(&mut self, x: &[$number; $samples], map: impl Fn($bits, $bits) -> $bits) {
                self.each(x, |a, b| $number::from_bits(map(a.to_bits(), b.to_bits())));
            }

            #[inline(always)]
            fn alone(&mut self, map: impl Fn($number) -> $number) {
                for sample in &mut self.0 {
                    *sample = map(*sample);
                }
            }
        }

        impl Tile for $name {
            type Level = Baseline;
            type Scalar = $number;
            type Memory = [$number; $samples];
            type Operand<'a> = &'a [$number; $samples];

            #[inline(always)]
            fn load(_level: Baseline, from: &Self::Memory) -> Self {
                Self(*from)
            }

            #[inline(always)]
            fn operand(_level: Baseline, from: &Self::Memory) -> &Self::Memory {
                from
            }

            #[inline(always)]
            fn number(_level: Baseline, from: &Self::Memory) -> &Self::Memory {
                from
            }

            #[inline(always)]
            fn store(&self, to: &mut Self::Memory) {
                *to = self.0;
            }

            with! {
                add, each, |a, x| a + x;
                sub, each, |a, x| a - x;
                sub_from, each, |a, x| x - a;
                mul, each, |a, x| a * x;
                div, each, |a, x| a / x;
                div_into, each, |a, x| x / a;
                smaller, each, |a, x| if (x < a) | x.is_nan() { x } else { a };
                smaller_number, each, |a, x| if x < a { x } else { a };
                smaller_from, each, |a, x| if (a < x) | a.is_nan() { a } else { x };
                larger, each, |a, x| if (x > a) | x.is_nan() { x } else { a };
                larger_number, each, |a, x| if x > a { x } else { a };
                larger_from, each, |a, x| if (a > x) | a.is_nan() { a } else { x };
                less, mask, |a, x| a < x;
                less_equal, mask, |a, x| a <= x;
                greater, mask, |a, x| a > x;
                greater_equal, mask, |a, x| a >= x;
                equal, mask, |a, x| a == x;
                not_equal, mask, |a, x| a != x;
                and, bits, |a, x| a & x;
                or, bits, |a, x| a | x;
                xor, bits, |a, x| a ^ x;
            }

            #[inline(always)]
            fn sqrt(&mut self) {
                self.alone($number::sqrt);
            }

            #[inline(always)]
            fn abs(&mut self) {
                self.alone($number::abs);
            }

            #[inline(always)]
            fn negate(&mut self) {
                self.alone(|a| -a);
            }

            #[inline(always)]
            fn invert(&mut self) {
                self.alone(|a| $number::from_bits(!a.to_bits()));
            }

            #[inline(always)]
            fn select(&mut self, yes: Self::Operand<'_>, no: Self::Operand<'_>) {
                for (sample, (yes, no)) in self.0.iter_mut().zip(yes.iter().zip(no)) {
                    let mask = sample.to_bits();
                    *sample = $number::from_bits((yes.to_bits() & mask) | (no.to_bits() & !mask));
                }
            }
        }
    };
}

plain!(Plain32, f32, u32, 64);
plain!(Plain64, f64, u64, 32);
