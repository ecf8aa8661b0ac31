//! Runs several processors over the same bytes in one pass.

use std::any::Any;

use crate::processor::{AnyProcessor, BLOCK, DynProcessor, JoinOutcome, Needs, Output, Piece};
use crate::{BytesError, Outcome, spec};

/// Processors over the same bytes, shared by all workers. An empty chain passes its input on.
pub struct Chain {
    entries: Vec<Entry>,
    needs: Needs,
}

struct Entry {
    name: String,
    processor: Box<dyn DynProcessor>,
    needs: Needs,
}

/// A worker's data for one buffer.
pub struct Part {
    parts: Vec<Box<dyn Any + Send>>,
    out: Output,
    scanned: Option<(u64, usize)>,
}

impl Part {
    /// The output after [`Chain::join`], in two halves; empty if no processor makes any.
    #[must_use]
    pub fn output(&self) -> [&[u8]; 2] {
        [&self.out.before, &self.out.body]
    }
}

impl std::fmt::Debug for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Part")
            .field("scanned", &self.scanned)
            .finish_non_exhaustive()
    }
}

/// A chain's data for one stream.
pub struct State {
    states: Vec<Box<dyn Any + Send>>,
    /// Offset of the next piece.
    next: u64,
    /// All processors but that with output have joined this piece.
    again: bool,
    out: Vec<u8>,
}

