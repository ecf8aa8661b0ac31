//! The executor: tasklets are added, looked at, run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::error::TaskletError;
use crate::order::Order;
use crate::planned::Planned;
use crate::report::{Failure, Report};
use crate::roster::Roster;
use crate::run::{Progress, run};
use crate::tasklet::Tasklet;
use crate::working::Working;

/// How tasklets are run.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// Threads, from 1.
    pub workers: usize,
    /// Most bytes of scratch that are in use at a time.
    pub scratch: u64,
    /// Most bytes of that which are kept in memory, as they are; the rest is written to files. None: a quarter of the memory
    /// that programs can still have when the run begins.
    pub scratch_memory: Option<u64>,
    /// What comes first where dependencies leave a choice.
    pub order: Order,
    /// Most bytes of inputs that are read ahead of the tasklets that have begun; 0: none.
    pub prefetch: u64,
    /// Whether a single worker is the calling thread, which then looks around between tasklets only: for tasklets that are
    /// short, or see for themselves that the run should end.
    pub in_caller: bool,
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
            scratch_memory: None,
            order: Order::Disk,
            prefetch: 32 << 20,
            in_caller: false,
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
            Arc::clone(&planned.graph),
            Arc::clone(&planned.serial),
            self.options.scratch,
        );
        let work = Working::new(&tasklets, &planned, &self.options, journal);
        let ran = run(roster, &work, &self.options, self.around, watch)?;
        // Of tasklets that ended without their readers.
        for tasklet in &self.tasklets {
            work.release_all(tasklet).map_err(TaskletError::from)?;
        }
        let returned = work.take_returned();
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
