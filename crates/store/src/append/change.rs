//! An atomic change of one signal: samples, then operations.

use std::ops::Range;

use isochrony_time::{Piece, Point};

use super::replace::replace_shards;
use crate::backend::Backend;
use crate::clock;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::op::{Op, PieceRow, PointRow, RunRow, SignalId};
use crate::state::SignalState;
use crate::store_state::StoreState;

const BLOCK: usize = 256 << 10;

pub(crate) struct Change<'a> {
    id: SignalId,
    samples: Option<(i64, &'a [u8])>,
    pub(crate) ops: Vec<Op>,
    /// Queued after `ops`, in the same unit.
    points: Vec<PointRow>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(id: SignalId) -> Self {
        Self {
            id,
            samples: None,
            ops: Vec::with_capacity(8),
            points: Vec::new(),
        }
    }

    pub(crate) fn write(&mut self, index: i64, bytes: &'a [u8]) {
        self.samples = Some((index, bytes)).filter(|_| !bytes.is_empty());
    }

    /// Adds samples or a gap to `run`, whose `end` is set.
    pub(crate) fn extend(&mut self, run: &mut RunRow, from: i64, end: i64) {
        let id = self.id;
        run.end = end;
        self.ops.push(Op::Valid {
            id,
            start: from,
            end,
        });
        self.ops.push(Op::End { id, end });
        self.ops.push(Op::Run { id, run: *run });
    }

    pub(crate) fn point(&mut self, run: u32, point: &Point) -> Result<(), StoreError> {
        self.points.push(clock::point_row(run, point)?);
        Ok(())
    }

    /// Stores pieces from the first that differs; those before `settled` are equal.
    pub(crate) fn fit(
        &mut self,
        state: &SignalState,
        run: u32,
        pieces: &[Piece],
        settled: usize,
    ) -> Result<(), StoreError> {
        let mut same = settled;
        let mut rows: Vec<PieceRow> = Vec::new();
        for piece in pieces {
            let row = clock::piece_row(piece)?;
            if rows.is_empty() && state.fit.nth_of_run(run, same) == Some(row) {
                same += 1;
            } else {
                rows.push(row);
            }
        }
        let stale = state.fit.nth_of_run(run, same).map(|row| row.index);
        let first = rows.first().map(|row| row.index);
        if let Some(from) = first.into_iter().chain(stale).min() {
            self.ops.push(Op::Fit {
                id: self.id,
                run,
                from,
                pieces: rows,
            });
        }
        Ok(())
    }

    pub(crate) fn apply(mut self, shared: &StoreState, engine: &Engine) -> Result<(), StoreError> {
        let StoreState {
            backend,
            views,
            in_place,
            ..
        } = shared;
        // The engine refuses samples; a gap must not extend a sealed array either.
        if self.samples.is_none() && self.ops.iter().any(|op| matches!(op, Op::End { .. })) {
            let state = engine.state(self.id)?;
            if !state.meta.codec.is_empty() {
                return Err(StoreError::Sealed {
                    signal: (*state.name).into(),
                    codec: state.meta.codec.clone(),
                });
            }
        }
        if let Some((start, bytes)) = self.samples {
            self.write_held(backend, engine, start, bytes)?;
            // Blocks that fit the CPU cache, for checksums and views.
            let mut index = start;
            let size = engine.state(self.id)?.meta.format.size();
            let samples_in = |block: &[u8]| (block.len() / size) as i64;
            for block in bytes.chunks(BLOCK) {
                crate::interrupt::check("write samples")?;
                match engine.write_samples(self.id, index, block) {
                    Ok(()) if *in_place => index += samples_in(block),
                    Ok(()) => index = views.feed(backend, self.id, index, block),
                    // An uncommitted gap: its samples must not change before the commit.
                    Err(StoreError::Occupied { .. }) => {
                        let state = engine.state(self.id)?;
                        let exchange = replace_shards(engine, &state, start, bytes)?;
                        self.ops.splice(0..0, exchange);
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        let gaps = self.ops.iter().filter_map(|op| match op {
            Op::Gap { start, end, .. } if *in_place => Some(*start..*end),
            _ => None,
        });
        let freed: Vec<Range<i64>> = gaps.collect();
        let replacements = self.ops.iter().filter_map(Op::replacement);
        let replacements: Vec<String> = replacements.map(str::to_owned).collect();
        let observed = match in_place {
            true => Ok(()),
            false => (self.ops.iter()).try_for_each(|op| views.observe(backend, op)),
        };
        // Readers and failures never see a part.
        let queued = observed.and_then(|()| engine.queue_change(self.id, self.ops, self.points));
        if queued.is_err() {
            engine.discard_replacements(replacements.iter().map(String::as_str));
        }
        queued?;
        freed.iter().for_each(|gap| backend.memory_blocks.cut(gap));
        Ok(())
    }

    fn write_held(
        &self,
        backend: &Backend,
        engine: &Engine,
        start: i64,
        bytes: &[u8],
    ) -> Result<(), StoreError> {
        if backend.memory_blocks.is_empty() {
            return Ok(());
        }
        let size = engine.state(self.id)?.meta.format.size();
        let range = start..start.saturating_add((bytes.len() / size) as i64);
        for (own, block) in backend.memory_blocks.within(&range) {
            engine.write_samples(self.id, own.start, block.bytes())?;
            backend.memory_blocks.cut(&own);
        }
        Ok(())
    }
}