impl State {
    /// After [`Chain::finish`]: the last output.
    #[must_use]
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// Bytes joined so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.next
    }
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Chain {
    /// Processors by name, such as `"stats:<i2"`, `"zstd:3"`.
    ///
    /// # Errors
    /// [`BytesError::Unknown`], errors of a processor's parameters, and as [`new`](Self::new).
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, BytesError> {
        let named = names
            .iter()
            .map(|name| {
                let name = name.as_ref();
                Ok((name.to_owned(), spec::parse(name)?))
            })
            .collect::<Result<_, BytesError>>()?;
        Self::new(named)
    }

    /// Processors and the names of their results.
    ///
    /// # Errors
    /// [`BytesError::NamedTwice`]; [`BytesError::TwoOutputs`].
    pub fn new(processors: Vec<(String, AnyProcessor)>) -> Result<Self, BytesError> {
        let mut chain = Self {
            entries: Vec::with_capacity(processors.len()),
            needs: Needs::default(),
        };
        for (name, processor) in processors {
            let processor = processor.0;
            let needs = processor.needs();
            for entry in &chain.entries {
                if entry.name == name {
                    return Err(BytesError::NamedTwice { name });
                }
                if entry.needs.output && needs.output {
                    return Err(BytesError::TwoOutputs {
                        first: entry.name.clone(),
                        second: name,
                    });
                }
            }
            chain.needs.scan |= needs.scan;
            chain.needs.ordered |= needs.ordered;
            chain.needs.output |= needs.output;
            chain.needs.again |= needs.again;
            chain.needs.frames |= needs.frames;
            chain.entries.push(Entry {
                name,
                processor,
                needs,
            });
        }
        Ok(chain)
    }

    /// The names of the results, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// What the processors need.
    #[must_use]
    pub fn needs(&self) -> Needs {
        self.needs
    }

    /// Upper bound of a part's bytes, with output, for buffers of `buffer` bytes.
    #[must_use]
    pub fn part_bytes(&self, buffer: usize) -> usize {
        self.entries.iter().fold(size_of::<Part>(), |sum, entry| {
            sum.saturating_add(entry.processor.part_bytes(buffer))
        })
    }

    /// Upper bound of a state's bytes.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        self.entries.iter().fold(size_of::<State>(), |sum, entry| {
            sum.saturating_add(entry.processor.state_bytes())
        })
    }

    /// A part for one worker.
    #[must_use]
    pub fn part(&self) -> Part {
        Part {
            parts: self.entries.iter().map(|e| e.processor.part()).collect(),
            out: Output::default(),
            scanned: None,
        }
    }

    /// The state at a stream's beginning.
    #[must_use]
    pub fn state(&self) -> State {
        State {
            states: self.entries.iter().map(|e| e.processor.state()).collect(),
            next: 0,
            again: false,
            out: Vec::new(),
        }
    }

    /// Does the work that needs no other buffer, in any worker and order.
    ///
    /// # Errors
    /// Those of the processors.
    pub fn scan(&self, piece: Piece<'_>, part: &mut Part) -> Result<(), BytesError> {
        if part.parts.len() != self.entries.len() {
            return Err(BytesError::OtherChain);
        }
        part.scanned = None;
        part.out.clear();
        let Part { parts, out, .. } = part;
        let mut in_blocks = 0;
        for (entry, part) in self.entries.iter().zip(parts.iter_mut()) {
            if entry.needs.scan && entry.processor.blockwise() {
                in_blocks += 1;
            } else if entry.needs.scan {
                entry.processor.scan(piece, true, &mut **part, out)?;
            }
        }
        if in_blocks > 0 {
            self.scan_blocks(piece, in_blocks == 1, parts, out)?;
        }
        part.scanned = Some((piece.offset, piece.bytes.len()));
        Ok(())
    }

    fn scan_blocks(
        &self,
        piece: Piece<'_>,
        whole: bool,
        parts: &mut [Box<dyn Any + Send>],
        out: &mut Output,
    ) -> Result<(), BytesError> {
        let (mut rest, mut first) = (piece, true);
        while first || !rest.bytes.is_empty() {
            let to_line = BLOCK - (rest.offset % BLOCK as u64) as usize;
            let (now, later) = if whole {
                (rest.bytes, &[][..])
            } else {
                rest.bytes.split_at(to_line.min(rest.bytes.len()))
            };
            let now = Piece { bytes: now, ..rest };
            for (entry, part) in self.entries.iter().zip(parts.iter_mut()) {
                if entry.needs.scan && entry.processor.blockwise() {
                    entry.processor.scan(now, first, &mut **part, out)?;
                }
            }
            first = false;
            rest = Piece {
                offset: now.end(),
                bytes: later,
            };
        }
        Ok(())
    }

    /// Adds a scanned buffer to the state, once and in stream order. Its output is then in [`Part::output`].
    ///
    /// # Errors
    /// [`BytesError::OutOfOrder`]; [`BytesError::NotScanned`] if the part scanned another buffer; those of the
    /// processors.
    pub fn join(
        &self,
        piece: Piece<'_>,
        part: &mut Part,
        state: &mut State,
    ) -> Result<JoinOutcome, BytesError> {
        if part.parts.len() != self.entries.len() || state.states.len() != self.entries.len() {
            return Err(BytesError::OtherChain);
        }
        if piece.offset != state.next {
            return Err(BytesError::OutOfOrder {
                expected: state.next,
                got: piece.offset,
            });
        }
        if self.needs.scan && part.scanned != Some((piece.offset, piece.bytes.len())) {
            return Err(BytesError::NotScanned {
                offset: piece.offset,
            });
        }
        let again = std::mem::take(&mut state.again);
        let mut joined = JoinOutcome::Done;
        let held = part.parts.iter_mut().zip(&mut state.states);
        for (entry, (own, state)) in self.entries.iter().zip(held) {
            // The others have joined the piece already.
            if again && !entry.needs.again {
                continue;
            }
            let now = entry
                .processor
                .join(piece, &mut **own, &mut **state, &mut part.out)?;
            if now == JoinOutcome::Again {
                joined = now;
            }
        }
        match joined {
            JoinOutcome::Done => state.next = piece.end(),
            JoinOutcome::Again => state.again = true,
        }
        Ok(joined)
    }

    /// The results at the end of the stream, in the order of [`names`](Self::names). The last output is then in
    /// [`State::output`].
    ///
    /// # Errors
    /// Those of the processors, if the stream is incomplete.
    pub fn finish(&self, state: &mut State) -> Result<Vec<Outcome>, BytesError> {
        if state.states.len() != self.entries.len() {
            return Err(BytesError::OtherChain);
        }
        state.out.clear();
        self.entries
            .iter()
            .zip(&mut state.states)
            .map(|(entry, own)| entry.processor.finish(&mut **own, &mut state.out))
            .collect()
    }

    /// Runs over one buffer and drops the output: for small inputs.
    ///
    /// # Errors
    /// As [`scan`](Self::scan), [`join`](Self::join) and [`finish`](Self::finish).
    pub fn run(&self, bytes: &[u8]) -> Result<Vec<Outcome>, BytesError> {
        let (mut part, mut state) = (self.part(), self.state());
        let piece = Piece { offset: 0, bytes };
        self.scan(piece, &mut part)?;
        while self.join(piece, &mut part, &mut state)? == JoinOutcome::Again {}
        self.finish(&mut state)
    }
}
