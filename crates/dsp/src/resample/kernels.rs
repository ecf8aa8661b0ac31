//! Dot products, in an order that depends on the ratio alone.
//!
//! Integer upsampling: neighbouring results of one phase have neighbouring windows and run in parallel, oldest sample
//! first. Otherwise a result's products accumulate in a vector, then reduce; results of one phase share loads of
//! weights, two neighbouring results those of a window.

use bytemuck::{Zeroable as _, cast_slice};

use super::vectors::{Plain, VECTOR_BYTES, Vector};
#[cfg(target_arch = "x86_64")]
use super::vectors_x86::{Doubles, Singles};
#[cfg(target_arch = "x86_64")]
use crate::avx2::Avx2;
use crate::isa::{Kernel, Level};
use crate::spectrum::Precision;

/// Vectors in parallel: a second phase still fits the registers.
const SIDE: usize = 4;
/// Samples behind the last window that may be read.
pub(super) const READ_AHEAD: usize = SIDE * VECTOR_BYTES / size_of::<f32>();

/// Windows start at sample `at` of `row` and advance by `down / up` samples.
pub(super) struct Sums<'a, T> {
    pub(super) taps: usize,
    pub(super) weights: &'a [T],
    pub(super) between: Option<u64>,
    /// Whether an even turn and the next share a window.
    pub(super) pairs: bool,
    /// Ends at least [`READ_AHEAD`] samples behind the last window.
    pub(super) row: &'a [T],
    pub(super) at: usize,
    /// First result's index, modulo `up`.
    pub(super) turn: u64,
    /// Phase of the first result, in parts of `up`.
    pub(super) phase: u64,
    pub(super) up: u64,
    pub(super) down: u64,
    pub(super) results: &'a mut [T],
}

impl<T: Precision> Kernel for Sums<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let single = size_of::<T>() == 4;
        #[cfg(target_arch = "x86_64")]
        if let Some(level) = Avx2::of(level) {
            return match single {
                true => self.of::<f32>().compute::<Singles>(level),
                false => self.of::<f64>().compute::<Doubles>(level),
            };
        }
        let _ = level;
        match single {
            true => self.of::<f32>().compute::<Plain<f32, 8>>(()),
            false => self.of::<f64>().compute::<Plain<f64, 4>>(()),
        }
    }
}

