//! Lookup by civil time: the run, then the sample.

use serde::{Deserialize, Serialize};

use crate::empirical::{RunPieces, civil_end};
use crate::line::Line;
use crate::{Empirical, Fixed, RunId, RunSpan, Time, TimeError};

/// Rounding between two samples.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub enum Round {
    /// The nearest sample (default): inverts `time_of`.
    #[default]
    Nearest,
    /// The last sample not after the time.
    Floor,
    /// The first sample not before the time.
    Ceil,
    /// Only a time that `time_of` returns for a recorded sample.
    Exact,
}

/// Choice between overlapping runs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum Prefer {
    /// The run that starts first.
    First,
    /// The run that starts last.
    Last,
    /// This run, extrapolated outside its span.
    Run(RunId),
}

/// Options of a lookup by civil time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Lookup {
    /// Rounding.
    pub round: Round,
    /// `None`: an error where runs overlap.
    pub prefer: Option<Prefer>,
}

/// Index of a civil time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct IndexAt {
    /// The rounded index.
    pub index: i64,
    /// The unrounded index, to 2^-32.
    pub position: Fixed,
    /// The run.
    pub run: RunId,
    /// Whether the time lies in a gap, within or between runs. Not set beyond the first and last sample.
    pub in_gap: bool,
}

/// Civil times from the given one to `until`, on one line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CivilSpan {
    pub(crate) line: Line,
    pub(crate) run: RunId,
    pub(crate) in_gap: bool,
    pub(crate) until: Fixed,
    next_run: Option<(i64, RunId)>,
}

impl Empirical {
    /// Index of a civil time.
    ///
    /// Recorded samples take precedence over gaps. Interpolates inside a gap, extrapolates outside all runs.
    ///
    /// # Errors
    /// [`TimeError::Ambiguous`] if two runs cover the time and none is preferred; [`TimeError::UnknownRun`];
    /// [`TimeError::NotOnSample`] and [`TimeError::InGap`] for [`Round::Exact`]; [`TimeError::Overflow`].
    pub fn index_of(&self, civil: Fixed, lookup: Lookup) -> Result<IndexAt, TimeError> {
        let span = self.civil_span(civil, lookup.prefer)?;
        self.index_in(&span, civil, lookup.round)
    }

    /// Exactly inverts [`Empirical::time_of`]: the time's run overrides `lookup.prefer`. A run of another origin
    /// ([`Empirical::with_timebase`]) is ignored.
    ///
    /// # Errors
    /// As [`Empirical::index_of`].
    pub fn index_of_time(&self, time: &Time, lookup: Lookup) -> Result<IndexAt, TimeError> {
        let prefer = time
            .run
            .filter(|_| time.origin == self.timebase)
            .map(Prefer::Run)
            .or(lookup.prefer);
        self.index_of(time.value, Lookup { prefer, ..lookup })
    }

    pub(crate) fn index_in(
        &self,
        span: &CivilSpan,
        civil: Fixed,
        round: Round,
    ) -> Result<IndexAt, TimeError> {
        let CivilSpan {
            line, run, in_gap, ..
        } = *span;
        let position = line.position(civil)?;
        let nearest = position
            .round_i64()
            .ok_or(TimeError::Overflow { what: "index" })?;
        let at = |index, run| {
            Ok(IndexAt {
                index,
                position,
                run,
                in_gap,
            })
        };
        if round == Round::Nearest {
            return at(nearest, run);
        }
        if let Some((next_index, next_run)) = span.next_run {
            // No sample here.
            return match round {
                Round::Floor if line.den == 0 => at(line.index - 1, run),
                Round::Ceil if line.den == 0 => at(next_index, next_run),
                Round::Floor => at(position.floor_i64().unwrap_or(nearest), run),
                Round::Ceil => at(position.ceil_i64().unwrap_or(nearest), run),
                _ => Err(TimeError::InGap { time: civil, run }),
            };
        }
        let time = self.time_in_run(run, nearest)?;
        let floor = if time > civil { nearest - 1 } else { nearest };
        match round {
            Round::Floor => at(floor, run),
            Round::Ceil => at(if time < civil { nearest + 1 } else { nearest }, run),
            _ if in_gap => Err(TimeError::InGap { time: civil, run }),
            _ if time == civil => at(nearest, run),
            _ => {
                let off_ns = civil.checked_sub(self.time_in_run(run, floor)?);
                let off_ns = off_ns.ok_or(TimeError::Overflow {
                    what: "distance to a sample",
                })?;
                Err(TimeError::NotOnSample {
                    time: civil,
                    index: floor,
                    off_ns,
                })
            }
        }
    }

