//! Search for byte strings.
//!
//! Conventions, as in `grep` and the `aho-corasick` crate:
//! - matches do not overlap unless requested: `aa` is found twice in `aaaa`, with [`Search::overlapping`] three times;
//! - of several patterns that match at a position, the first given counts; with overlaps, all;
//! - a match may span any number of buffers and is found once.
//!
//! A match at a position depends only on as many bytes as the longest pattern has. `scan` finds the matches for which
//! its buffer shows these, and leaves positions at its end to the next `join`. It cannot know where the previous match
//! ended: it starts at the buffer's beginning, and `join` corrects. Searches from different positions agree from their
//! first common match on, which is nearly always the first.

mod engine;
mod match_tally;
mod vector;

use crate::processor::{AnyProcessor, JoinOutcome, Needs, Output, Piece, Processor};
use crate::{BytesError, Matches, Outcome, PatternCount};
use engine::Engine;
use match_tally::MatchTally;

/// Longest legal pattern in bytes.
pub const LONGEST: usize = 64 << 10;

/// Most patterns, and most bytes of all: their automaton takes about 100 MB.
pub const MOST_PATTERNS: usize = 10_000;
/// See [`MOST_PATTERNS`].
pub const MOST_BYTES: usize = 1 << 20;

/// Most positions kept.
pub const MOST_KEPT: usize = 1 << 20;

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Search {
    /// The byte strings.
    pub patterns: Vec<Vec<u8>>,
    /// Also finds matches that overlap others.
    pub overlapping: bool,
    /// Ignores the case of ASCII letters.
    pub ignore_case: bool,
    /// Number of positions to keep.
    pub keep: usize,
}

/// Counts matches and keeps the positions of the first.
///
/// # Errors
/// [`BytesError::Patterns`]: no pattern, an empty one, or more than [`LONGEST`], [`MOST_PATTERNS`] and [`MOST_BYTES`]
/// allow. [`BytesError::Parameter`]: more positions than [`MOST_KEPT`].
pub fn search(search: Search) -> Result<AnyProcessor, BytesError> {
    named_search("search", search)
}

/// `processor`: its name in errors.
pub(crate) fn named_search(processor: &str, search: Search) -> Result<AnyProcessor, BytesError> {
    let refuse = |fault: String, allowed: String| BytesError::Patterns {
        processor: processor.into(),
        fault,
        allowed,
    };
    let (count, bytes) = (
        search.patterns.len(),
        search.patterns.iter().map(Vec::len).sum::<usize>(),
    );
    if count == 0 || count > MOST_PATTERNS || bytes > MOST_BYTES {
        return Err(refuse(
            format!("{count} patterns of {bytes} bytes together are refused"),
            format!("1 to {MOST_PATTERNS} patterns, of at most {MOST_BYTES} bytes together"),
        ));
    }
    for pattern in &search.patterns {
        if pattern.is_empty() || pattern.len() > LONGEST {
            let fault = match pattern.len() {
                0 => "a pattern is empty".into(),
                length => format!("a pattern has {length} bytes"),
            };
            let allowed = format!("patterns of 1 to {LONGEST} bytes, separated by |");
            return Err(refuse(fault, allowed));
        }
    }
    if search.keep > MOST_KEPT {
        return Err(BytesError::Parameter {
            processor: processor.into(),
            parameter: "keep".into(),
            got: search.keep.to_string(),
            allowed: format!("up to {MOST_KEPT}"),
        });
    }
    let engine = Engine::new(&search)
        .map_err(|reason| refuse(reason, "fewer or shorter patterns".into()))?;
    Ok(AnyProcessor::new(Searcher { search, engine }))
}

struct Searcher {
    search: Search,
    engine: Engine,
}

struct Part {
    found: MatchTally,
    /// Where the search continues, in the buffer.
    cursor: usize,
}

struct State {
    found: MatchTally,
    /// The stream's last bytes, in which undecided matches may begin.
    carry: Vec<u8>,
    /// `carry` and what follows it.
    window: Vec<u8>,
    /// Offset in the stream where the next match may begin.
    cursor: u64,
    end: u64,
}

impl Searcher {
    /// Bytes after a position that decide on a match there.
    fn beyond(&self) -> usize {
        self.engine.longest() - 1
    }

    fn found(&self) -> MatchTally {
        MatchTally::new(self.search.patterns.len(), self.search.keep)
    }

    /// Searches the carried bytes before offset `to`.
    fn search_window(&self, state: &mut State, start: u64, to: u64) {
        let from = state.cursor.saturating_sub(start) as usize;
        let limit = to.saturating_sub(start) as usize;
        let (found, cursor) = (&mut state.found, &mut state.cursor);
        self.engine.walk(&state.window, from, limit, |hit| {
            found.add(start + hit.start as u64, hit.pattern);
            *cursor = start + hit.next as u64;
        });
    }