impl<'a, T: Precision> Sums<'a, T> {
    #[inline(always)]
    fn of<N: Precision>(self) -> Sums<'a, N> {
        Sums {
            taps: self.taps,
            weights: cast_slice(self.weights),
            between: self.between,
            pairs: self.pairs,
            row: cast_slice(self.row),
            at: self.at,
            turn: self.turn,
            phase: self.phase,
            up: self.up,
            down: self.down,
            results: bytemuck::cast_slice_mut(self.results),
        }
    }

    #[inline(always)]
    fn compute<V: Vector<Scalar = T>>(self, level: V::Level) {
        match self.between {
            Some(phases) => self.between_phases::<V>(level, phases),
            None if self.down == 1 => self.side_by_side::<V>(level),
            None => self.phase_by_phase::<V>(level),
        }
    }

    #[inline(always)]
    fn side_by_side<V: Vector<Scalar = T>>(self, level: V::Level) {
        let (taps, up) = (self.taps, self.up as usize);
        let side = SIDE * size_of::<V::Lane>() / size_of::<T>();
        let before = self.phase as usize;
        let windows = (before + self.results.len()).div_ceil(up);
        for from in (0..windows).step_by(side) {
            let row = &self.row[self.at + from..][..taps + side - 1];
            let first = from * up;
            for phase in (0..up).step_by(2) {
                let other = (phase + 1).min(up - 1);
                let row_of = |phase: usize| &self.weights[phase * taps..][..taps];
                let rows = [row_of(phase), row_of(other)];
                let sums = neighbouring_windows::<V>(level, rows, row, side);
                let [a, b]: [&[T]; 2] = [cast_slice(&sums[0]), cast_slice(&sums[1])];
                let inside = first.checked_sub(before);
                let mut block = inside.and_then(|at| self.results.get_mut(at..at + side * up));
                if let (Some(block), 2) = (&mut block, up) {
                    let (block, _) = block.as_chunks_mut::<2>();
                    for ((results, a), b) in block.iter_mut().zip(a).zip(b) {
                        *results = [*a, *b];
                    }
                    continue;
                }
                if let Some(block) = block {
                    for ((results, a), b) in block.chunks_exact_mut(up).zip(a).zip(b) {
                        results[phase] = *a;
                        results[other] = *b;
                    }
                    continue;
                }
                for (k, (a, b)) in a.iter().zip(b).enumerate() {
                    for (sum, phase) in [(a, phase), (b, other)] {
                        let place = (first + k * up + phase).wrapping_sub(before);
                        if let Some(result) = self.results.get_mut(place) {
                            *result = *sum;
                        }
                    }
                }
            }
        }
    }

    /// Results `up` apart share a phase; windows are `down` apart.
    #[inline(always)]
    fn phase_by_phase<V: Vector<Scalar = T>>(self, level: V::Level) {
        let Self { row, results, .. } = self;
        let (up, down, taps) = (self.up as usize, self.down as usize, self.taps);
        let (whole, part) = (down / up, down % up);
        let (mut at, mut phase, mut turn) = (self.at, self.phase as usize, self.turn as usize);
        let all = up.min(results.len());
        let mut first = 0;
        while first < all {
            let paired = self.pairs && turn.is_multiple_of(2) && turn + 1 < up && first + 1 < all;
            let second_of_pair = self.pairs && turn % 2 == 1;
            let back = whole + usize::from(phase < part);
            let mut from = if second_of_pair { at - back } else { at };
            let rows = &self.weights[turn * taps..];
            let mut left = (results.len() - first).div_ceil(up);
            let mut n = first;
            while left > 0 {
                // Missing ones repeat the last.
                let window = |k: usize| &row[from + k.min(left - 1) * down..][..taps];
                let windows = [window(0), window(1), window(2), window(3)];
                let step = if paired { 4 } else { 8 };
                if paired {
                    let (one, other) = rows[..2 * taps].split_at(taps);
                    let [one, other] = four_windows_two_phases::<V>(level, [one, other], windows);
                    for k in 0..left.min(4) {
                        results[n + k * up] = one[k];
                        if let Some(result) = results.get_mut(n + k * up + 1) {
                            *result = other[k];
                        }
                    }
                } else {
                    let more = [window(4), window(5), window(6), window(7)];
                    let sums = eight_windows::<V>(level, &rows[..taps], [windows, more]);
                    for k in 0..left.min(8) {
                        results[n + k * up] = sums[k / 4][k % 4];
                    }
                }
                (n, from) = (n + step * up, from + step * down);
                left = left.saturating_sub(step);
            }
            for _ in 0..1 + usize::from(paired) {
                (first, turn) = (first + 1, turn + 1);
                if turn == up {
                    turn = 0;
                }
                (at, phase) = (at + whole, phase + part);
                if phase >= up {
                    (at, phase) = (at + 1, phase - up);
                }
            }
        }
    }

    #[inline(always)]
    fn between_phases<V: Vector<Scalar = T>>(self, level: V::Level, phases: u64) {
        let (whole, part) = ((self.down / self.up) as usize, self.down % self.up);
        let (mut at, mut phase) = (self.at, self.phase);
        let dense = phases as f64 / self.up as f64;
        // Signed conversion is one instruction; ratios are below 2^63.
        for result in self.results {
            let place = phase.cast_signed() as f64 * dense;
            // Rounding may reach the next phase, whose cubic continues this one.
            let row = (place as i64).min(phases.cast_signed() - 1);
            let rest = V::all(level, T::of(place - row as f64));
            let cubics = &self.weights[row as usize * 4 * self.taps..][..4 * self.taps];
            *result = cubic::<V>(level, cubics, rest, &self.row[at..][..self.taps]);
            (at, phase) = (at + whole, phase + part);
            if phase >= self.up {
                (at, phase) = (at + 1, phase - self.up);
            }
        }
    }
}

/// Oldest sample first.
#[inline(always)]
fn neighbouring_windows<V: Vector>(
    level: V::Level,
    weights: [&[V::Scalar]; 2],
    row: &[V::Scalar],
    side: usize,
) -> [[V::Lane; SIDE]; 2] {
    let zero = V::all(level, V::Scalar::of(0.0));
    let (mut a, mut b) = ([zero; SIDE], [zero; SIDE]);
    for ((x, y), samples) in weights[0].iter().zip(weights[1]).zip(row.windows(side)) {
        let (x, y) = (V::all(level, *x), V::all(level, *y));
        let samples = cast_slice::<V::Scalar, V::Lane>(samples);
        for ((a, b), samples) in a.iter_mut().zip(&mut b).zip(samples) {
            let samples = V::load(level, samples);
            *a = a.add(x.mul(samples));
            *b = b.add(y.mul(samples));
        }
    }
    [stored(a), stored(b)]
}

