//! Runs tasklets over stores: calls functions, publishes and commits their outputs.
//!
//! ```text
//!  function writes      -> staged in memory, invisible
//!  function succeeded   -> filled into the signals       (shared lock: many tasklets at once)
//!  every `keep_every`   -> stores commit, then journal   (exclusive lock: a commit never holds half a tasklet)
//! ```

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use isochrony_runtime::{Interrupt, MemoryBudget};
use isochrony_store::{Blocks, Scratch, SignalWriter, StoreError};

use crate::block_pool::BlockPool;
use crate::context::{StagedBytes, TaskletContext};
use crate::error::{Cause, TaskletError};
use crate::graph::InputSpec;
use crate::journal::{Journal, JournalRecord};
use crate::options::ExecutorOptions;
use crate::runner::TaskletRunner;
use crate::schedule::Schedule;
use crate::signal_range::{SignalHandle, SignalRange, merge_ranges};
use crate::tasklet::{ReturnValue, Tasklet};

pub(crate) struct StoreRunner<'a> {
    tasklets: &'a [Tasklet],
    schedule: &'a Schedule,
    interrupt: Interrupt,
    pool: Arc<BlockPool>,
    scratch_memory: MemoryBudget,
    /// Shared while outputs become visible, exclusive while stores commit.
    commit_lock: RwLock<()>,
    journal: Option<Mutex<Journal>>,
    return_values: Mutex<HashMap<usize, ReturnValue>>,
}

impl<'a> StoreRunner<'a> {
    pub(crate) fn new(
        tasklets: &'a [Tasklet],
        schedule: &'a Schedule,
        options: &ExecutorOptions,
        journal: Option<Journal>,
    ) -> Self {
        let scratch_memory = match options.scratch_memory {
            Some(bytes) => bytes,
            None if schedule.graph.scratch_bytes.iter().all(|bytes| *bytes == 0) => 0,
            None => Scratch::free_memory(),
        };
        let pool: Arc<BlockPool> = Arc::default();
        let blocks: Arc<dyn Blocks> = Arc::clone(&pool) as _;
        // Not mapped: a function's input must not change when scratch is released.
        for scratch in schedule.catalog.scratch() {
            scratch.copy_into(&blocks);
        }
        Self {
            tasklets,
            schedule,
            interrupt: Interrupt::default(),
            pool,
            scratch_memory: MemoryBudget::new(scratch_memory),
            commit_lock: RwLock::new(()),
            journal: journal.map(Mutex::new),
            return_values: Mutex::new(HashMap::new()),
        }
    }

    pub(crate) fn take_return_values(&self) -> HashMap<usize, ReturnValue> {
        std::mem::take(&mut *self.lock_return_values())
    }

    fn lock_return_values(&self) -> MutexGuard<'_, HashMap<usize, ReturnValue>> {
        let values = self.return_values.lock();
        values.unwrap_or_else(PoisonError::into_inner)
    }

    /// All outputs of a tasklet become visible, or none.
    fn publish(&self, tasklet: &Tasklet, context: TaskletContext<'_>) -> Result<(), Cause> {
        let staged = context.staged;
        for (output, pieces) in tasklet.outputs.iter().zip(&staged) {
            check_complete(&tasklet.name, output, pieces)?;
        }
        let _shared = self
            .commit_lock
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let mut filled: Vec<(&SignalRange, SignalWriter, Range<i64>)> = Vec::new();
        for (output, pieces) in tasklet.outputs.iter().zip(staged) {
            let writer = output.writer()?;
            let size = output.dtype()?.size();
            for (offset, bytes) in pieces {
                let start = output.range.start + offset;
                let end = start + (bytes.bytes().len() / size) as i64;
                if let Err(error) = self.fill(output, &writer, start, bytes) {
                    // The conflicting samples belong to someone else.
                    for (output, writer, range) in filled {
                        match &output.handle {
                            SignalHandle::Scratch(scratch) => self.free_scratch(scratch, range)?,
                            _ => writer.mark_invalid(range)?,
                        }
                    }
                    return Err(error);
                }
                filled.push((output, writer.clone(), start..end));
            }
        }
        Ok(())
    }

    /// Scratch keeps the block while memory suffices, else writes its file.
    fn fill(
        &self,
        output: &SignalRange,
        writer: &SignalWriter,
        start: i64,
        staged: StagedBytes,
    ) -> Result<(), Cause> {
        let bytes = staged.bytes().len() as u64;
        if let SignalHandle::Scratch(scratch) = &output.handle
            && self.scratch_memory.try_grow(bytes)
        {
            let held = match staged {
                StagedBytes::Block(block, true) => scratch.hold(start, &block).map_err(Cause::from),
                other => (self.pool.copy_of(other.bytes()))
                    .map_err(Cause::from)
                    .and_then(|block| {
                        self.recycle(other);
                        Ok(scratch.hold(start, &block)?)
                    }),
            };
            if held.is_err() {
                self.scratch_memory.shrink(bytes);
            }
            return held;
        }
        writer.fill_bytes(start, staged.bytes())?;
        self.recycle(staged);
        Ok(())
    }

    fn recycle(&self, staged: StagedBytes) {
        if let StagedBytes::Block(block, true) = staged {
            self.pool.give(block);
        }
    }

    fn free_scratch(&self, scratch: &Scratch, range: Range<i64>) -> Result<(), StoreError> {
        for block in scratch.take_back(range)?.1 {
            self.scratch_memory.shrink(block.len() as u64);
            self.pool.give(block);
        }
        Ok(())
    }

    pub(crate) fn release_scratch_of(&self, tasklet: &Tasklet) -> Result<(), StoreError> {
        for output in &tasklet.outputs {
            if let SignalHandle::Scratch(scratch) = &output.handle {
                let signal = scratch.signal()?;
                if signal.gaps().missing_within(output.range.clone()) < output.len() {
                    self.free_scratch(scratch, output.range.clone())?;
                }
            }
        }
        Ok(())
    }
}

