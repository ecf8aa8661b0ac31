use std::marker::PhantomData;

use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::Sample;

use super::Reducer;
use crate::Reduction;
use crate::kernels::{Value, samples};

pub(crate) const LANES: usize = 32;

/// Lanes per pass: two sums of them fill AVX2's registers. Lanes are independent, so two passes give the same bits.
const HALF: usize = LANES / 2;

pub(crate) trait Real: Sample {
    fn wide(self) -> f64;
    fn value(wide: f64) -> Value;
}

impl Real for f32 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self.into()
    }

    fn value(wide: f64) -> Value {
        Value::of(wide as f32)
    }
}

impl Real for f64 {
    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }

    fn value(wide: f64) -> Value {
        Value::of(wide)
    }
}

/// Terms of a sample. `of` must be `#[inline(always)]`.
pub(crate) trait Terms: Send + Sync + 'static {
    const TWO: bool;
    fn of(sample: f64, shift: f64) -> [f64; 2];
}

macro_rules! terms {
    ($($(#[$doc:meta])* $name:ident, $two:literal, |$x:ident, $shift:ident| $terms:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl Terms for $name {
            const TWO: bool = $two;

            #[inline(always)]
            fn of($x: f64, $shift: f64) -> [f64; 2] {
                $terms
            }
        }
    )*};
}

terms! {
    Plain, false, |x, _shift| [x, 0.0];
    /// Squares; those of f32 are exact.
    Squares, false, |x, _shift| [x * x, 0.0];
    /// Deviations from the first sample.
    Deviation, false, |x, shift| [x - shift, 0.0];
    /// Deviations and their squares.
    Spread, true, |x, shift| {
        let d = x - shift;
        [d, d * d]
    };
}

#[derive(Clone, Copy)]
struct Lanes<const N: usize> {
    first: [f64; N],
    second: [f64; N],
}

impl<const N: usize> Lanes<N> {
    #[inline(always)]
    fn add<T: Terms>(&mut self, lane: usize, sample: f64, shift: f64) {
        let [first, second] = T::of(sample, shift);
        self.first[lane] += first;
        if T::TWO {
            self.second[lane] += second;
        }
    }
}

pub(crate) struct Sums<F, T> {
    lanes: [Lanes<HALF>; 2],
    /// The first sample, or zero if it is not finite.
    shift: f64,
    seen: u64,
    kind: PhantomData<(F, T)>,
}

impl<F, T> Default for Sums<F, T> {
    fn default() -> Self {
        let zero = Lanes {
            first: [0.0; HALF],
            second: [0.0; HALF],
        };
        Self {
            lanes: [zero; 2],
            shift: 0.0,
            seen: 0,
            kind: PhantomData,
        }
    }
}

impl<F: Real, T: Terms> Sums<F, T> {
    #[inline(always)]
    fn each(&mut self, samples: &[F]) {
        for &sample in samples {
            let lane = (self.seen % LANES as u64) as usize;
            self.lanes[lane / HALF].add::<T>(lane % HALF, sample.wide(), self.shift);
            self.seen += 1;
        }
    }

    #[inline(always)]
    fn groups(
        mut lanes: Lanes<HALF>,
        half: usize,
        groups: &[[F; LANES]],
        shift: f64,
    ) -> Lanes<HALF> {
        for group in groups {
            let (halves, _) = group.as_chunks::<HALF>();
            let wide = halves[half].map(Real::wide);
            for (lane, &sample) in wide.iter().enumerate() {
                lanes.add::<T>(lane, sample, shift);
            }
        }
        lanes
    }

    #[inline(always)]
    fn add(&mut self, samples: &[F]) {
        if self.seen == 0
            && let Some(first) = samples.first()
        {
            let first = first.wide();
            self.shift = if first.is_finite() { first } else { 0.0 };
        }
        let misplaced = (self.seen.wrapping_neg() % LANES as u64) as usize;
        let (head, body) = samples.split_at(misplaced.min(samples.len()));
        self.each(head);
        let (groups, tail) = body.as_chunks::<LANES>();
        self.lanes[0] = Self::groups(self.lanes[0], 0, groups, self.shift);
        self.lanes[1] = Self::groups(self.lanes[1], 1, groups, self.shift);
        self.seen += (groups.len() * LANES) as u64;
        self.each(tail);
    }

    fn totals(&self) -> (f64, f64) {
        let [a, b] = &self.lanes;
        (tree(&a.first, &b.first), tree(&a.second, &b.second))
    }
}

pub(super) fn tree(low: &[f64; HALF], high: &[f64; HALF]) -> f64 {
    let mut lanes = [0.0; HALF];
    for (sum, (a, b)) in lanes.iter_mut().zip(low.iter().zip(high)) {
        *sum = a + b;
    }
    let mut width = HALF / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

struct Update<'a, F, T> {
    sums: &'a mut Sums<F, T>,
    samples: &'a [F],
}

impl<F: Real, T: Terms> Kernel for Update<'_, F, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        self.sums.add(self.samples);
    }
}

impl<F: Real, T: Terms> Reducer for Sums<F, T> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        isa.run(Update {
            sums: self,
            samples: samples(block),
        });
    }

    fn finish(&self, wanted: Reduction) -> Value {
        let (first, second) = self.totals();
        let n = self.seen as f64;
        F::value(match wanted {
            Reduction::Sum => first,
            Reduction::Mean => self.shift + first / n,
            Reduction::Rms => (first / n).sqrt(),
            Reduction::Std => variance(first, second, n).sqrt(),
            _ => variance(first, second, n),
        })
    }
}

/// Clears negative rounding errors, keeps NaN.
pub(super) fn variance(deviations: f64, squares: f64, n: f64) -> f64 {
    let variance = (squares - deviations * (deviations / n)) / n;
    if variance < 0.0 { 0.0 } else { variance }
}
