//! The processors of `isochrony-bytes` as a [`BlockProcessor`].
//!
//! Processors that need bytes in order get a lane each, so that two workers compute two hashes at once. The others
//! share one pass over a block, and one lane.

use std::sync::{Mutex, MutexGuard, PoisonError};

use isochrony_bytes::{BytesError, Chain, JoinOutcome, Outcome, Part, Piece, State};

use crate::buffer_output::BufferOutput;
use crate::error::{Cause, LocatedError};
use crate::processor::{BlockProcessor, RecordBlock};

/// Native processors over one stream, in one pass.
pub struct NativeProcessors {
    lanes: Vec<Lane>,
    names: Vec<String>,
    output_lane: Option<usize>,
    /// Whether the input is copied to the outputs if no processor has output.
    copies_input: bool,
    outcomes: Mutex<Vec<(String, Outcome)>>,
}

struct Lane {
    chain: Chain,
    state: Mutex<State>,
}

impl Lane {
    fn new(names: &[String]) -> Result<Self, BytesError> {
        let chain = Chain::parse(names)?;
        let state = Mutex::new(chain.state());
        Ok(Self { chain, state })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic ends the execution, so the data is not used.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn located(why: BytesError) -> Cause {
    match why.offset() {
        Some(offset) => Box::new(LocatedError {
            offset,
            length: 0,
            why: why.into(),
        }),
        None => why.into(),
    }
}

impl NativeProcessors {
    /// Processors by name, as for [`Chain::parse`].
    ///
    /// # Errors
    /// As [`Chain::parse`].
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, BytesError> {
        let names: Vec<String> = Chain::parse(names)?
            .names()
            .map(ToOwned::to_owned)
            .collect();
        let mut unordered = Vec::new();
        let mut lanes = Vec::new();
        for name in &names {
            let lane = Lane::new(std::slice::from_ref(name))?;
            if lane.chain.needs().ordered {
                lanes.push(lane);
            } else {
                unordered.push(name.clone());
            }
        }
        if !unordered.is_empty() {
            lanes.insert(0, Lane::new(&unordered)?);
        }
        let output_lane = lanes.iter().position(|lane| lane.chain.needs().output);
        Ok(Self {
            lanes,
            names,
            output_lane,
            copies_input: true,
            outcomes: Mutex::default(),
        })
    }

    /// Does not copy the input to the outputs, even without other output.
    #[must_use]
    pub fn without_copy(mut self) -> Self {
        self.copies_input = false;
        self
    }

    /// Whether a processor has output.
    #[must_use]
    pub fn makes_output(&self) -> bool {
        self.output_lane.is_some()
    }

    /// Results by name, in the given order, once a stream was completely read.
    #[must_use]
    pub fn outcomes(&self) -> Vec<(String, Outcome)> {
        lock(&self.outcomes).clone()
    }
}

fn piece<'a>(block: &RecordBlock<'a>) -> Piece<'a> {
    Piece {
        offset: block.offset,
        bytes: block.bytes,
    }
}

impl BlockProcessor for NativeProcessors {
    type Scratch = Vec<Part>;

    fn new_scratch(&self) -> Vec<Part> {
        self.lanes.iter().map(|lane| lane.chain.part()).collect()
    }

    fn execute(
        &self,
        parts: &mut Vec<Part>,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        for (lane, part) in self.lanes.iter().zip(parts) {
            if lane.chain.needs().scan {
                lane.chain.scan(piece(block), part).map_err(located)?;
            }
        }
        if self.output_lane.is_none() && self.copies_input {
            out.forward_to_all()?;
        }
        Ok(())
    }

    fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn join(
        &self,
        lane: usize,
        parts: &mut Vec<Part>,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        let (Lane { chain, state }, part) = (&self.lanes[lane], &mut parts[lane]);
        let mut state = lock(state);
        loop {
            match chain
                .join(piece(block), part, &mut state)
                .map_err(located)?
            {
                JoinOutcome::Done => return Ok(()),
                JoinOutcome::Again => {
                    for bytes in part.output() {
                        out.write(0, bytes)?;
                    }
                }
            }
        }
    }

    fn trailing_output<'w>(&self, parts: &'w Vec<Part>) -> [&'w [u8]; 2] {
        self.output_lane
            .map_or([&[], &[]], |lane| parts[lane].output())
    }

    fn finish(&self, write: &mut dyn FnMut(&[u8])) -> Result<(), Cause> {
        let mut found = Vec::new();
        for Lane { chain, state } in &self.lanes {
            let mut state = lock(state);
            let outcomes = chain.finish(&mut state).map_err(located)?;
            found.extend(chain.names().map(ToOwned::to_owned).zip(outcomes));
            write(state.output());
        }
        let place = |name: &str| self.names.iter().position(|one| one == name);
        found.sort_by_key(|(name, _)| place(name));
        *lock(&self.outcomes) = found;
        Ok(())
    }

    fn is_join_bound(&self) -> bool {
        self.lanes.iter().any(|lane| lane.chain.needs().ordered)
    }

    fn scratch_bytes(&self, buffer: usize) -> usize {
        let lanes = self.lanes.iter();
        lanes.map(|lane| lane.chain.part_bytes(buffer)).sum()
    }

    fn shared_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.chain.state_bytes()).sum()
    }

    fn needs_single_output(&self) -> bool {
        self.makes_output()
    }

    fn needs_staging(&self) -> bool {
        self.lanes.iter().any(|lane| lane.chain.needs().again)
    }

    fn is_cut_invariant(&self) -> bool {
        !self.lanes.iter().any(|lane| lane.chain.needs().frames)
    }

    fn is_order_invariant(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for NativeProcessors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NativeProcessors")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