fn check_complete(
    name: &str,
    output: &SignalRange,
    pieces: &[(i64, StagedBytes)],
) -> Result<(), Cause> {
    let size = output.dtype()?.size();
    let mut written: Vec<(i64, i64)> = pieces
        .iter()
        .map(|(offset, bytes)| (*offset, offset + (bytes.bytes().len() / size) as i64))
        .collect();
    written.sort_unstable();
    let mut covered_to = 0;
    for (start, end) in written.into_iter().chain([(output.len(), output.len())]) {
        if start > covered_to {
            return Err(TaskletError::MissingOutput {
                name: name.to_owned(),
                signal: output.signal()?.name().into(),
                start: output.range.start + covered_to,
                end: output.range.start + start,
            }
            .into());
        }
        covered_to = covered_to.max(end);
    }
    Ok(())
}

impl TaskletRunner for StoreRunner<'_> {
    fn run(&self, tasklet: usize, worker: usize) -> Result<(), Cause> {
        let number = tasklet;
        let tasklet = &self.tasklets[number];
        let mut context = TaskletContext::new(
            &tasklet.name,
            (&tasklet.inputs, &tasklet.outputs),
            worker,
            &self.interrupt,
            &self.pool,
            self.journal.is_some(),
        );
        let value = isochrony_store::interrupt::stoppable(&self.interrupt, || {
            (tasklet.function)(&mut context)
        })?;
        self.publish(tasklet, context)?;
        self.lock_return_values().insert(number, value);
        Ok(())
    }

    fn release_scratch(&self, tasklet: usize) -> Result<(), TaskletError> {
        Ok(self.release_scratch_of(&self.tasklets[tasklet])?)
    }

    fn write_back(&self, finished: &[usize]) {
        let mut filled: HashMap<usize, (&SignalRange, Vec<Range<i64>>)> = HashMap::new();
        for at in finished {
            let extents = &self.schedule.catalog.specs[*at].outputs;
            for (output, extent) in self.tasklets[*at].outputs.iter().zip(extents) {
                if !output.is_scratch() {
                    let entry = filled.entry(extent.signal);
                    let (_, ranges) = entry.or_insert((output, Vec::new()));
                    ranges.push(extent.range.clone());
                }
            }
        }
        for (output, ranges) in filled.into_values() {
            // The commit reports errors.
            let Ok(writer) = output.writer() else {
                continue;
            };
            for range in merge_ranges(ranges) {
                writer.write_back(range);
            }
        }
    }

    fn commit(&self, finished: &[usize]) -> Result<(), TaskletError> {
        {
            let _exclusive = self
                .commit_lock
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            for store in &self.schedule.catalog.written_stores {
                store.commit(true)?;
            }
        }
        let Some(journal) = &self.journal else {
            return Ok(());
        };
        let values = self.lock_return_values();
        let records: Vec<JournalRecord> = (finished.iter())
            .filter_map(|at| {
                let value = match values.get(at)? {
                    ReturnValue::NotSerializable => return None,
                    value => value.json(),
                };
                Some(JournalRecord::Done {
                    name: self.schedule.graph.names[*at].clone(),
                    identity: self.schedule.fingerprints[*at].clone(),
                    value,
                })
            })
            .collect();
        drop(values);
        journal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .append(records)
    }

    fn prefetch(&self, tasklet: usize) -> u64 {
        let catalog = &self.schedule.catalog;
        let extents = catalog.specs[tasklet].inputs.iter();
        let bytes = extents.map(|InputSpec { extent, .. }| {
            let entry = &catalog.signals[extent.signal];
            // Still in the page cache.
            if entry.is_scratch || entry.is_written {
                return 0;
            }
            entry.signal.prefetch(extent.range.clone())
        });
        bytes.sum()
    }

    fn byte_count(&self, tasklet: usize) -> u64 {
        self.schedule.catalog.tasklet_bytes(tasklet)
    }

    fn interrupt(&self) {
        self.interrupt.request();
    }

    fn is_interrupted(&self) -> bool {
        self.interrupt.is_requested()
    }

    fn has_commits(&self) -> bool {
        self.journal.is_some() || !self.schedule.catalog.written_stores.is_empty()
    }
}