    /// Replaces the matches from the buffer's beginning by those from the cursor.
    fn correct(&self, piece: Piece<'_>, limit: usize, part: &mut Part, state: &mut State) {
        let begin = (state.cursor - piece.offset) as usize;
        let next = |from: usize| {
            self.engine
                .find(piece.bytes, from)
                .filter(|hit| hit.start < limit)
        };
        let (mut assumed, mut real) = (next(0), next(begin));
        let mut dropped = 0;
        while assumed != real {
            match (assumed, real) {
                (Some(wrong), right) if right.is_none_or(|right| wrong.order() < right.order()) => {
                    part.found.uncount(wrong.pattern);
                    dropped += 1;
                    assumed = next(wrong.next);
                }
                (_, Some(right)) => {
                    state
                        .found
                        .add(piece.offset + right.start as u64, right.pattern);
                    state.cursor = piece.offset + right.next as u64;
                    real = next(right.next);
                }
                _ => break, // Both are none, hence equal.
            }
        }
        part.found.drop_first_positions(dropped);
        if real.is_none() {
            part.cursor = 0; // The scan's last match is none.
        }
        // Positions may be wanted that the scan did not keep.
        let short = state.found.missing_positions(&part.found);
        if short > 0 {
            let mut skip = part.found.position_count();
            let mut more = short;
            let mut hit = real;
            while let Some(now) = hit.filter(|_| more > 0) {
                if skip > 0 {
                    skip -= 1;
                } else {
                    part.found
                        .push_position(piece.offset + now.start as u64, now.pattern);
                    more -= 1;
                }
                hit = next(now.next);
            }
        }
    }
}

impl Processor for Searcher {
    type Part = Part;
    type State = State;

    fn needs(&self) -> Needs {
        Needs {
            scan: true,
            ..Needs::default()
        }
    }

    fn part_bytes(&self, _buffer: usize) -> usize {
        size_of::<Part>() + self.found().bytes() + self.engine.waiting_bytes()
    }

    fn state_bytes(&self) -> usize {
        // The automaton is shared.
        size_of::<State>()
            + self.found().bytes()
            + 6 * self.beyond()
            + self.engine.bytes()
            + self.engine.waiting_bytes()
    }

    fn part(&self) -> Part {
        Part {
            found: self.found(),
            cursor: 0,
        }
    }

    fn state(&self) -> State {
        State {
            found: self.found(),
            carry: Vec::with_capacity(2 * self.beyond()),
            window: Vec::with_capacity(2 * self.beyond()),
            cursor: 0,
            end: 0,
        }
    }

    fn scan(
        &self,
        piece: Piece<'_>,
        _first: bool,
        part: &mut Part,
        _out: &mut Output,
    ) -> Result<(), BytesError> {
        part.found.clear();
        part.cursor = 0;
        let limit = piece.bytes.len().saturating_sub(self.beyond());
        let Part { found, cursor } = part;
        if self.search.keep == 0
            && let Some((count, next)) = self.engine.count(piece.bytes)
        {
            found.count(0, count);
            *cursor = next;
            return Ok(());
        }
        self.engine.walk(piece.bytes, 0, limit, |hit| {
            found.add(piece.offset + hit.start as u64, hit.pattern);
            *cursor = hit.next;
        });
        Ok(())
    }

    fn join(
        &self,
        piece: Piece<'_>,
        part: &mut Part,
        state: &mut State,
        _out: &mut Output,
    ) -> Result<JoinOutcome, BytesError> {
        let beyond = self.beyond();
        let bytes = piece.bytes;
        let limit = bytes.len().saturating_sub(beyond);
        if !state.carry.is_empty() {
            let start = piece.offset - state.carry.len() as u64;
            state.window.clear();
            state.window.extend_from_slice(&state.carry);
            state
                .window
                .extend_from_slice(&bytes[..bytes.len().min(beyond)]);
            // Positions for which the window shows the longest pattern.
            let shown = start + state.window.len().saturating_sub(beyond) as u64;
            self.search_window(state, start, shown.min(piece.offset));
        }
        if limit > 0 {
            if state.cursor > piece.offset {
                self.correct(piece, limit, part, state);
            }
            state.found.append(&part.found);
            state.cursor = state.cursor.max(piece.offset + part.cursor as u64);
        }
        if bytes.len() >= beyond {
            state.carry.clear();
        } else {
            let keep = beyond - bytes.len();
            let surplus = state.carry.len().saturating_sub(keep);
            state.carry.drain(..surplus);
        }
        state
            .carry
            .extend_from_slice(&bytes[bytes.len().saturating_sub(beyond)..]);
        state.end = piece.end();
        Ok(JoinOutcome::Done)
    }

    fn finish(&self, state: &mut State, _out: &mut Vec<u8>) -> Result<Outcome, BytesError> {
        // Nothing follows: all positions are decided.
        state.window.clear();
        let State { window, carry, .. } = state;
        window.append(carry);
        let start = state.end - state.window.len() as u64;
        self.search_window(state, start, state.end);
        let counts = state.found.counts();
        let patterns = self.search.patterns.iter().zip(counts);
        Ok(Outcome::Matches(Matches {
            total: counts.iter().sum(),
            patterns: patterns
                .map(|(pattern, &count)| PatternCount {
                    pattern: pattern.clone(),
                    count,
                })
                .collect(),
            offsets: state.found.offsets(),
        }))
    }
}