/// A loop, as below: closures of `map` are not compiled for the instruction set.
#[inline(always)]
fn stored<V: Vector>(vectors: [V; SIDE]) -> [V::Lane; SIDE] {
    let mut lanes = [V::Lane::zeroed(); SIDE];
    for (lane, vector) in lanes.iter_mut().zip(vectors) {
        *lane = vector.store();
    }
    lanes
}

#[inline(always)]
fn vector_pairs<V: Vector>(numbers: &[V::Scalar]) -> &[[V::Lane; 2]] {
    cast_slice::<_, V::Lane>(numbers).as_chunks::<2>().0
}

#[inline(always)]
fn vectors<V: Vector>(numbers: &[V::Scalar]) -> &[V::Lane] {
    cast_slice(numbers)
}

#[inline(always)]
fn eight_windows<V: Vector>(
    level: V::Level,
    weights: &[V::Scalar],
    windows: [[&[V::Scalar]; 4]; 2],
) -> [[V::Scalar; 4]; 2] {
    let [[a, b, c, d], [e, f, g, h]] = windows;
    let (a, b, c, d) = (
        vectors::<V>(a),
        vectors::<V>(b),
        vectors::<V>(c),
        vectors::<V>(d),
    );
    let (e, f, g, h) = (
        vectors::<V>(e),
        vectors::<V>(f),
        vectors::<V>(g),
        vectors::<V>(h),
    );
    let (first, second) = (a.iter().zip(b).zip(c).zip(d), e.iter().zip(f).zip(g).zip(h));
    let mut sums = [V::all(level, V::Scalar::of(0.0)); 8];
    let all = vectors::<V>(weights).iter().zip(first).zip(second);
    for ((weights, (((a, b), c), d)), (((e, f), g), h)) in all {
        let weights = V::load(level, weights);
        for (sum, window) in sums.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *sum = sum.add(weights.mul(V::load(level, window)));
        }
    }
    let [a, b, c, d, e, f, g, h] = sums;
    [
        [a.sum(), b.sum(), c.sum(), d.sum()],
        [e.sum(), f.sum(), g.sum(), h.sum()],
    ]
}

#[inline(always)]
fn four_windows_two_phases<V: Vector>(
    level: V::Level,
    weights: [&[V::Scalar]; 2],
    windows: [&[V::Scalar]; 4],
) -> [[V::Scalar; 4]; 2] {
    let [w, x, y, z] = windows;
    let (w, x, y, z) = (
        vectors::<V>(w),
        vectors::<V>(x),
        vectors::<V>(y),
        vectors::<V>(z),
    );
    let (one, other) = (vectors::<V>(weights[0]), vectors::<V>(weights[1]));
    let zero = V::all(level, V::Scalar::of(0.0));
    let (mut sums, mut others) = ([zero; 4], [zero; 4]);
    let windows = w.iter().zip(x).zip(y).zip(z);
    for ((one, other), (((w, x), y), z)) in one.iter().zip(other).zip(windows) {
        let (one, other) = (V::load(level, one), V::load(level, other));
        for ((a, b), window) in sums.iter_mut().zip(&mut others).zip([w, x, y, z]) {
            let window = V::load(level, window);
            *a = a.add(one.mul(window));
            *b = b.add(other.mul(window));
        }
    }
    let ([a, b, c, d], [e, f, g, h]) = (sums, others);
    [
        [a.sum(), b.sum(), c.sum(), d.sum()],
        [e.sum(), f.sum(), g.sum(), h.sum()],
    ]
}

#[inline(always)]
fn cubic<V: Vector>(
    level: V::Level,
    cubics: &[V::Scalar],
    rest: V,
    window: &[V::Scalar],
) -> V::Scalar {
    let zero = V::all(level, V::Scalar::of(0.0));
    let mut sums = [zero; 2];
    let (cubics, _) = cast_slice::<_, V::Lane>(cubics).as_chunks::<4>();
    let (cubics, _) = cubics.as_chunks::<2>();
    for (cubics, window) in cubics.iter().zip(vector_pairs::<V>(window)) {
        for half in 0..2 {
            let [a, b, c, d] = &cubics[half];
            let weights = V::load(level, d).mul(rest).add(V::load(level, c));
            let weights = weights.mul(rest).add(V::load(level, b));
            let weights = weights.mul(rest).add(V::load(level, a));
            sums[half] = sums[half].add(weights.mul(V::load(level, &window[half])));
        }
    }
    sums[0].add(sums[1]).sum()
}
