//! Reductions of complex samples: components in f64 lanes, extremes by real, then imaginary part.

use isochrony_dsp::{Isa, Kernel, Level};
use isochrony_segment::{Complex, Complex32, Complex64};

use super::Reducer;
use super::lanes::{LANES, tree, variance};
use crate::Reduction;
use crate::kernels::{Arith, Order, Value, samples};

pub(crate) trait Parts: Arith + Order {
    fn wide(self) -> Complex64;
    fn value(wide: Complex64) -> Value;
    fn part(wide: f64) -> Value;
}

impl Parts for Complex32 {
    #[inline(always)]
    fn wide(self) -> Complex64 {
        Complex::new(self.re.into(), self.im.into())
    }

    fn value(wide: Complex64) -> Value {
        Value::of(Self::new(wide.re as f32, wide.im as f32))
    }

    fn part(wide: f64) -> Value {
        Value::of(wide as f32)
    }
}

impl Parts for Complex64 {
    #[inline(always)]
    fn wide(self) -> Complex64 {
        self
    }

    fn value(wide: Complex64) -> Value {
        Value::of(wide)
    }

    fn part(wide: f64) -> Value {
        Value::of(wide)
    }
}

const SUMS: usize = 6;

pub(crate) struct Sums<C> {
    /// Sums of real and imaginary parts: of values, deviations from the first sample, squared deviations, and squares.
    lanes: [[f64; LANES]; SUMS],
    first: Complex64,
    min: C,
    max: C,
    seen: usize,
}

impl<C: Parts> Default for Sums<C> {
    fn default() -> Self {
        Self {
            lanes: [[0.0; LANES]; SUMS],
            first: Complex64::default(),
            min: C::default(),
            max: C::default(),
            seen: 0,
        }
    }
}

struct Update<'a, C> {
    sums: &'a mut Sums<C>,
    samples: &'a [C],
}

impl<C: Parts> Kernel for Update<'_, C> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        let Update { sums, samples } = self;
        let Some(&first) = samples.first() else {
            return;
        };
        if sums.seen == 0 {
            let finite = |part: f64| if part.is_finite() { part } else { 0.0 };
            let wide = first.wide();
            sums.first = Complex::new(finite(wide.re), finite(wide.im));
            (sums.min, sums.max) = (first, first);
        }
        for &sample in samples {
            let lane = sums.seen % LANES;
            sums.seen += 1;
            let wide = sample.wide();
            let (re, im) = (wide.re - sums.first.re, wide.im - sums.first.im);
            let squares = wide.re * wide.re + wide.im * wide.im;
            let terms = [wide.re, wide.im, re, im, re * re + im * im, squares];
            for (lanes, term) in sums.lanes.iter_mut().zip(terms) {
                lanes[lane] += term;
            }
            sums.min = sums.min.smaller(sample);
            sums.max = sums.max.larger(sample);
        }
    }
}

impl<C: Parts> Reducer for Sums<C> {
    fn reset(&mut self) {
        *self = Self::default();
    }

    fn update(&mut self, isa: Isa, block: &[u8]) {
        isa.run_plain(Update {
            sums: self,
            samples: samples(block),
        });
    }

    fn finish(&self, wanted: Reduction) -> Value {
        let sum = |which: usize| {
            let (low, high) = self.lanes[which].split_at(LANES / 2);
            match (low.try_into(), high.try_into()) {
                (Ok(low), Ok(high)) => tree(low, high),
                _ => f64::NAN,
            }
        };
        let n = self.seen as f64;
        // Squares and their corrections add up over both components.
        let spread = || {
            let (re, im) = (sum(2), sum(3));
            variance(re, sum(4) - im * (im / n), n)
        };
        match wanted {
            Reduction::Sum => C::value(Complex::new(sum(0), sum(1))),
            Reduction::Mean => C::value(Complex::new(
                self.first.re + sum(2) / n,
                self.first.im + sum(3) / n,
            )),
            Reduction::Rms => C::part((sum(5) / n).sqrt()),
            Reduction::Std => C::part(spread().sqrt()),
            Reduction::Var => C::part(spread()),
            // Hides the sign of zero, which depends on order.
            Reduction::Min => Value::of(self.min.plus(C::default())),
            _ => Value::of(self.max.plus(C::default())),
        }
    }
}
