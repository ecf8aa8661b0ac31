//! What an earlier run left behind: what it finished, and which samples are its own.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::TaskletError;
use crate::journal::{Journal, Line};

#[derive(Default)]
pub(crate) struct Earlier {
    /// By name: what the tasklet was, and what it returned.
    pub(crate) done: HashMap<String, (String, Option<String>)>,
    /// By signal: sorted, and none touches the next.
    claims: HashMap<String, Vec<Range<i64>>>,
}

impl Earlier {
    pub(crate) fn new(lines: impl IntoIterator<Item = Line>) -> Self {
        let mut earlier = Self::default();
        for line in lines {
            match line {
                Line::Claim { signal, start, end } => {
                    earlier.claims.entry(signal).or_default().push(start..end);
                }
                Line::Done { name, of, value } => _ = earlier.done.insert(name, (of, value)),
            }
        }
        for claims in earlier.claims.values_mut() {
            *claims = joined(std::mem::take(claims));
        }
        earlier
    }

    /// Whether all of a range belongs to the run.
    pub(crate) fn claims(&self, signal: &str, range: &Range<i64>) -> bool {
        let Some(claims) = self.claims.get(signal) else {
            return range.is_empty();
        };
        let behind = claims.partition_point(|claim| claim.start <= range.start);
        range.is_empty() || behind > 0 && claims[behind - 1].end >= range.end
    }
}

/// The same ranges, sorted, those that touch as one.
pub(crate) fn joined(mut ranges: Vec<Range<i64>>) -> Vec<Range<i64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<i64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// The journal beside this one that says whose a range is.
pub(crate) fn noted_elsewhere(own: &Path, signal: &str, range: &Range<i64>) -> Option<PathBuf> {
    // A journal of the user's choice has no others beside it.
    own.parent()?
        .ends_with(crate::planned::JOURNALS)
        .then_some(())?;
    let mut found: Vec<PathBuf> = (std::fs::read_dir(own.parent()?).ok()?.flatten())
        .map(|entry| entry.path())
        .filter(|path| path != own && path.extension().is_some_and(|end| end == "journal"))
        .collect();
    found.sort_unstable();
    found.into_iter().find(|path| {
        Journal::read(path).is_ok_and(|lines| Earlier::new(lines).claims(signal, range))
    })
}

/// An output that is there already, as an error.
pub(crate) struct Occupied<'a> {
    pub(crate) name: &'a str,
    pub(crate) signal: &'a str,
    pub(crate) identity: &'a str,
    pub(crate) range: Range<i64>,
    pub(crate) at: i64,
}

impl Occupied<'_> {
    pub(crate) fn error(self, journal: Option<&Path>) -> TaskletError {
        TaskletError::OutputOccupied {
            name: self.name.to_owned(),
            signal: self.signal.to_owned(),
            start: self.range.start,
            end: self.range.end,
            at: self.at,
            journal: journal.and_then(|own| noted_elsewhere(own, self.identity, &self.range)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_found_however_they_were_noted() {
        let claim = |start: i64, end: i64| Line::Claim {
            signal: "s".into(),
            start,
            end,
        };
        let earlier = Earlier::new([
            claim(30, 40),
            claim(0, 5),
            claim(5, 10),
            claim(8, 12),
            claim(1, 3),
        ]);
        let mine: Vec<bool> = (0..50)
            .map(|at| at < 12 || (30..40).contains(&at))
            .collect();
        for start in 0..50usize {
            for end in start..50 {
                let expected = mine[start..end].iter().all(|mine| *mine);
                let range = start as i64..end as i64;
                assert_eq!(earlier.claims("s", &range), expected, "{range:?}");
                assert_eq!(earlier.claims("t", &range), start == end);
            }
        }
    }
}
