//! Quantiles of short windows, kept sorted.
//!
//! A replaced number moves the others by one position at most. All are rewritten, several per instruction and without
//! branches: up to some hundred numbers faster than heaps. Numbers compare as integers, -0 before 0.

use super::Real;
use super::rank::QuantileRank;
use crate::isa::{Isa, Kernel, Level};

/// A number as an integer; the greatest stands for NaN and empty positions.
pub(super) trait SortKey: Copy + Ord + Send {
    const LEAST: Self;
    const GREATEST: Self;

    /// The number is exact in this type, or NaN.
    fn of(number: f64) -> Self;
    /// NaN for the greatest.
    fn number(self) -> f64;
}

/// By the bits of a number, inverted for negative ones.
macro_rules! key {
    ($Integer:ident, $Bits:ident, $Number:ident) => {
        impl SortKey for $Integer {
            const LEAST: Self = Self::MIN;
            const GREATEST: Self = Self::MAX;

            #[inline(always)]
            fn of(number: f64) -> Self {
                let bits = (number as $Number).to_bits().cast_signed();
                let key = bits ^ ((bits >> (Self::BITS - 1)).cast_unsigned() >> 1).cast_signed();
                if number.is_nan() { Self::MAX } else { key }
            }

            #[inline(always)]
            fn number(self) -> f64 {
                let bits = self ^ ((self >> (Self::BITS - 1)).cast_unsigned() >> 1).cast_signed();
                <$Number>::from_bits(bits as $Bits).into()
            }
        }
    };
}

key!(i32, u32, f32);
key!(i64, u64, f64);

#[inline(always)]
fn is_single(number: f64) -> bool {
    f64::from(number as f32) == number || number.is_nan()
}

/// Keys written together: stores across cache lines delay the next load.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine<K, const LANES: usize>([K; LANES]);

#[derive(Debug, Clone)]
pub(super) struct SortedWindow<K, const LANES: usize> {
    sorted: Vec<CacheLine<K, LANES>>,
    kept: Vec<K>,
    oldest: usize,
    nans: usize,
}

impl<K: SortKey, const LANES: usize> SortedWindow<K, LANES> {
    pub(super) fn new(window: usize) -> Self {
        Self {
            sorted: vec![CacheLine([K::GREATEST; LANES]); window.div_ceil(LANES)],
            kept: vec![K::GREATEST; window],
            oldest: 0,
            nans: 0,
        }
    }

    pub(super) const fn bytes(window: usize) -> usize {
        (window.next_multiple_of(LANES) + window) * size_of::<K>()
    }

    pub(super) fn clear(&mut self) {
        self.sorted.fill(CacheLine([K::GREATEST; LANES]));
        self.kept.fill(K::GREATEST);
        self.oldest = 0;
        self.nans = 0;
    }

    /// The type represents all keys.
    fn converted<L: SortKey, const OTHER: usize>(&self) -> SortedWindow<L, OTHER> {
        let mut converted = SortedWindow::new(self.kept.len());
        let key = |key: &K| L::of(key.number());
        let sorted = converted.sorted.iter_mut().flat_map(|line| &mut line.0);
        for (to, from) in sorted.zip(self.sorted.iter().flat_map(|line| &line.0)) {
            *to = key(from);
        }
        converted.kept = self.kept.iter().map(key).collect();
        converted.oldest = self.oldest;
        converted.nans = self.nans;
        converted
    }

    /// In order of arrival.
    fn numbers(&self, counted: usize) -> impl Iterator<Item = f64> {
        let (later, earlier) = self.kept.split_at(self.oldest);
        let places = earlier.iter().chain(later);
        places
            .skip(self.kept.len() - counted)
            .map(|key| key.number())
    }

    #[inline(always)]
    fn at(&self, place: usize) -> K {
        self.sorted[place / LANES].0[place % LANES]
    }

