//! Short-term over long-term average power.

use crate::DspError;
use crate::isa::{Isa, Kernel, Level};
use crate::running::{Real, SlidingSum, checked};

fn windows(sta: usize, lta: usize) -> Result<(usize, usize), DspError> {
    let sta = checked("stalta", "sta", sta, 1)?;
    let lta = checked("stalta", "lta", lta, 1)?;
    if lta > sta {
        return Ok((sta, lta));
    }
    Err(DspError::Parameter {
        operator: "stalta",
        parameter: "lta",
        got: format!("{lta} samples"),
        allowed: format!("longer than sta={sta} samples"),
    })
}

/// Zeros give the ratio 0, not NaN.
#[inline(always)]
fn at_least(value: f64, least: f64) -> f64 {
    // Keeps NaN.
    if value < least { least } else { value }
}

/// Ratio of the mean squares of the last `sta` and `lta` samples.
///
/// Input: numbers. Output: the ratio for each sample, without delay; 0 for the first `lta - 1`. A long-term average
/// below the least normal f64 (2.2e-308) counts as that, so silence gives 0. Relative error: at most (sta + lta + 4) *
/// 2^-53 ([`SlidingSum`]). NaN and infinities affect the `lta` ratios of their windows; an infinity gives NaN while in
/// both, then 0.
///
/// Source: Allen, *Automatic earthquake recognition and timing from single traces* (1978); conventions of ObsPy's
/// `classic_sta_lta`.
///
/// ```
/// use isochrony_dsp::detect::ClassicStaLta;
/// let mut stalta = ClassicStaLta::new(1, 3)?;
/// let mut ratios = [0.0; 4];
/// stalta.run(&[1.0, 1.0, 1.0, 4.0], &mut ratios);
/// assert_eq!(ratios, [0.0, 0.0, 1.0, 16.0 / 6.0]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct ClassicStaLta {
    sta: SlidingSum,
    lta: SlidingSum,
    missing: usize,
    /// lta / sta, from sums to means.
    scale: f64,
    least: f64,
}

impl ClassicStaLta {
    /// Windows in samples.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if `lta` is not longer than `sta`, or either is 0 or above 2^28.
    pub fn new(sta: usize, lta: usize) -> Result<Self, DspError> {
        let (sta, lta) = windows(sta, lta)?;
        Ok(Self {
            sta: SlidingSum::new(sta),
            lta: SlidingSum::new(lta),
            missing: lta - 1,
            scale: lta as f64 / sta as f64,
            least: f64::MIN_POSITIVE * lta as f64,
        })
    }

    /// Computes one ratio per value.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        self.sta.prepare();
        self.lta.prepare();
        let early = self.missing.min(values.len());
        self.missing -= early;
        let (filling, values) = values.split_at(early);
        for (value, result) in filling.iter().zip(&mut *results) {
            let power = value.double() * value.double();
            self.sta.add(power);
            self.lta.add(power);
            *result = T::of(0.0);
        }
        Isa::best().run_narrow(RatioKernel {
            state: self,
            values,
            results: &mut results[early..],
        });
    }

    /// Starts a contiguous range.
    pub fn reset(&mut self) {
        self.missing = self.lta.window() - 1;
        self.sta.reset();
        self.lta.reset();
    }

    /// Bytes of state.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.sta.bytes() + self.lta.bytes()
    }
}

const LANES: usize = 4;
const TILE: usize = 64;

/// Only block sums of full windows are serial; the rest is vectorised.
struct RatioKernel<'a, T> {
    state: &'a mut ClassicStaLta,
    values: &'a [T],
    results: &'a mut [T],
}

impl<T: Real> Kernel for RatioKernel<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let ClassicStaLta {
            sta,
            lta,
            scale,
            least,
            ..
        } = self.state;
        let (mut values, mut results) = (self.values, self.results);
        while !values.is_empty() {
            let count = sta.room().min(lta.room()).min(values.len());
            let (some, rest) = values.split_at(count);
            let (ratios, later) = results.split_at_mut(count);
            (values, results) = (rest, later);
            let mut heads = [sta.head(), lta.head()];
            let (short, long) = (sta.places(count), lta.places(count));
            let whole = count / LANES * LANES;
            for at in (0..whole).step_by(LANES) {
                let some: [T; LANES] = array(&some[at..]);
                let powers = some.map(|value| value.double() * value.double());
                let mut sums = [array(&short[at + 1..]), array(&long[at + 1..])];
                let mut both = [[0.0; LANES]; 2];
                for lane in 0..LANES {
                    heads = heads.map(|head| head + powers[lane]);
                    (both[0][lane], both[1][lane]) = (heads[0], heads[1]);
                }
                for lane in 0..LANES {
                    sums[0][lane] += both[0][lane];
                    sums[1][lane] += both[1][lane];
                }
                short[at..at + LANES].copy_from_slice(&powers);
                long[at..at + LANES].copy_from_slice(&powers);
                for lane in 0..LANES {
                    let ratio = sums[0][lane] * *scale / at_least(sums[1][lane], *least);
                    ratios[at + lane] = T::of(ratio);
                }
            }
            for at in whole..count {
                let power = some[at].double() * some[at].double();
                heads = heads.map(|head| head + power);
                let sums = [heads[0] + short[at + 1], heads[1] + long[at + 1]];
                (short[at], long[at]) = (power, power);
                ratios[at] = T::of(sums[0] * *scale / at_least(sums[1], *least));
            }
            sta.advance(count, heads[0]);
            lta.advance(count, heads[1]);
        }
    }
}

