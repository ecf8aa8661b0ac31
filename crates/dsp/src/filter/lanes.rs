//! Second-order sections in parallel, as lanes of a vector.
//!
//! While section 0 processes sample t, section k processes t - 4k: a step depends only on the last result, so four
//! sections take as long as one. The skew is filled and drained within a call by the same operations, so results do not
//! depend on cuts.

use super::sections::Section;

pub(super) const LANES: usize = 4;
const SKEW: usize = 4;
/// Smaller numbers have decayed.
const DECAY_THRESHOLD: f64 = 1e-200;

pub(super) type Lane = [f64; LANES];

/// Unused lanes are zeros.
#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) count: usize,
    pub(super) b: [Lane; 3],
    pub(super) a: [Lane; 2],
    pub(super) x: [Lane; 2],
    pub(super) y: [Lane; 2],
}

impl Group {
    pub(super) fn new(sections: &[Section]) -> Self {
        let mut group = Self {
            count: sections.len(),
            b: Default::default(),
            a: Default::default(),
            x: Default::default(),
            y: Default::default(),
        };
        for (k, section) in sections.iter().enumerate() {
            for (lane, b) in group.b.iter_mut().zip(section.b) {
                lane[k] = b;
            }
            for (lane, a) in group.a.iter_mut().zip(section.a) {
                lane[k] = a;
            }
        }
        group
    }

    pub(super) fn rest(&mut self) {
        (self.x, self.y) = Default::default();
    }

    pub(super) fn forget_decayed(&mut self) {
        for number in self.x.iter_mut().chain(&mut self.y).flatten() {
            if number.abs() < DECAY_THRESHOLD {
                *number = 0.0;
            }
        }
    }

    pub(super) fn section(&self, k: usize) -> Section {
        Section {
            b: self.b.map(|b| b[k]),
            a: self.a.map(|a| a[k]),
        }
    }

    #[inline(always)]
    fn run_section(&mut self, k: usize, samples: &mut [f64]) {
        let Section { b, a } = self.section(k);
        let ([mut x1, mut x2], [mut y1, mut y2]) = (self.x.map(|x| x[k]), self.y.map(|y| y[k]));
        for sample in samples {
            let x = *sample;
            let w = b[0] * x + (b[1] * x1 + b[2] * x2);
            let y = (w - a[1] * y2) - a[0] * y1;
            (x2, x1, y2, y1) = (x1, x, y1, y);
            *sample = y;
        }
        (self.x[0][k], self.x[1][k]) = (x1, x2);
        (self.y[0][k], self.y[1][k]) = (y1, y2);
    }

    /// In place; in parallel if there are enough samples.
    #[inline(always)]
    pub(super) fn pass<V: Vector>(&mut self, level: V::Level, samples: &mut [f64]) {
        let shift_in = SKEW * (self.count - 1);
        if self.count == 1 || samples.len() <= shift_in {
            for k in 0..self.count {
                self.run_section(k, samples);
            }
            return;
        }
        let mut first = [0.0; SKEW * (LANES - 1)];
        first[..shift_in].copy_from_slice(&samples[..shift_in]);
        for k in 0..self.count - 1 {
            self.run_section(k, &mut first[..shift_in - SKEW * k]);
        }
        // Lane k of `last_outputs[j]` is j + 1 steps old.
        let mut last_outputs = [Lane::default(); SKEW];
        for k in 0..self.count - 1 {
            for (j, lane) in last_outputs.iter_mut().enumerate() {
                lane[k] = first[shift_in - SKEW * k - 1 - j];
            }
        }
        for (lane, y) in last_outputs.iter_mut().zip(self.y) {
            lane[self.count - 1] = y[self.count - 1];
        }
        let last_outputs = match self.count {
            2 => steps::<V, 1>(level, self, last_outputs, samples),
            3 => steps::<V, 2>(level, self, last_outputs, samples),
            _ => steps::<V, 3>(level, self, last_outputs, samples),
        };
        (self.y[0], self.y[1]) = (last_outputs[0], last_outputs[1]);
        let mut rest = [0.0; SKEW * (LANES - 1)];
        for k in 1..self.count {
            rest.copy_within(..SKEW * (k - 1), SKEW);
            for (j, lane) in last_outputs.iter().enumerate() {
                rest[SKEW - 1 - j] = lane[k - 1];
            }
            self.run_section(k, &mut rest[..SKEW * k]);
        }
        let from = samples.len() - shift_in;
        samples[from..].copy_from_slice(&rest[..shift_in]);
    }
}

pub(super) trait Vector: Copy {
    type Level: Copy;
    fn load(level: Self::Level, lane: &Lane) -> Self;
    fn store(self) -> Lane;
    fn mul(self, other: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn shift_in(self, first: f64) -> Self;
    fn lane<const K: usize>(self) -> f64;
}

/// Steps in which all sections have a sample.
#[inline(always)]
fn steps<V: Vector, const LAST: usize>(
    level: V::Level,
    group: &mut Group,
    last_outputs: [Lane; SKEW],
    samples: &mut [f64],
) -> [Lane; SKEW] {
    let b0 = V::load(level, &group.b[0]);
    let b1 = V::load(level, &group.b[1]);
    let b2 = V::load(level, &group.b[2]);
    let a1 = V::load(level, &group.a[0]);
    let a2 = V::load(level, &group.a[1]);
    let mut x1 = V::load(level, &group.x[0]);
    let mut x2 = V::load(level, &group.x[1]);
    let mut y1 = V::load(level, &last_outputs[0]);
    let mut y2 = V::load(level, &last_outputs[1]);
    let mut y3 = V::load(level, &last_outputs[2]);
    let mut y4 = V::load(level, &last_outputs[3]);
    let shift_in = SKEW * LAST;
    for t in shift_in..samples.len() {
        let x = y4.shift_in(samples[t]);
        let w = b0.mul(x).add(b1.mul(x1).add(b2.mul(x2)));
        let y = w.sub(a2.mul(y2)).sub(a1.mul(y1));
        (x2, x1) = (x1, x);
        (y4, y3, y2, y1) = (y3, y2, y1, y);
        samples[t - shift_in] = y.lane::<LAST>();
    }
    group.x = [x1.store(), x2.store()];
    [y1.store(), y2.store(), y3.store(), y4.store()]
}

#[derive(Clone, Copy)]
pub(super) struct Plain(Lane);

impl Plain {
    #[inline(always)]
    fn with(self, other: Self, op: impl Fn(f64, f64) -> f64) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([op(a, e), op(b, f), op(c, g), op(d, h)])
    }
}

impl Vector for Plain {
    type Level = ();
    #[inline(always)]
    fn load((): (), lane: &Lane) -> Self {
        Self(*lane)
    }
    #[inline(always)]
    fn store(self) -> Lane {
        self.0
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(other, |x, y| x * y)
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(other, |x, y| x + y)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(other, |x, y| x - y)
    }
    #[inline(always)]
    fn shift_in(self, first: f64) -> Self {
        let [a, b, c, _] = self.0;
        Self([first, a, b, c])
    }
    #[inline(always)]
    fn lane<const K: usize>(self) -> f64 {
        self.0[K]
    }
}
