//! A cascade of second-order sections over a signal in pieces.
//!
//! State: the last two inputs and outputs of each section (direct form I), in f64. `w = b0 x + (b1 x' + b2 x'')`
//! depends on the input only, so the recursion `y = (w - a2 y'') - a1 y'` takes one product and one difference.
//!
//! Four sections run in parallel (`lanes.rs`), more in groups of four over blocks that fit the cache. Bits do not
//! depend on cuts.
//!
//! Every 4,096 samples numbers below 1e-200 are cleared: denormal numbers are a hundred times as slow.

use isochrony_segment::DType;

use super::lanes::{Group, LANES, Plain};
use super::sections::Sections;
use crate::DspError;
use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::Precision;

/// Fits the L1 cache.
const BLOCK: usize = 1024;
const DECAY_CHECK_PERIOD: usize = 4096;

/// The signal before the first sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Initial {
    /// Zeros.
    #[default]
    Zero,
    /// The first sample's value: a constant signal has no transient. As SciPy's `sosfilt_zi` times the first sample.
    Steady,
}

/// Applies [`Sections`] with state, without delay.
///
/// NaN and infinities make all later results NaN, until [`reset`](Self::reset).
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
    block: Vec<f64>,
    initial: Initial,
    at: Option<usize>,
    isa: Isa,
}

impl SosFilter {
    /// Before the first sample.
    #[must_use]
    pub fn new(sections: &Sections, initial: Initial) -> Self {
        Self::on(Isa::best(), sections, initial)
    }

    /// [`new`](Self::new) on an instruction set, for tests.
    #[must_use]
    pub fn on(isa: Isa, sections: &Sections, initial: Initial) -> Self {
        Self {
            groups: sections.as_slice().chunks(LANES).map(Group::new).collect(),
            block: vec![0.0; BLOCK],
            initial,
            at: None,
            isa,
        }
    }

    /// Forgets all samples.
    pub fn reset(&mut self) {
        self.groups.iter_mut().for_each(Group::rest);
        self.at = None;
    }

    /// Filters the next samples. `output` is as long as `input`.
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
        let Some(first) = input.first() else {
            return Ok(());
        };
        self.begin((*first).into());
        let (mut input, mut output) = (input, output);
        while !input.is_empty() {
            let count = self.advance(input.len());
            let (now, later) = input.split_at(count);
            let (out_now, out_later) = output.split_at_mut(count);
            match bytemuck::try_cast_slice_mut(out_now) {
                Ok(values) if T::DTYPE == DType::F64 => {
                    values.copy_from_slice(bytemuck::cast_slice(now));
                    self.isa.run_narrow(InPlace {
                        groups: &mut self.groups,
                        values,
                    });
                }
                _ => self.isa.run_narrow(Pass {
                    groups: &mut self.groups,
                    input: now,
                    block: &mut self.block,
                    output: out_now,
                }),
            }
            (input, output) = (later, out_later);
        }
        Ok(())
    }

    /// As [`process`](Self::process), in place.
    pub fn process_in_place(&mut self, values: &mut [f64]) {
        let Some(first) = values.first() else {
            return;
        };
        self.begin(*first);
        let mut values = values;
        while !values.is_empty() {
            let (now, later) = values.split_at_mut(self.advance(values.len()));
            self.isa.run_narrow(InPlace {
                groups: &mut self.groups,
                values: now,
            });
            values = later;
        }
    }

    fn begin(&mut self, first: f64) {
        if self.at.is_none() {
            if self.initial == Initial::Steady {
                self.settle(first);
            }
            self.at = Some(0);
        }
    }

    /// Clears decayed numbers when due.
    fn advance(&mut self, samples: usize) -> usize {
        let mut at = self.at.unwrap_or(0);
        if at == DECAY_CHECK_PERIOD {
            self.groups.iter_mut().for_each(Group::forget_decayed);
            at = 0;
        }
        let count = samples.min(BLOCK).min(DECAY_CHECK_PERIOD - at);
        self.at = Some(at + count);
        count
    }

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

struct Pass<'a, T> {
    groups: &'a mut [Group],
    input: &'a [T],
    block: &'a mut [f64],
    output: &'a mut [T],
}

impl<T: Precision + Into<f64>> Kernel for Pass<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        let values = &mut self.block[..self.input.len()];
        for (value, sample) in values.iter_mut().zip(self.input) {
            *value = (*sample).into();
        }
        let in_place = InPlace {
            groups: self.groups,
            values,
        };
        in_place.run(level);
        for (sample, value) in self.output.iter_mut().zip(&*values) {
            *sample = T::of(*value);
        }
    }
}

struct InPlace<'a> {
    groups: &'a mut [Group],
    values: &'a mut [f64],
}

impl Kernel for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, level: L) {
        #[cfg(target_arch = "x86_64")]
        if let Some(level) = crate::avx2::Avx2::of(level) {
            for group in self.groups {
                group.pass::<super::lanes_x86::Quad>(level, self.values);
            }
            return;
        }
        let _ = level;
        for group in self.groups {
            group.pass::<Plain>((), self.values);
        }
    }
}