    /// `old` is present.
    #[inline(always)]
    fn replace(&mut self, old: K, new: K) {
        let lines = &mut self.sorted[..];
        let mut before = K::LEAST;
        for at in 0..lines.len() {
            let behind = lines.get(at + 1).map_or(K::GREATEST, |line| line.0[0]);
            let line = lines[at].0;
            let mut rest = [behind; LANES];
            rest[..LANES - 1].copy_from_slice(&line[1..]);
            for lane in 0..LANES {
                rest[lane] = if line[lane] < old {
                    line[lane]
                } else {
                    rest[lane]
                };
            }
            let mut rest_before = [before; LANES];
            rest_before[1..].copy_from_slice(&rest[..LANES - 1]);
            before = rest[LANES - 1];
            for lane in 0..LANES {
                lines[at].0[lane] = rest[lane].min(new).max(rest_before[lane]);
            }
            // Only padding follows. Without this exit the compiler vectorises over lines, ten times as slow.
            if before == K::GREATEST {
                break;
            }
        }
    }
}

struct QuantileKernel<'a, K, T, const LANES: usize> {
    state: &'a mut SortedWindow<K, LANES>,
    rank: &'a mut QuantileRank,
    values: &'a [T],
    results: &'a mut [T],
}

impl<K: SortKey, T: Real, const LANES: usize> Kernel for QuantileKernel<'_, K, T, LANES> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let (state, rank) = (self.state, self.rank);
        for (value, result) in self.values.iter().zip(self.results) {
            let new = K::of(value.double());
            let old = std::mem::replace(&mut state.kept[state.oldest], new);
            state.oldest += 1;
            if state.oldest == state.kept.len() {
                state.oldest = 0;
            }
            state.nans += usize::from(new == K::GREATEST);
            state.nans -= usize::from(old == K::GREATEST && rank.is_full());
            rank.count();
            state.replace(old, new);
            *result = T::of(match state.nans {
                0 => {
                    let below = rank.below();
                    let above = (below < rank.counted()).then(|| state.at(below).number());
                    rank.between(state.at(below - 1).number(), above)
                }
                _ => f64::NAN,
            });
        }
    }
}

/// f32 keys, until a number is not exact in f32.
#[derive(Debug, Clone)]
pub(super) enum SortedNumbers {
    Singles(SortedWindow<i32, 16>),
    Doubles(SortedWindow<i64, 8>),
}

impl SortedNumbers {
    /// Heaps are faster for longer windows.
    pub(super) const MAX_F32_WINDOW: usize = 288;
    pub(super) const MAX_F64_WINDOW: usize = 160;
    const BLOCK: usize = 1024;

    pub(super) fn new(window: usize) -> Self {
        Self::Singles(SortedWindow::new(window))
    }

    pub(super) const fn bytes(window: usize) -> usize {
        SortedWindow::<i64, 8>::bytes(window)
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Singles(state) => state.clear(),
            Self::Doubles(state) => state.clear(),
        }
    }

    pub(super) fn numbers(&self, counted: usize) -> Vec<f64> {
        match self {
            Self::Singles(state) => state.numbers(counted).collect(),
            Self::Doubles(state) => state.numbers(counted).collect(),
        }
    }

    /// Returns the count of quantiles: if fewer than values, heaps take over.
    pub(super) fn run<T: Real>(
        &mut self,
        rank: &mut QuantileRank,
        values: &[T],
        results: &mut [T],
    ) -> usize {
        let isa = Isa::best();
        let results = results.chunks_mut(Self::BLOCK);
        for (at, (values, results)) in values.chunks(Self::BLOCK).zip(results).enumerate() {
            if let Self::Singles(state) = self
                && !values.iter().all(|value| is_single(value.double()))
            {
                if rank.window() > Self::MAX_F64_WINDOW {
                    return at * Self::BLOCK;
                }
                *self = Self::Doubles(state.converted());
            }
            match self {
                Self::Singles(state) => isa.run(QuantileKernel {
                    state,
                    rank,
                    values,
                    results,
                }),
                Self::Doubles(state) => isa.run(QuantileKernel {
                    state,
                    rank,
                    values,
                    results,
                }),
            }
        }
        values.len()
    }
}