    pub(crate) fn civil_span(
        &self,
        civil: Fixed,
        prefer: Option<Prefer>,
    ) -> Result<CivilSpan, TimeError> {
        if let Some(Prefer::Run(run)) = prefer {
            return self.span_in_run(self.group(run)?, civil);
        }
        let started = self.runs.partition_point(|r| r.civil <= civil);
        let mut until = self.runs.get(started).map_or(Fixed::MAX, |r| r.civil);
        let (mut chosen, mut gap): (Option<CivilSpan>, Option<CivilSpan>) = (None, None);
        for k in (0..started).rev() {
            if self.runs[self.latest[k] as usize].civil_end <= civil {
                break;
            }
            if self.runs[k].civil_end <= civil {
                continue;
            }
            let found = self.span_in_run(self.group(self.runs[k].run)?, civil)?;
            until = until.min(found.until);
            if found.in_gap {
                gap = gap.filter(|_| prefer == Some(Prefer::Last)).or(Some(found));
                continue;
            }
            match (chosen, prefer) {
                (None, _) | (Some(_), Some(Prefer::First)) => chosen = Some(found),
                (Some(_), Some(_)) => {}
                (Some(later), None) => {
                    return Err(self.ambiguous(civil, self.runs[k].run, later.run));
                }
            }
        }
        if let Some(span) = chosen.or(gap) {
            return Ok(CivilSpan { until, ..span });
        }
        self.span_outside(civil, started)
    }

    fn span_outside(&self, civil: Fixed, started: usize) -> Result<CivilSpan, TimeError> {
        let Some(before) = started
            .checked_sub(1)
            .map(|k| &self.runs[self.latest[k] as usize])
        else {
            let mut span = self.span_in_run(self.group(self.runs[0].run)?, civil)?;
            span.until = self.runs[0].civil;
            return Ok(span);
        };
        let Some(after) = self.runs.get(started) else {
            return self.span_in_run(self.group(before.run)?, civil);
        };
        let end = before.end.unwrap_or(i64::MAX);
        let mut line = Line::between(end, before.civil_end, after.index, after.civil);
        if after.index <= end {
            line.den = 0;
        }
        let next_run = Some((after.index, after.run));
        Ok(CivilSpan {
            line,
            run: before.run,
            in_gap: true,
            until: after.civil,
            next_run,
        })
    }

    fn span_in_run(&self, group: RunPieces, civil: Fixed) -> Result<CivilSpan, TimeError> {
        let of_run = &self.order[group.first..group.first + group.count];
        let started = of_run.partition_point(|&p| self.pieces[p as usize].civil <= civil);
        let piece = &self.pieces[of_run[started.saturating_sub(1)] as usize];
        let next = of_run
            .get(started.max(1))
            .map(|&p| &self.pieces[p as usize]);
        let until = next.map_or(Fixed::MAX, |n| n.civil);
        let whole = CivilSpan {
            line: Line::of(piece),
            run: group.run,
            in_gap: false,
            until,
            next_run: None,
        };
        let end = civil_end(piece)?;
        let (Some(next), Some(end_index)) = (next, piece.end) else {
            // Recorded up to its end, extrapolated beyond.
            let until = if civil < end { end } else { Fixed::MAX };
            return Ok(CivilSpan { until, ..whole });
        };
        if civil < end {
            return Ok(CivilSpan {
                until: until.min(end),
                ..whole
            });
        }
        let line = Line::between(end_index, end, next.index, next.civil);
        Ok(CivilSpan {
            line,
            in_gap: true,
            ..whole
        })
    }

    fn time_in_run(&self, run: RunId, index: i64) -> Result<Fixed, TimeError> {
        let group = self.group(run)?;
        let of_run = &self.order[group.first..group.first + group.count];
        let started = of_run.partition_point(|&p| self.pieces[p as usize].index <= index);
        let piece = &self.pieces[of_run[started.saturating_sub(1)] as usize];
        let index = Fixed::from_int(index);
        match (piece.end, of_run.get(started.max(1))) {
            (Some(end), Some(&next)) if Fixed::from_int(end) <= index => {
                let next = &self.pieces[next as usize];
                Line::between(end, civil_end(piece)?, next.index, next.civil).civil_at(index)
            }
            _ => piece.civil_at(index),
        }
    }

    fn group(&self, run: RunId) -> Result<RunPieces, TimeError> {
        let found = self.by_run.binary_search_by_key(&run, |g| g.run);
        found.map(|k| self.by_run[k]).map_err(|_| {
            let mut known: Vec<String> = self
                .by_run
                .iter()
                .take(8)
                .map(|g| g.run.0.to_string())
                .collect();
            if self.by_run.len() > known.len() {
                known.push(format!("... ({} in all)", self.by_run.len()));
            }
            TimeError::UnknownRun {
                run,
                known: known.join(", "),
            }
        })
    }

    fn ambiguous(&self, time: Fixed, first: RunId, second: RunId) -> TimeError {
        let span = |run| {
            let found: Option<&RunSpan> = self.runs.iter().find(|r| r.run == run);
            found.map_or((Fixed::ZERO, Fixed::ZERO), |r| (r.civil, r.civil_end))
        };
        TimeError::Ambiguous {
            time,
            first,
            first_span: span(first),
            second,
            second_span: span(second),
        }
    }
}
