//! Tiles against scalars.

use isochrony_dsp::{Isa, Kernel, Level, Tile};
use proptest::prelude::*;

const OPERATIONS: usize = 27;

#[inline(always)]
fn apply<'a, V: Tile>(tile: &mut V, operation: usize, x: V::Operand<'a>, other: V::Operand<'a>) {
    match operation {
        0 => tile.add(x),
        1 => tile.sub(x),
        2 => tile.sub_from(x),
        3 => tile.mul(x),
        4 => tile.div(x),
        5 => tile.div_into(x),
        6 => tile.smaller(x),
        7 => tile.smaller_number(x),
        8 => tile.smaller_from(x),
        9 => tile.larger(x),
        10 => tile.larger_number(x),
        11 => tile.larger_from(x),
        12 => tile.sqrt(),
        13 => tile.abs(),
        14 => tile.negate(),
        15 => tile.less(x),
        16 => tile.less_equal(x),
        17 => tile.greater(x),
        18 => tile.greater_equal(x),
        19 => tile.equal(x),
        20 => tile.not_equal(x),
        21 => tile.and(x),
        22 => tile.or(x),
        23 => tile.xor(x),
        24 => tile.invert(),
        25 => {
            tile.less(x);
            tile.select(x, other);
        }
        _ => {}
    }
}

macro_rules! tiles {
    ($name:ident, $tile:ident, $float:ident, $bits:ident, $len:literal) => {
        mod $name {
            use super::*;

            struct Run<'a>([&'a [$float; $len]; 3], usize, bool);

            impl Kernel for Run<'_> {
                type Output = [$float; $len];

                #[inline(always)]
                fn run<L: Level>(self, level: L) -> [$float; $len] {
                    let Self([a, x, other], operation, is_number) = self;
                    let level = level.tiles();
                    let mut tile = L::$tile::load(level, a);
                    let (x, other) = if is_number {
                        (L::$tile::number(level, x), L::$tile::number(level, other))
                    } else {
                        (L::$tile::operand(level, x), L::$tile::operand(level, other))
                    };
                    apply(&mut tile, operation, x, other);
                    let mut out = [0.0; $len];
                    tile.store(&mut out);
                    out
                }
            }

            /// C semantics; minimum and maximum propagate NaN and take the first of equals.
            fn expected(operation: usize, a: $float, x: $float, other: $float) -> $float {
                let mask = |holds: bool| $float::from_bits(if holds { !0 } else { 0 });
                let bits = |map: fn($bits, $bits) -> $bits| {
                    $float::from_bits(map(a.to_bits(), x.to_bits()))
                };
                let smaller = |a: $float, b: $float| if b < a || b.is_nan() { b } else { a };
                let larger = |a: $float, b: $float| if b > a || b.is_nan() { b } else { a };
                match operation {
                    0 => a + x,
                    1 => a - x,
                    2 => x - a,
                    3 => a * x,
                    4 => a / x,
                    5 => x / a,
                    6 => smaller(a, x),
                    7 if x.is_nan() => a,
                    7 => smaller(a, x),
                    8 => smaller(x, a),
                    9 => larger(a, x),
                    10 if x.is_nan() => a,
                    10 => larger(a, x),
                    11 => larger(x, a),
                    12 => a.sqrt(),
                    13 => a.abs(),
                    14 => -a,
                    15 => mask(a < x),
                    16 => mask(a <= x),
                    17 => mask(a > x),
                    18 => mask(a >= x),
                    19 => mask(a == x),
                    20 => mask(a != x),
                    21 => bits(|a, x| a & x),
                    22 => bits(|a, x| a | x),
                    23 => bits(|a, x| a ^ x),
                    24 => $float::from_bits(!a.to_bits()),
                    25 if a < x => x,
                    25 => other,
                    _ => a,
                }
            }

            fn numbers() -> impl Strategy<Value = Vec<$float>> {
                let some = [0.0, -0.0, 1.0, -1.0, $float::NAN, $float::INFINITY, -$float::INFINITY];
                let number = prop_oneof![prop::sample::select(some.to_vec()).boxed(), any::<$float>().boxed()];
                prop::collection::vec(number, $len)
            }

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(200))]

                #[test]
                fn operations_are_those_on_single_numbers(
                    a in numbers(), x in numbers(), other in numbers(),
                ) {
                    let arrays = [&a, &x, &other].map(|x| <[$float; $len]>::try_from(&x[..]).unwrap());
                    let alike = [arrays[0], [x[0]; $len], [other[0]; $len]];
                    for (isa, operation) in Isa::available().into_iter().flat_map(|isa| (0..OPERATIONS).map(move |at| (isa, at))) {
                        for (arrays, is_number) in [(&arrays, false), (&alike, true)] {
                            let [a, x, other] = arrays;
                            let got = isa.run(Run([a, x, other], operation, is_number));
                            for at in 0..$len {
                                let want = expected(operation, a[at], x[at], other[at]);
                                // Which NaN results from two depends on the CPU.
                                let arithmetic = operation < 13;
                                let same = got[at].to_bits() == want.to_bits()
                                    || arithmetic && got[at].is_nan() && want.is_nan();
                                prop_assert!(same, "{} {operation}: {} {} gave {}, want {want}",
                                    isa.name(), a[at], x[at], got[at]);
                            }
                        }
                    }
                }
            }
        }
    };
}

tiles!(singles, F32, f32, u32, 64);
tiles!(doubles, F64, f64, u64, 32);
