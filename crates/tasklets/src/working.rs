//! What tasklets do in a run: their functions, what becomes of what these give, what of it is kept.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use isochrony_store::{Blocks, Scratch, SignalWriter, StoreError};

use crate::context::{Context, Staged};
use crate::earlier::joined;
use crate::error::{Cause, TaskletError};
use crate::executor::Options;
use crate::journal::{Journal, Line};
use crate::planned::Planned;
use crate::pool::Pool;
use crate::run::Work;
use crate::tasklet::{Part, Place, Returned, Tasklet};

pub(crate) struct Working<'a> {
    tasklets: &'a [Tasklet],
    planned: &'a Planned,
    stop: Arc<AtomicBool>,
    pool: Arc<Pool>,
    /// Bytes of scratch that may still be kept in memory.
    room: AtomicU64,
    /// Held shared while the outputs of a tasklet are shown, alone while they are committed: a commit never holds half a
    /// tasklet.
    publishing: RwLock<()>,
    journal: Option<Mutex<Journal>>,
    returned: Mutex<HashMap<usize, Returned>>,
}

impl<'a> Working<'a> {
    pub(crate) fn new(
        tasklets: &'a [Tasklet],
        planned: &'a Planned,
        options: &Options,
        journal: Option<Journal>,
    ) -> Self {
        let room = match options.scratch_memory {
            Some(room) => room,
            None if planned.graph.scratch.iter().all(|bytes| *bytes == 0) => 0,
            None => Scratch::free_memory(),
        };
        let pool: Arc<Pool> = Arc::default();
        let blocks: Arc<dyn Blocks> = Arc::clone(&pool) as _;
        // What a function has read of scratch is to be right for ever.
        for scratch in planned.index.scratch() {
            scratch.copy_into(&blocks);
        }
        Self {
            tasklets,
            planned,
            stop: Arc::default(),
            pool,
            room: AtomicU64::new(room),
            publishing: RwLock::new(()),
            journal: journal.map(Mutex::new),
            returned: Mutex::new(HashMap::new()),
        }
    }

    /// What tasklets returned, by their numbers.
    pub(crate) fn take_returned(&self) -> HashMap<usize, Returned> {
        std::mem::take(&mut *self.returned())
    }

    fn returned(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Returned>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what a tasklet staged, all of it.
    fn publish(&self, tasklet: &Tasklet, context: Context<'_>) -> Result<(), Cause> {
        let staged = context.staged;
        for (part, pieces) in tasklet.outputs.iter().zip(&staged) {
            let dtype = part.dtype()?;
            let mut written: Vec<(i64, i64)> = (pieces.iter())
                .map(|(offset, bytes)| (*offset, bytes.bytes().len() / dtype.size()))
                .map(|(offset, samples)| (offset, offset + samples as i64))
                .collect();
            written.sort_unstable();
            let mut until = 0;
            for (start, end) in written.into_iter().chain([(part.len(), part.len())]) {
                if start > until {
                    return Err(TaskletError::MissingOutput {
                        name: tasklet.name.clone(),
                        signal: part.signal()?.name().into(),
                        start: part.range.start + until,
                        end: part.range.start + start,
                    }
                    .into());
                }
                until = until.max(end);
            }
        }
        let _together = self
            .publishing
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut filled: Vec<(&Part, SignalWriter, Range<i64>)> = Vec::new();
        for (part, pieces) in tasklet.outputs.iter().zip(staged) {
            let writer = part.writer()?;
            let size = part.dtype()?.size();
            for (offset, staged) in pieces {
                let start = part.range.start + offset;
                let end = start + (staged.bytes().len() / size) as i64;
                if let Err(error) = self.show(part, &writer, start, staged) {
                    // Nobody may see half of it; but what refused to be filled is somebody else's.
                    for (part, writer, range) in filled {
                        match &part.place {
                            Place::Scratch(scratch) => self.take_back(scratch, range)?,
                            _ => writer.mark_invalid(range)?,
                        }
                    }
                    return Err(error);
                }
                filled.push((part, writer.clone(), start..end));
            }
        }
        Ok(())
    }

    /// Makes samples of what was staged: where they are, if that is scratch and there is room; else in the signal's file.
    fn show(
        &self,
        part: &Part,
        writer: &SignalWriter,
        start: i64,
        staged: Staged,
    ) -> Result<(), Cause> {
        let bytes = staged.bytes().len() as u64;
        let within = |room: u64| room.checked_sub(bytes);
        let least = (Ordering::Relaxed, Ordering::Relaxed);
        if let Place::Scratch(scratch) = &part.place
            && self.room.fetch_update(least.0, least.1, within).is_ok()
        {
            let held = match staged {
                Staged::Block(block, true) => scratch.hold(start, &block).map_err(Cause::from),
                part => (self.pool.copy_of(part.bytes()))
                    .map_err(Cause::from)
                    .and_then(|block| {
                        self.again(part);
                        Ok(scratch.hold(start, &block)?)
                    }),
            };
            if held.is_err() {
                self.room.fetch_add(bytes, Ordering::Relaxed);
            }
            return held;
        }
        writer.fill_bytes(start, staged.bytes())?;
        self.again(staged);
        Ok(())
    }

    /// What is filled is copied: its block may be used again.
    fn again(&self, staged: Staged) {
        if let Staged::Block(block, true) = staged {
            self.pool.give(block);
        }
    }

    /// Gives scratch back, be it memory or blocks of files.
    fn take_back(&self, scratch: &Scratch, range: Range<i64>) -> Result<(), StoreError> {
        for block in scratch.take_back(range)?.1 {
            self.room.fetch_add(block.len() as u64, Ordering::Relaxed);
            self.pool.give(block);
        }
        Ok(())
    }

    /// Nobody needs what a tasklet wrote to scratch any more.
    pub(crate) fn release_all(&self, tasklet: &Tasklet) -> Result<(), StoreError> {
        for part in &tasklet.outputs {
            if let Place::Scratch(scratch) = &part.place {
                let signal = scratch.signal()?;
                if signal.gaps().missing_within(part.range.clone()) < part.len() {
                    self.take_back(scratch, part.range.clone())?;
                }
            }
        }
        Ok(())
    }
}

impl Work for Working<'_> {
    fn run(&self, tasklet: usize, worker: usize) -> Result<(), Cause> {
        let at = tasklet;
        let tasklet = &self.tasklets[at];
        let mut context = Context::new(tasklet, worker, &self.stop, &self.pool);
        context.journaled = self.journal.is_some();
        let returned =
            isochrony_store::interrupt::stoppable(&self.stop, || (tasklet.function)(&mut context))?;
        self.publish(tasklet, context)?;
        self.returned().insert(at, returned);
        Ok(())
    }

