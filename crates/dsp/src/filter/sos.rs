//! A cascade of second-order sections applied to a signal that comes in pieces.
//!
//! State: of each section the last two samples that it was given and gave (direct form I), in double precision for
//! singles, too. `w = b0 x + (b1 x' + b2 x'')` depends on the input alone; what is left of the recursion is
//! `y = (w - a2 y'') - a1 y'`, a product and a difference a sample.
//!
//! Up to four sections run as lanes of a vector: while section 0 has sample t, section k has sample t - 4k, whose input
//! section k-1 gave four steps ago. So no step waits for more than the last result, and four sections take as long as
//! one. The skew begins and ends within a call, by the same operations one section after another, so that each sample of
//! each section is computed alike whatever the pieces: the same bits.
//!
//! Numbers that have decayed below 1e-200 are set to zero every 4,096 samples, counted from the first: behind a signal
//! that ends in zeros a recursion would go on in denormal numbers for ever, a hundred times as slow.

use super::sections::{Section, Sections};
use crate::DspError;
use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::Precision;

/// Sections that run side by side.
pub(super) const LANES: usize = 4;
/// Samples by which a section runs behind the one before it.
pub(super) const SKEW: usize = 4;
/// Samples that all groups of sections are given before the next: what stays in the first-level cache.
const BLOCK: usize = 1024;
/// Samples from one look for decayed numbers to the next.
const PERIOD: usize = 4096;
/// What is smaller has decayed.
const DECAYED: f64 = 1e-200;

/// What lies before the first sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Initial {
    /// Zeros: the filter is at rest.
    #[default]
    Zero,
    /// The first sample, since ever: a constant signal begins without a transient. As SciPy's `sosfilt_zi` times the
    /// first sample.
    Steady,
}

/// Applies [`Sections`] and keeps its state from call to call; no lag, output n belongs to input n.
///
/// NaN and infinities go through as arithmetic takes them: what follows one is NaN until [`reset`](Self::reset).
///
/// ```
/// use isochrony_dsp::filter::{Band, Family, Iir, Initial, SosFilter};
///
/// let design = Iir { family: Family::Butterworth, band: Band::Lowpass(5.0), order: 2 }.design("iir", 100.0)?;
/// let mut filter = SosFilter::new(&design, Initial::Steady);
/// let (mut first, mut second) = ([0.0; 3], [0.0; 2]);
/// filter.process(&[2.0f64; 3], &mut first)?;
/// filter.process(&[2.0; 2], &mut second)?;
/// assert!(first.iter().chain(&second).all(|y| (y - 2.0f64).abs() < 1e-12));
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct SosFilter {
    groups: Vec<Group>,
    initial: Initial,
    /// Samples since the last look for decayed numbers; None before the first sample.
    at: Option<usize>,
    isa: Isa,
}

impl SosFilter {
    /// A filter at its beginning.
    #[must_use]
    pub fn new(sections: &Sections, initial: Initial) -> Self {
        Self::on(Isa::best(), sections, initial)
    }

    /// As [`new`](Self::new), on an instruction set: for tests and benchmarks.
    #[must_use]
    pub fn on(isa: Isa, sections: &Sections, initial: Initial) -> Self {
        Self {
            groups: sections.as_slice().chunks(LANES).map(Group::new).collect(),
            initial,
            at: None,
            isa,
        }
    }

    /// Forgets all samples: what comes next is the first.
    pub fn reset(&mut self) {
        self.groups.iter_mut().for_each(Group::rest);
        self.at = None;
    }

