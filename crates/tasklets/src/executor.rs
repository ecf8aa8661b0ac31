//! The executor: tasklets are added, looked at, run.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use isochrony_store::SignalWriter;

use crate::error::{Cause, TaskletError};
use crate::journal::{Journal, Line};
use crate::order::Order;
use crate::planned::Planned;
use crate::report::{Failure, Report};
use crate::roster::Roster;
use crate::run::{Progress, Work, run};
use crate::tasklet::{Context, Place, Returned, Tasklet};

/// How tasklets are run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Threads, from 1.
    pub workers: usize,
    /// Most bytes of scratch that are in use at a time.
    pub scratch: u64,
    /// What comes first where dependencies leave a choice.
    pub order: Order,
    /// Most bytes of inputs that are read ahead of the tasklets that have begun; 0: none.
    pub prefetch: u64,
    /// Whether others go on when a tasklet fails.
    pub keep_going: bool,
    /// How often finished work is committed and noted, and so how much of it a crash can cost.
    pub keep_every: Duration,
    /// Where finished tasklets are noted; None: in the store of the first output.
    pub journal: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            workers: 1,
            scratch: 1 << 30,
            order: Order::Disk,
            prefetch: 32 << 20,
            keep_going: true,
            keep_every: Duration::from_secs(1),
            journal: None,
        }
    }
}

/// Tasklets that are run together.
///
/// ```
/// use isochrony_segment::DType;
/// use isochrony_store::{CreateOptions, Mode, Store};
/// use isochrony_tasklets::{Executor, Options, Part, Returned, Tasklet};
/// use isochrony_time::Rate;
///
/// let folder = tempfile::tempdir()?;
/// let store = Store::open(folder.path().join("a.iso"), Mode::Create)?;
/// let options = CreateOptions::new(DType::I32, Rate::from_hz(100)?);
/// let counts = store.create("counts", &options)?;
/// counts.append(&(0..1000).collect::<Vec<i32>>())?;
/// let doubled = store.create("doubled", &options)?;
/// doubled.append_gap(1000)?;
///
/// let mut executor = Executor::new(Options::default())?;
/// let (from, to) = (store.signal("counts")?, store.signal("doubled")?);
/// for start in (0..1000).step_by(250) {
///     let double = Tasklet::new(format!("double {start}"), "double", |context| {
///         let samples = context.input(0)?.counts(0i32)?;
///         context.write(0, 0, &samples.iter().map(|x| 2 * x).collect::<Vec<i32>>())?;
///         Ok(Returned::Nothing)
///     });
///     let range = start..start + 250;
///     executor.add(double.reads(Part::new(&store, &from, range.clone())).writes(Part::new(&store, &to, range)));
/// }
/// let report = executor.run(false, &mut |_| true)?;
/// assert_eq!(report.tasklets.len(), 4);
/// assert_eq!(store.signal("doubled")?.select(997..1000)?.counts(0i32)?, [1994, 1996, 1998]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Executor {
    options: Options,
    tasklets: Vec<Tasklet>,
    around: Option<Around>,
}

/// What each worker's thread does around all that it does: it calls what it is given, once.
pub(crate) type Around = fn(&mut (dyn FnMut() + Send));

impl Executor {
    /// An executor without tasklets.
    ///
    /// # Errors
    /// [`TaskletError::Option`].
    pub fn new(options: Options) -> Result<Self, TaskletError> {
        const MOST_WORKERS: usize = 1024;
        if !(1..=MOST_WORKERS).contains(&options.workers) {
            return Err(TaskletError::Option {
                option: "workers",
                got: options.workers.to_string(),
                legal: "a number from 1 to 1024",
            });
        }
        Ok(Self {
            options,
            tasklets: Vec::new(),
            around: None,
        })
    }

    /// The same, but each worker's thread runs inside of this, which calls what it is given once: for what is set up once a
    /// thread and not once a tasklet.
    #[must_use]
    pub fn around(mut self, around: fn(&mut (dyn FnMut() + Send))) -> Self {
        self.around = Some(around);
        self
    }

    /// Adds a tasklet.
    pub fn add(&mut self, tasklet: Tasklet) {
        self.tasklets.push(tasklet);
    }

    /// The tasklets, in the order in which they were added.
    #[must_use]
    pub fn tasklets(&self) -> &[Tasklet] {
        &self.tasklets
    }

    /// The order in which they would be run, and why; runs nothing.
    ///
    /// # Errors
    /// As [`run`](Self::run) before anything runs.
    pub fn explain(&self, resume: bool) -> Result<String, TaskletError> {
        let planned = Planned::looked_at(&self.tasklets, &self.options, resume)?;
        Ok(planned.explain(&self.tasklets, &self.options))
    }

