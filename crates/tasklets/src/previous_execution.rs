//! The journal of a previous execution: finished tasklets and claimed ranges.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use crate::error::TaskletError;
use crate::journal::{Journal, JournalRecord};
use crate::journal_location::JournalLocation;
use crate::signal_range::merge_ranges;

#[derive(Default)]
pub(crate) struct PreviousExecution {
    pub(crate) finished: HashMap<String, (String, Option<String>)>,
    /// Claimed ranges by signal, sorted and merged.
    claims: HashMap<String, Vec<Range<i64>>>,
}

impl PreviousExecution {
    pub(crate) fn new(records: impl IntoIterator<Item = JournalRecord>) -> Self {
        let mut previous = Self::default();
        for record in records {
            match record {
                JournalRecord::Claim { signal, start, end } => {
                    previous.claims.entry(signal).or_default().push(start..end);
                }
                JournalRecord::Done {
                    name,
                    identity,
                    value,
                } => _ = previous.finished.insert(name, (identity, value)),
            }
        }
        for claims in previous.claims.values_mut() {
            *claims = merge_ranges(std::mem::take(claims));
        }
        previous
    }

    pub(crate) fn claims(&self, signal: &str, range: &Range<i64>) -> bool {
        let Some(claims) = self.claims.get(signal) else {
            return range.is_empty();
        };
        let after = claims.partition_point(|claim| claim.start <= range.start);
        range.is_empty() || after > 0 && claims[after - 1].end >= range.end
    }
}

fn find_claiming_journal(
    own: &JournalLocation,
    signal: &str,
    range: &Range<i64>,
) -> Option<PathBuf> {
    let other = own.others().into_iter().find(|other| {
        Journal::read(other)
            .is_ok_and(|records| PreviousExecution::new(records).claims(signal, range))
    });
    Some(other?.path().to_owned())
}

pub(crate) struct OccupiedOutput<'a> {
    pub(crate) name: &'a str,
    pub(crate) signal: &'a str,
    pub(crate) signal_identity: &'a str,
    pub(crate) range: Range<i64>,
    pub(crate) first_sample: i64,
}

impl OccupiedOutput<'_> {
    pub(crate) fn error(self, journal: Option<&JournalLocation>) -> TaskletError {
        TaskletError::OutputOccupied {
            name: self.name.to_owned(),
            signal: self.signal.to_owned(),
            start: self.range.start,
            end: self.range.end,
            at: self.first_sample,
            journal: journal
                .and_then(|own| find_claiming_journal(own, self.signal_identity, &self.range)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_claims_recorded_in_any_order_and_in_parts() {
        let claim = |start: i64, end: i64| JournalRecord::Claim {
            signal: "s".into(),
            start,
            end,
        };
        let previous = PreviousExecution::new([
            claim(30, 40),
            claim(0, 5),
            claim(5, 10),
            claim(8, 12),
            claim(1, 3),
        ]);
        let claimed: Vec<bool> = (0..50)
            .map(|at| at < 12 || (30..40).contains(&at))
            .collect();
        for start in 0..50usize {
            for end in start..50 {
                let expected = claimed[start..end].iter().all(|claimed| *claimed);
                let range = start as i64..end as i64;
                assert_eq!(previous.claims("s", &range), expected, "{range:?}");
                assert_eq!(previous.claims("t", &range), start == end);
            }
        }
    }
}
