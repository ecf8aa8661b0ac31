//! The fastest algorithm for each kind of search.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use aho_corasick::{AhoCorasick, Input, MatchKind};
use memchr::memmem::{Finder, FinderBuilder};

use super::Search;
use super::vector::Counter;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    /// Where the next match may begin.
    pub(super) next: usize,
    pub(super) pattern: u32,
}

impl Hit {
    pub(super) fn order(&self) -> (usize, u32) {
        (self.start, self.pattern)
    }
}

#[derive(Debug)]
enum Kind {
    Byte(u8),
    /// One literal; counted with vectors if the CPU can.
    Literal(Box<Finder<'static>>, Option<Counter>),
    /// Several patterns without overlaps, or one regardless of case.
    Many(AhoCorasick),
    /// All matches of several patterns.
    All(AhoCorasick),
}

#[derive(Debug)]
pub(super) struct Engine {
    kind: Kind,
    lengths: Vec<usize>,
    longest: usize,
    overlapping: bool,
    ordered: bool,
}

impl Engine {
    pub(super) fn new(search: &Search) -> Result<Self, String> {
        let build = |kind| {
            AhoCorasick::builder()
                .match_kind(kind)
                .ascii_case_insensitive(search.ignore_case)
                .build(&search.patterns)
                .map_err(|error| error.to_string())
        };
        let kind = match &search.patterns[..] {
            [pattern] if !search.ignore_case => match pattern[..] {
                [byte] => Kind::Byte(byte),
                _ => Kind::Literal(
                    Box::new(FinderBuilder::new().build_forward(pattern).into_owned()),
                    Counter::new(pattern).filter(|_| !search.overlapping),
                ),
            },
            [_] => Kind::Many(build(MatchKind::LeftmostFirst)?),
            _ if search.overlapping => Kind::All(build(MatchKind::Standard)?),
            _ => Kind::Many(build(MatchKind::LeftmostFirst)?),
        };
        let lengths: Vec<usize> = search.patterns.iter().map(Vec::len).collect();
        Ok(Self {
            kind,
            longest: lengths.iter().copied().max().unwrap_or(1),
            lengths,
            overlapping: search.overlapping,
            ordered: search.keep > 0,
        })
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Byte(_) => 0,
            Kind::Literal(finder, _) => size_of_val(&**finder) + finder.needle().len(),
            Kind::Many(automaton) | Kind::All(automaton) => automaton.memory_usage(),
        }
    }

    /// Upper bound of the bytes of matches held back for earlier ones.
    pub(super) fn waiting_bytes(&self) -> usize {
        match self.kind {
            Kind::All(_) if self.ordered => self
                .longest
                .saturating_mul(self.lengths.len())
                .saturating_mul(2 * size_of::<(usize, u32)>()),
            _ => 0,
        }
    }

    /// The first match from `from` on; of several there, the first pattern's. Not for [`Kind::All`].
    pub(super) fn find(&self, bytes: &[u8], from: usize) -> Option<Hit> {
        let rest = bytes.get(from..)?;
        let (start, end, pattern) = match &self.kind {
            Kind::Byte(byte) => {
                let start = from + memchr::memchr(*byte, rest)?;
                (start, start + 1, 0)
            }
            Kind::Literal(finder, _) => {
                let start = from + finder.find(rest)?;
                (start, start + self.longest, 0)
            }
            Kind::Many(automaton) | Kind::All(automaton) => {
                let hit = automaton.find(Input::new(bytes).range(from..))?;
                (hit.start(), hit.end(), hit.pattern().as_u32())
            }
        };
        Some(Hit {
            start,
            next: if self.overlapping { start + 1 } else { end },
            pattern,
        })
    }

    /// Matches that begin in `from..limit`, in order.
    pub(super) fn walk(&self, bytes: &[u8], from: usize, limit: usize, mut each: impl FnMut(Hit)) {
        if let Kind::All(automaton) = &self.kind {
            self.walk_all(automaton, bytes, from, limit, each);
            return;
        }
        let mut from = from;
        while let Some(hit) = self.find(bytes, from)
            && hit.start < limit
        {
            each(hit);
            from = hit.next;
        }
    }

    /// Every match of every pattern. The automaton finds them in the order of their ends.
    fn walk_all(
        &self,
        automaton: &AhoCorasick,
        bytes: &[u8],
        from: usize,
        limit: usize,
        mut each: impl FnMut(Hit),
    ) {
        let mut waiting: BinaryHeap<Reverse<(usize, u32)>> = BinaryHeap::new();
        let mut emit = |(start, pattern): (usize, u32)| {
            each(Hit {
                start,
                next: start + 1,
                pattern,
            });
        };
        if from >= bytes.len() {
            return;
        }
        for hit in automaton.find_overlapping_iter(Input::new(bytes).range(from..)) {
            if hit.start() >= limit {
                continue;
            }
            let now = (hit.start(), hit.pattern().as_u32());
            if !self.ordered {
                emit(now);
                continue;
            }
            // Later matches end later.
            let settled = hit.end().saturating_sub(self.longest);
            while let Some(&Reverse(first)) = waiting.peek()
                && first.0 < settled
            {
                waiting.pop();
                emit(first);
            }
            waiting.push(Reverse(now));
        }
        while let Some(Reverse(first)) = waiting.pop() {
            emit(first);
        }
    }

    /// Of a single pattern; also returns where the next match may begin. None: `walk` is as fast.
    pub(super) fn count(&self, bytes: &[u8]) -> Option<(u64, usize)> {
        match &self.kind {
            Kind::Byte(byte) => Some((memchr::memchr_iter(*byte, bytes).count() as u64, 0)),
            Kind::Literal(finder, Some(counter)) => Some(counter.count(bytes, finder)),
            _ => None,
        }
    }
}
