//! Lazy selections of samples.
//!
//! A selection is a list of *parts*: index ranges of one run each, which may cover gaps, ordered by index or by civil
//! time. *Stretches* are their gap-free ranges.

mod by_time;
mod values;

use std::ops::Range;

use isochrony_segment::SigSeg;
use isochrony_time::Fixed;

use crate::error::StoreError;
use crate::signal::{GapTimes, Signal};
use crate::span::{Overlap, ResolvedSpan};
use crate::state::Gap;

pub(crate) use values::write_values;
pub use values::{Fill, Values};

/// Indices of one run. A part may cover gaps, a stretch not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stretch {
    /// Id of the run.
    pub run: u32,
    /// Half-open range of indices.
    pub range: Range<i64>,
}

/// Civil time without samples in a selection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// End of the last to time of the next sample.
    pub times: GapTimes,
    /// The gap by indices; `None` between runs.
    pub gap: Option<Gap>,
}

/// Samples of a signal in a range of any timebase. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Selection {
    signal: Signal,
    parts: Vec<Stretch>,
    span: ResolvedSpan,
}

impl Selection {
    pub(crate) fn new(
        signal: Signal,
        span: ResolvedSpan,
        overlap: Overlap,
    ) -> Result<Self, StoreError> {
        let parts = match &span {
            ResolvedSpan::Index(range) => by_index(&signal, range)?,
            ResolvedSpan::Civil(range) => signal.civil_selection(range, overlap)?,
        };
        Ok(Self {
            signal,
            parts,
            span,
        })
    }

    /// A selection of known [`parts`](Self::parts) of a range of civil time.
    ///
    /// # Errors
    /// [`StoreError::OutOfBounds`].
    pub fn of_parts(
        signal: Signal,
        civil: Range<Fixed>,
        parts: impl IntoIterator<Item = Range<i64>>,
    ) -> Result<Self, StoreError> {
        let parts = parts.into_iter().map(|range| by_index(&signal, &range));
        let parts: Vec<Vec<Stretch>> = parts.collect::<Result<_, _>>()?;
        Ok(Self {
            signal,
            parts: parts.concat(),
            span: ResolvedSpan::Civil(civil),
        })
    }

    /// The signal at the selection.
    #[must_use]
    pub fn signal(&self) -> &Signal {
        &self.signal
    }

    /// The requested index range, unless requested by time.
    #[must_use]
    pub fn index_range(&self) -> Option<Range<i64>> {
        match &self.span {
            ResolvedSpan::Index(range) => Some(range.clone()),
            ResolvedSpan::Civil(_) => None,
        }
    }

    /// The requested civil time, unless requested by index.
    #[must_use]
    pub fn civil_range(&self) -> Option<Range<Fixed>> {
        match &self.span {
            ResolvedSpan::Index(_) => None,
            ResolvedSpan::Civil(range) => Some(range.clone()),
        }
    }

    /// Index ranges of one run each, gaps included.
    #[must_use]
    pub fn parts(&self) -> &[Stretch] {
        &self.parts
    }

