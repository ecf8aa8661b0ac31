//! Selections by civil time: samples by run, in order of time.
//!
//! A sample belongs to `[t0, t1)` if its time does. Time never decreases with the index within a run, so its samples
//! are one index range, found by bisection over `time_of`.
//!
//! A run *covers* the time from half a period before to half a period after each of its gap-free ranges. Where runs
//! overlap, only samples outside what preferred runs cover are taken.

use std::ops::Range;

use isochrony_time::{Empirical, Fixed};

use super::{Stretch, stretches};
use crate::error::{StoreError, overflow};
use crate::op::RunRow;
use crate::signal::Signal;
use crate::span::Overlap;

type Times = Range<Fixed>;

impl Signal {
    pub(crate) fn half_period(&self) -> Result<Fixed, StoreError> {
        let period = self.state().meta.expected_rate().duration_ns(1)?;
        Ok(Fixed::from_bits(period.to_bits() / 2))
    }

    /// Index ranges with time in `range` per run, gaps included, by time of the first sample.
    pub(crate) fn civil_parts(&self, range: &Times) -> Result<Vec<(u32, Range<i64>)>, StoreError> {
        let Some(civil) = self.empirical()? else {
            return Err(StoreError::NoCivilTime {
                signal: self.name().into(),
            });
        };
        let mut parts = Vec::new();
        for run in self.state().runs.iter() {
            if run.start == run.end || self.state().fit.of_run(run.id).next().is_none() {
                continue;
            }
            let part = part_of(civil, &run, range)?;
            if !part.is_empty() {
                let start = civil.time_of(part.start)?.value;
                parts.push((start, run.id, part));
            }
        }
        parts.sort_by_key(|(start, run, _)| (*start, *run));
        Ok(parts
            .into_iter()
            .map(|(_, run, part)| (run, part))
            .collect())
    }

    pub(crate) fn covers(&self, range: &Times, part: &Range<i64>) -> Result<bool, StoreError> {
        if part.is_empty() {
            return Ok(range.is_empty());
        }
        let half = self.half_period()?;
        let first = self.time_of(part.start)?.value;
        let end = self.end_of_sample(part.end - 1)?;
        let slack = |time: Fixed| time.checked_add(half);
        let period = slack(half).unwrap_or(half);
        Ok(range.start.checked_add(period).is_some_and(|t| first <= t)
            && slack(end).is_some_and(|t| range.end <= t))
    }

    pub(super) fn civil_selection(
        &self,
        range: &Times,
        overlap: Overlap,
    ) -> Result<Vec<Stretch>, StoreError> {
        let parts: Vec<Stretch> = self
            .civil_parts(range)?
            .into_iter()
            .map(|(run, range)| Stretch { run, range })
            .collect();
        if overlap == Overlap::All || parts.len() < 2 {
            return Ok(parts);
        }
        let mut out = Vec::new();
        for group in self.overlapping_groups(parts)? {
            if group.len() == 1 {
                out.extend(group);
            } else {
                out.extend(self.without_overlaps(group, range, overlap)?);
            }
        }
        Ok(out)
    }

    /// The groups share no time; both are in order of time.
    fn overlapping_groups(&self, parts: Vec<Stretch>) -> Result<Vec<Vec<Stretch>>, StoreError> {
        let mut groups: Vec<Vec<Stretch>> = Vec::new();
        let mut latest: Option<Fixed> = None;
        for part in parts {
            let times = self.covered(&part.range)?;
            match groups.last_mut() {
                Some(group) if latest.is_some_and(|latest| times.start < latest) => {
                    group.push(part)
                }
                _ => groups.push(vec![part]),
            }
            latest = latest.max(Some(times.end));
        }
        Ok(groups)
    }

    fn covered(&self, range: &Range<i64>) -> Result<Times, StoreError> {
        let half = self.half_period()?;
        let first = self.time_of(range.start)?.value;
        let last = self.time_of(range.end - 1)?.value;
        first
            .checked_sub(half)
            .zip(last.checked_add(half))
            .map(|(start, end)| start..end)
            .ok_or_else(|| overflow("time that a stretch covers"))
    }

    fn without_overlaps(
        &self,
        mut group: Vec<Stretch>,
        range: &Times,
        overlap: Overlap,
    ) -> Result<Vec<Stretch>, StoreError> {
        let Some(civil) = self.empirical()? else {
            return Ok(group);
        };
        // Run ids are in order of storing.
        group.sort_by_key(|part| part.run);
        if overlap == Overlap::Last {
            group.reverse();
        }
        // A preferred sample just outside the span covers half a period of it.
        let period = self.state().meta.expected_rate().duration_ns(1)?;
        let around = range.start.checked_sub(period).unwrap_or(range.start)
            ..range.end.checked_add(period).unwrap_or(range.end);
        let mut covered: Vec<Times> = Vec::new();
        let mut kept: Vec<(Fixed, Stretch)> = Vec::new();
        for part in group {
            for stretch in stretches(self, &part) {
                for rest in uncovered(civil, &stretch.range, &covered)? {
                    let start = civil.time_of(rest.start)?.value;
                    let run = part.run;
                    kept.push((start, Stretch { run, range: rest }));
                }
            }
            if let Some(run) = self.state().runs.by_id(part.run) {
                let run_part = Stretch {
                    run: part.run,
                    range: part_of(civil, &run, &around)?,
                };
                for stretch in stretches(self, &run_part) {
                    covered.push(self.covered(&stretch.range)?);
                }
            }
            merge(&mut covered);
        }
        kept.sort_by_key(|(start, part)| (*start, part.run));
        Ok(kept.into_iter().map(|(_, part)| part).collect())
    }
}

fn part_of(civil: &Empirical, run: &RunRow, range: &Times) -> Result<Range<i64>, StoreError> {
    let start = first_not_before(civil, run.start..run.end, range.start)?;
    let end = first_not_before(civil, start..run.end, range.end)?;
    Ok(start..end)
}

/// The end if there is none.
fn first_not_before(civil: &Empirical, within: Range<i64>, time: Fixed) -> Result<i64, StoreError> {
    let (mut low, mut high) = (within.start, within.end);
    while low < high {
        let middle = low + (high - low) / 2;
        if civil.time_of(middle)?.value < time {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

/// Parts of a gap-free range outside sorted, disjoint times.
fn uncovered(
    civil: &Empirical,
    stretch: &Range<i64>,
    covered: &[Times],
) -> Result<Vec<Range<i64>>, StoreError> {
    let mut out = Vec::new();
    let mut at = stretch.start;
    let first = civil.time_of(stretch.start)?.value;
    let from = covered.partition_point(|times| times.end <= first);
    for times in &covered[from..] {
        if at == stretch.end {
            break;
        }
        let hidden = first_not_before(civil, at..stretch.end, times.start)?;
        if at < hidden {
            out.push(at..hidden);
        }
        at = first_not_before(civil, hidden..stretch.end, times.end)?;
    }
    if at < stretch.end {
        out.push(at..stretch.end);
    }
    Ok(out)
}

fn merge(times: &mut Vec<Times>) {
    times.sort_by_key(|times| times.start);
    let mut merged: Vec<Times> = Vec::with_capacity(times.len());
    for next in times.drain(..) {
        match merged.last_mut() {
            Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
            _ => merged.push(next),
        }
    }
    *times = merged;
}