    /// Filters the samples that follow those of the last call. `output` is as long as `input`.
    ///
    /// # Errors
    /// [`DspError::OutputLength`].
    pub fn process<T: Precision + Into<f64>>(
        &mut self,
        input: &[T],
        output: &mut [T],
    ) -> Result<(), DspError> {
        if input.len() != output.len() {
            return Err(DspError::OutputLength {
                operator: "sos filter",
                expected: input.len(),
                got: output.len(),
            });
        }
        let mut at = match (self.at, input.first()) {
            (_, None) => return Ok(()),
            (Some(at), _) => at,
            (None, Some(first)) => {
                if self.initial == Initial::Steady {
                    self.settle((*first).into());
                }
                0
            }
        };
        let mut block = [0.0; BLOCK];
        let (mut input, mut output) = (input, output);
        while !input.is_empty() {
            if at == PERIOD {
                self.groups.iter_mut().for_each(Group::forget_decayed);
                at = 0;
            }
            let count = input.len().min(BLOCK).min(PERIOD - at);
            let (now, later) = input.split_at(count);
            let (out_now, out_later) = output.split_at_mut(count);
            self.isa.run_narrow(Pass {
                groups: &mut self.groups,
                input: now,
                block: &mut block,
                output: out_now,
            });
            at += count;
            (input, output) = (later, out_later);
        }
        self.at = Some(at);
        Ok(())
    }

    /// The state in which a constant input has left the filter.
    fn settle(&mut self, mut level: f64) {
        for group in &mut self.groups {
            for k in 0..group.count {
                group.x = group.x.map(|mut x| {
                    x[k] = level;
                    x
                });
                level *= group.section(k).gain_of_constant();
                group.y = group.y.map(|mut y| {
                    y[k] = level;
                    y
                });
            }
        }
    }
}

/// One number of each section.
pub(super) type Lane = [f64; LANES];

/// Up to [`LANES`] sections that run side by side; those that are none have zeros.
#[derive(Debug, Clone)]
pub(super) struct Group {
    count: usize,
    pub(super) b: [Lane; 3],
    pub(super) a: [Lane; 2],
    /// What each was given one and two samples ago.
    pub(super) x: [Lane; 2],
    /// What each gave one and two samples ago.
    pub(super) y: [Lane; 2],
}