#[inline(always)]
fn array<T: Copy>(numbers: &[T]) -> [T; LANES] {
    let numbers = &numbers[..LANES];
    std::array::from_fn(|lane| numbers[lane])
}

/// Ratio of exponentially weighted mean squares with time constants of `sta` and `lta` samples.
///
/// Input: numbers. Output: the ratio s / l for each sample, without delay; 0 for the first `lta`. From 0, s grows by
/// (x² - s) / sta and l by (x² - l) / lta at each sample after a range's first. An average below the least normal f64
/// (2.2e-308) is 0 in s and that number in l, so silence gives 0. Relative error: at most 2^-52 per sample of age. NaN
/// and infinities last to the end of the range.
///
/// Source: Withers et al., *A comparison of select trigger algorithms for automated global seismic phase and event
/// detection* (1998); conventions of ObsPy's `recursive_sta_lta`, including the first sample's.
///
/// ```
/// use isochrony_dsp::detect::RecursiveStaLta;
/// let mut stalta = RecursiveStaLta::new(1, 2)?;
/// let mut ratios = [0.0; 4];
/// stalta.run(&[9.0, 1.0, 1.0, 3.0], &mut ratios);
/// assert_eq!(ratios, [0.0, 0.0, 1.0 / 0.75, 9.0 / 4.875]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct RecursiveStaLta {
    gains: [f64; 2],
    averages: [f64; 2],
    lta: usize,
    count: usize,
}

impl RecursiveStaLta {
    /// Time constants in samples.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if `lta` is not longer than `sta`, or either is 0 or above 2^28.
    pub fn new(sta: usize, lta: usize) -> Result<Self, DspError> {
        let (sta, lta) = windows(sta, lta)?;
        Ok(Self {
            gains: [1.0 / sta as f64, 1.0 / lta as f64],
            averages: [0.0; 2],
            lta,
            count: 0,
        })
    }

    /// Computes one ratio per value.
    pub fn run<T: Real>(&mut self, values: &[T], results: &mut [T]) {
        let early = values.len().min(self.lta - self.count);
        let (filling, values) = values.split_at(early);
        for (value, result) in filling.iter().zip(&mut *results) {
            if self.count > 0 {
                self.average(value.double());
            }
            self.count += 1;
            *result = T::of(0.0);
        }
        let results = results[early..].chunks_mut(TILE);
        for (values, results) in values.chunks(TILE).zip(results) {
            let before = self.averages;
            if self.run_normal(values, results) {
                continue;
            }
            self.averages = before;
            for (value, result) in values.iter().zip(results) {
                let [sta, lta] = self.average(value.double());
                *result = T::of(sta / at_least(lta, f64::MIN_POSITIVE));
            }
        }
    }

    /// Omits the check for subnormal averages, which takes longer than the rest. Returns false if one was.
    fn run_normal<T: Real>(&mut self, values: &[T], results: &mut [T]) -> bool {
        let ([sta_gain, lta_gain], [mut sta, mut lta]) = (self.gains, self.averages);
        let (sta_rest, lta_rest) = (1.0 - sta_gain, 1.0 - lta_gain);
        let is_subnormal = |value: f64| value < f64::MIN_POSITIVE && value > 0.0;
        let mut any_subnormal = false;
        for (value, result) in values.iter().zip(results) {
            let power = value.double() * value.double();
            sta = sta_gain * power + sta_rest * sta;
            lta = lta_gain * power + lta_rest * lta;
            any_subnormal |= is_subnormal(sta) | is_subnormal(lta);
            *result = T::of(sta / at_least(lta, f64::MIN_POSITIVE));
        }
        self.averages = [sta, lta];
        !any_subnormal
    }

    #[inline(always)]
    fn average(&mut self, value: f64) -> [f64; 2] {
        let power = value * value;
        for (average, gain) in self.averages.iter_mut().zip(self.gains) {
            let next = gain * power + (1.0 - gain) * *average;
            // Subnormal averages never decay, and cost a hundred cycles each.
            *average = if next < f64::MIN_POSITIVE { 0.0 } else { next };
        }
        self.averages
    }

    /// Starts a contiguous range.
    pub fn reset(&mut self) {
        self.averages = [0.0; 2];
        self.count = 0;
    }
}
