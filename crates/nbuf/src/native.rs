//! The processors of `isochrony-bytes` as a [`Process`].
//!
//! Processors that need their bytes in order get a lane each, so that two hashes of one stream are computed by two
//! workers at once; all others share one pass over a buffer, and one lane that joins their parts. Nobody can see in which
//! order buffers are executed, so they are executed in parallel under any order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use isochrony_bytes::{BytesError, Chain, Joined, Outcome, Part, Piece, State};

use crate::error::{Cause, Located};
use crate::out::Out;
use crate::process::{Block, Process};

/// Native processors over one stream, in one pass.
pub struct Native {
    lanes: Vec<Lane>,
    /// As they were named.
    names: Vec<String>,
    /// The lane that makes output.
    output: Option<usize>,
    /// Whether the input goes to the outputs where no processor makes output.
    copies: bool,
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
    // What panics within ends the run, and then nobody looks at it any more.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn located(why: BytesError) -> Cause {
    match why.offset() {
        Some(offset) => Box::new(Located {
            offset,
            length: 0,
            why: why.into(),
        }),
        None => why.into(),
    }
}

impl Native {
    /// Processors by their names, as `isochrony_bytes::Chain::parse` takes them.
    ///
    /// # Errors
    /// What is wrong with the names.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, BytesError> {
        let names: Vec<String> = Chain::parse(names)?
            .names()
            .map(ToOwned::to_owned)
            .collect();
        let mut together = Vec::new();
        let mut lanes = Vec::new();
        for name in &names {
            let alone = Lane::new(std::slice::from_ref(name))?;
            if alone.chain.needs().ordered {
                lanes.push(alone);
            } else {
                together.push(name.clone());
            }
        }
        if !together.is_empty() {
            lanes.insert(0, Lane::new(&together)?);
        }
        let output = lanes.iter().position(|lane| lane.chain.needs().output);
        Ok(Self {
            lanes,
            names,
            output,
            copies: true,
            outcomes: Mutex::default(),
        })
    }

    /// Does not copy the input to the outputs where no processor makes output.
    #[must_use]
    pub fn without_copy(mut self) -> Self {
        self.copies = false;
        self
    }

    /// Whether a processor makes output of its own.
    #[must_use]
    pub fn makes_output(&self) -> bool {
        self.output.is_some()
    }

    /// The results of a run that came to its end, in the order of names.
    #[must_use]
    pub fn outcomes(&self) -> Vec<(String, Outcome)> {
        lock(&self.outcomes).clone()
    }
}

fn piece<'a>(block: &Block<'a>) -> Piece<'a> {
    Piece {
        offset: block.offset,
        bytes: block.bytes,
    }
}

impl Process for Native {
    type Worker = Vec<Part>;

    fn worker(&self) -> Vec<Part> {
        self.lanes.iter().map(|lane| lane.chain.part()).collect()
    }

    fn execute(
        &self,
        parts: &mut Vec<Part>,
        block: &Block<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), Cause> {
        for (lane, part) in self.lanes.iter().zip(parts) {
            if lane.chain.needs().scan {
                lane.chain.scan(piece(block), part).map_err(located)?;
            }
        }
        if self.output.is_none() && self.copies {
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
        block: &Block<'_>,
        out: &mut Out<'_>,
    ) -> Result<(), Cause> {
        let (Lane { chain, state }, part) = (&self.lanes[lane], &mut parts[lane]);
        let mut state = lock(state);
        loop {
            match chain
                .join(piece(block), part, &mut state)
                .map_err(located)?
            {
                Joined::Done => return Ok(()),
                Joined::Again => {
                    for bytes in part.output() {
                        out.put(0, bytes)?;
                    }
                }
            }
        }
    }

    fn output<'w>(&self, parts: &'w Vec<Part>) -> [&'w [u8]; 2] {
        self.output.map_or([&[], &[]], |lane| parts[lane].output())
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

    fn works_in_joins(&self) -> bool {
        self.lanes.iter().any(|lane| lane.chain.needs().ordered)
    }

    fn worker_bytes(&self, buffer: usize) -> usize {
        let lanes = self.lanes.iter();
        lanes.map(|lane| lane.chain.part_bytes(buffer)).sum()
    }

    fn shared_bytes(&self) -> usize {
        self.lanes.iter().map(|lane| lane.chain.state_bytes()).sum()
    }

    fn makes_one_stream(&self) -> bool {
        self.makes_output()
    }

    fn stages(&self) -> bool {
        self.lanes.iter().any(|lane| lane.chain.needs().again)
    }

    fn order_does_not_show(&self) -> bool {
        true
    }
}

impl std::fmt::Debug for Native {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Native")
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}