impl Group {
    fn new(sections: &[Section]) -> Self {
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

    fn rest(&mut self) {
        (self.x, self.y) = Default::default();
    }

    fn forget_decayed(&mut self) {
        for number in self.x.iter_mut().chain(&mut self.y).flatten() {
            if number.abs() < DECAYED {
                *number = 0.0;
            }
        }
    }

    fn section(&self, k: usize) -> Section {
        Section {
            b: self.b.map(|b| b[k]),
            a: self.a.map(|a| a[k]),
        }
    }

    /// Runs one section alone over samples, in place.
    #[inline(always)]
    fn alone(&mut self, k: usize, samples: &mut [f64]) {
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

    /// Runs all sections over samples, in place: side by side where there are samples enough.
    #[inline(always)]
    fn pass<V: Vector>(&mut self, level: V::Level, samples: &mut [f64]) {
        let behind = SKEW * (self.count - 1);
        if self.count == 1 || samples.len() <= behind {
            for k in 0..self.count {
                self.alone(k, samples);
            }
            return;
        }
        // Each section but the last gets so far ahead of the next.
        let mut first = [0.0; SKEW * (LANES - 1)];
        first[..behind].copy_from_slice(&samples[..behind]);
        for k in 0..self.count - 1 {
            self.alone(k, &mut first[..behind - SKEW * k]);
        }
        // What each gave in its last steps: lane k of `given[j]` is j + 1 steps ago.
        let mut given = [Lane::default(); SKEW];
        for k in 0..self.count - 1 {
            for (j, lane) in given.iter_mut().enumerate() {
                lane[k] = first[behind - SKEW * k - 1 - j];
            }
        }
        for (lane, y) in given.iter_mut().zip(self.y) {
            lane[self.count - 1] = y[self.count - 1];
        }
        let given = match self.count {
            2 => steps::<V, 1>(level, self, given, samples),
            3 => steps::<V, 2>(level, self, given, samples),
            _ => steps::<V, 3>(level, self, given, samples),
        };
        (self.y[0], self.y[1]) = (given[0], given[1]);
        // The later sections catch up, on what those before them gave last.
        let mut rest = [0.0; SKEW * (LANES - 1)];
        for k in 1..self.count {
            rest.copy_within(..SKEW * (k - 1), SKEW);
            for (j, lane) in given.iter().enumerate() {
                rest[SKEW - 1 - j] = lane[k - 1];
            }
            self.alone(k, &mut rest[..SKEW * k]);
        }
        let from = samples.len() - behind;
        samples[from..].copy_from_slice(&rest[..behind]);
    }
}

/// Four doubles that are computed side by side.
pub(super) trait Vector: Copy {
    /// Proof that its instructions may be used.
    type Level: Copy;
    fn load(level: Self::Level, lane: &Lane) -> Self;
    fn store(self) -> Lane;
    fn mul(self, other: Self) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    /// Every number one lane on, and a new one in lane 0.
    fn behind(self, first: f64) -> Self;
    /// The number in a lane.
    fn lane<const K: usize>(self) -> f64;
}

/// The steps in which all sections have a sample: sample t of section 0 to t = the last. Takes and gives what each
/// section gave in its last steps.
#[inline(always)]
fn steps<V: Vector, const LAST: usize>(
    level: V::Level,
    group: &mut Group,
    given: [Lane; SKEW],
    samples: &mut [f64],
) -> [Lane; SKEW] {
    let b0 = V::load(level, &group.b[0]);
    let b1 = V::load(level, &group.b[1]);
    let b2 = V::load(level, &group.b[2]);
    let a1 = V::load(level, &group.a[0]);
    let a2 = V::load(level, &group.a[1]);
    let mut x1 = V::load(level, &group.x[0]);
    let mut x2 = V::load(level, &group.x[1]);
    let mut y1 = V::load(level, &given[0]);
    let mut y2 = V::load(level, &given[1]);
    let mut y3 = V::load(level, &given[2]);
    let mut y4 = V::load(level, &given[3]);
    let behind = SKEW * LAST;
    for t in behind..samples.len() {
        let x = y4.behind(samples[t]);
        let w = b0.mul(x).add(b1.mul(x1).add(b2.mul(x2)));
        let y = w.sub(a2.mul(y2)).sub(a1.mul(y1));
        (x2, x1) = (x1, x);
        (y4, y3, y2, y1) = (y3, y2, y1, y);
        samples[t - behind] = y.lane::<LAST>();
    }
    group.x = [x1.store(), x2.store()];
    [y1.store(), y2.store(), y3.store(), y4.store()]
}

/// All groups over a block of samples: not more than [`BLOCK`].
struct Pass<'a, T> {
    groups: &'a mut [Group],
    input: &'a [T],
    block: &'a mut [f64; BLOCK],
    output: &'a mut [T],
}

impl<T: Precision + Into<f64>> Pass<'_, T> {
    #[inline(always)]
    fn run_with<V: Vector>(self, level: V::Level) {
        let values = &mut self.block[..self.input.len()];
        for (value, sample) in values.iter_mut().zip(self.input) {
            *value = (*sample).into();
        }
        for group in self.groups {
            group.pass::<V>(level, values);
        }
        for (sample, value) in self.output.iter_mut().zip(&*values) {
            *sample = T::of(*value);
        }
    }
}

impl<T: Precision + Into<f64>> Kernel for Pass<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        #[cfg(target_arch = "x86_64")]
        if let Some(level) = super::sos_x86::Avx2::of(level) {
            self.run_with::<super::sos_x86::Quad>(level);
            return;
        }
        let _ = level;
        self.run_with::<Plain>(());
    }
}

/// The same where there are no vectors of four doubles.
#[derive(Clone, Copy)]
struct Plain(Lane);

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
    fn behind(self, first: f64) -> Self {
        let [a, b, c, _] = self.0;
        Self([first, a, b, c])
    }
    #[inline(always)]
    fn lane<const K: usize>(self) -> f64 {
        self.0[K]
    }
}