    /// Runs them. With `resume` what an earlier run finished is kept, however it ended. `watch` is called in this thread
    /// forty times a second, and says whether to go on.
    ///
    /// # Errors
    /// Before anything runs: [`TaskletError::TwoWriters`], [`TaskletError::Cycle`], [`TaskletError::NobodyWrites`],
    /// [`TaskletError::ScratchTooSmall`], [`TaskletError::OutputOccupied`] and others. Afterwards, with the report:
    /// [`TaskletError::Failed`], [`TaskletError::Interrupted`].
    pub fn run(
        &self,
        resume: bool,
        watch: &mut dyn FnMut(&Progress) -> bool,
    ) -> Result<Report, Box<Failure>> {
        let (planned, journal) = Planned::locked(&self.tasklets, &self.options, resume)?;
        let journal = match journal {
            Some(journal) => Some(journal.begin(resume, planned.claims())?),
            None => None,
        };
        self.clear_unfinished(&planned)?;
        let tasklets = planned.index.at_home(&self.tasklets);
        let roster = Roster::new(
            planned.graph.clone(),
            planned.serial.clone(),
            self.options.scratch,
        );
        let work = Working {
            tasklets: &tasklets,
            planned: &planned,
            stop: Arc::default(),
            publishing: RwLock::new(()),
            journal: journal.map(Mutex::new),
            returned: Mutex::new(HashMap::new()),
        };
        let ran = run(roster, &work, &self.options, self.around, watch)?;
        // Of tasklets that ended without their readers.
        for tasklet in &self.tasklets {
            work.release_all(tasklet).map_err(TaskletError::from)?;
        }
        let returned = std::mem::take(&mut *work.returned());
        Report::made(&planned, &self.options, ran, returned)
    }

    /// Takes back what an earlier run wrote without noting that it was finished.
    fn clear_unfinished(&self, planned: &Planned) -> Result<(), TaskletError> {
        for (at, output) in &planned.unfinished {
            let part = &self.tasklets[*at].outputs[*output];
            part.writer()?.mark_invalid(part.range.clone())?;
        }
        if !planned.unfinished.is_empty() {
            for store in &planned.index.stores {
                store.commit(false)?;
            }
        }
        Ok(())
    }
}

struct Working<'a> {
    tasklets: &'a [Tasklet],
    planned: &'a Planned,
    stop: Arc<AtomicBool>,
    /// Held shared while the outputs of a tasklet are shown, alone while they are committed: a commit never holds half a
    /// tasklet.
    publishing: RwLock<()>,
    journal: Option<Mutex<Journal>>,
    returned: Mutex<HashMap<usize, Returned>>,
}

impl Working<'_> {
    fn returned(&self) -> std::sync::MutexGuard<'_, HashMap<usize, Returned>> {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what a tasklet staged, all of it.
    fn publish(&self, tasklet: &Tasklet, context: Context<'_>) -> Result<(), Cause> {
        let staged = context.staged;
        for (part, pieces) in tasklet.outputs.iter().zip(&staged) {
            let dtype = part.signal()?.dtype();
            let mut written: Vec<(i64, i64)> = (pieces.iter())
                .map(|(offset, bytes)| (*offset, (**bytes).as_ref().len() / dtype.size()))
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
        let mut filled: Vec<(SignalWriter, Range<i64>)> = Vec::new();
        for (part, pieces) in tasklet.outputs.iter().zip(staged) {
            let writer = part.writer()?;
            let size = part.signal()?.dtype().size();
            for (offset, bytes) in pieces {
                let (start, bytes) = (part.range.start + offset, (*bytes).as_ref());
                if let Err(error) = writer.fill_bytes(start, bytes) {
                    // Nobody may see half of it; but what refused to be filled is somebody else's.
                    for (writer, range) in filled {
                        writer.mark_invalid(range)?;
                    }
                    return Err(error.into());
                }
                filled.push((writer.clone(), start..start + (bytes.len() / size) as i64));
            }
        }
        Ok(())
    }

    fn release_all(&self, tasklet: &Tasklet) -> Result<(), isochrony_store::StoreError> {
        for part in &tasklet.outputs {
            if let Place::Scratch(scratch) = &part.place {
                let signal = scratch.signal()?;
                if signal.gaps().missing_within(part.range.clone()) < part.len() {
                    scratch.release(part.range.clone())?;
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
        let mut context = Context::new(tasklet, worker, &self.stop);
        let returned =
            isochrony_store::interrupt::stoppable(&self.stop, || (tasklet.function)(&mut context))?;
        self.publish(tasklet, context)?;
        self.returned().insert(at, returned);
        Ok(())
    }

    fn release(&self, tasklet: usize) -> Result<(), TaskletError> {
        Ok(self.release_all(&self.tasklets[tasklet])?)
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
}