    /// Gap-free index ranges of one run each.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        self.parts
            .iter()
            .flat_map(|part| stretches(&self.signal, part))
    }

    /// One segment per stretch, read when reached, zero-copy if possible.
    pub fn segments(&self) -> impl Iterator<Item = Result<SigSeg, StoreError>> + '_ {
        self.stretches()
            .map(|stretch| self.signal.read(stretch.range))
    }

    /// Gaps, cut to the parts.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> + '_ {
        let gaps = self.signal.gaps();
        self.parts
            .iter()
            .flat_map(move |part| gaps.within(part.range.clone()))
    }

    /// Civil time without samples: gaps, and time between runs, from half a sample on.
    ///
    /// # Errors
    /// [`StoreError::NoCivilTime`], [`StoreError::Time`].
    pub fn holes(&self) -> Result<Vec<Hole>, StoreError> {
        let signal = &self.signal;
        let half = signal.half_period()?;
        let mut holes = Vec::new();
        let mut before: Option<Stretch> = None;
        for stretch in self.stretches() {
            if let Some(before) = before.replace(stretch.clone()) {
                let start = signal.end_of_sample(before.range.end - 1)?;
                let end = signal.time_of(stretch.range.start)?.value;
                if end.checked_sub(start).is_some_and(|hole| hole > half) {
                    let between = before.range.end..stretch.range.start;
                    let gap = signal
                        .gaps()
                        .at(before.range.end)
                        .filter(|gap| before.run == stretch.run && gap.range() == between);
                    holes.push(Hole {
                        times: GapTimes { start, end },
                        gap,
                    });
                }
            }
        }
        Ok(holes)
    }

    /// Samples, without gaps.
    #[must_use]
    pub fn sample_count(&self) -> i64 {
        let gaps = self.signal.gaps();
        let count = |part: &Stretch| {
            part.range.end - part.range.start - gaps.missing_within(part.range.clone())
        };
        self.parts.iter().map(count).sum()
    }

    /// Indices, gaps included: the length of [`values`](Self::values).
    #[must_use]
    pub fn len(&self) -> i64 {
        let length = |part: &Stretch| part.range.end - part.range.start;
        self.parts.iter().map(length).sum()
    }

    /// Whether there is no index, not even in gaps.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The samples as one segment.
    ///
    /// # Errors
    /// [`StoreError::GapInSelection`] of the first gap, [`StoreError::ClockStepInSelection`].
    pub fn as_segment(&self) -> Result<SigSeg, StoreError> {
        if let Some(gap) = self.gaps().next() {
            return Err(self.names_gap(gap));
        }
        match self.parts.as_slice() {
            [] => {
                let at = self.index_range().map_or(0, |range| range.start);
                self.signal.read(at..at)
            }
            [part] => self.signal.read(part.range.clone()),
            [before, after, ..] => Err(StoreError::ClockStepInSelection {
                signal: self.signal.name().into(),
                index: after.range.start,
                before: before.run,
                after: after.run,
            }),
        }
    }

    fn names_gap(&self, gap: Gap) -> StoreError {
        let civil = match self.signal.gap_times(gap) {
            Ok(Some(times)) => format!(
                " ({} to {})",
                isochrony_time::civil::format(times.start),
                isochrony_time::civil::format(times.end)
            ),
            _ => String::new(),
        };
        StoreError::GapInSelection {
            signal: self.signal.name().into(),
            start: gap.start,
            length: gap.length,
            civil,
        }
    }
}

fn by_index(signal: &Signal, range: &Range<i64>) -> Result<Vec<Stretch>, StoreError> {
    if !signal.has_indices(range) {
        return Err(StoreError::OutOfBounds {
            signal: signal.name().into(),
            start: range.start,
            end: range.end,
            have_start: signal.start_index(),
            have_end: signal.end_index(),
        });
    }
    let runs = signal.state().runs.overlapping(range.clone());
    Ok(runs
        .map(|run| Stretch {
            run: run.id,
            range: run.start.max(range.start)..run.end.min(range.end),
        })
        .collect())
}

pub(crate) fn stretches<'a>(
    signal: &'a Signal,
    part: &Stretch,
) -> impl Iterator<Item = Stretch> + use<'a> {
    let Stretch { run, range } = part.clone();
    let mut at = range.start;
    let end = range.end;
    let mut gaps = signal.gaps().within(range);
    std::iter::from_fn(move || {
        while at < end {
            let gap = gaps.next();
            let stretch = at..gap.map_or(end, |gap| gap.start);
            at = gap.map_or(end, Gap::end);
            if !stretch.is_empty() {
                return Some(Stretch {
                    run,
                    range: stretch,
                });
            }
        }
        None
    })
}