    fn release(&self, tasklet: usize) -> Result<(), TaskletError> {
        Ok(self.release_all(&self.tasklets[tasklet])?)
    }

    fn write_back(&self, done: &[usize]) {
        let mut filled: HashMap<usize, (&Part, Vec<Range<i64>>)> = HashMap::new();
        for at in done {
            let specs = &self.planned.index.specs[*at].outputs;
            for (part, extent) in self.tasklets[*at].outputs.iter().zip(specs) {
                if !part.is_scratch() {
                    let found = filled.entry(extent.signal).or_insert((part, Vec::new()));
                    found.1.push(extent.range.clone());
                }
            }
        }
        for (part, ranges) in filled.into_values() {
            // What fails here is told by the commit.
            let Ok(writer) = part.writer() else { continue };
            joined(ranges)
                .into_iter()
                .for_each(|range| writer.write_back(range));
        }
    }

    fn keep(&self, done: &[usize]) -> Result<(), TaskletError> {
        {
            let _alone = self
                .publishing
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            for store in &self.planned.index.stores {
                store.commit(true)?;
            }
        }
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let returned = self.returned();
        let lines: Vec<Line> = (done.iter())
            .filter_map(|at| {
                let value = match returned.get(at)? {
                    Returned::Unkept => return None,
                    kept => kept.json(),
                };
                Some(Line::Done {
                    name: self.planned.graph.names[*at].clone(),
                    of: self.planned.identities[*at].clone(),
                    value,
                })
            })
            .collect();
        drop(returned);
        journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(lines)
    }

    fn prefetch(&self, tasklet: usize) -> u64 {
        let spec = &self.planned.index.specs[tasklet];
        let parts = spec.inputs.iter().map(|input| &input.extent);
        parts
            .map(|extent| {
                let known = &self.planned.index.signals[extent.signal];
                // What this run writes is in memory still.
                if known.is_scratch || known.written {
                    return 0;
                }
                known.signal.prefetch(extent.range.clone())
            })
            .sum()
    }

    fn weight(&self, tasklet: usize) -> u64 {
        self.planned.index.bytes(tasklet)
    }

    fn interrupt(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn is_interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn keeps(&self) -> bool {
        self.journal.is_some() || !self.planned.index.stores.is_empty()
    }
}
