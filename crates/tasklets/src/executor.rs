//! The executor collects tasklets, explains their order, and runs them over stores.

use std::sync::Arc;

use crate::error::TaskletError;
use crate::options::{ExecutorOptions, ThreadWrapper};
use crate::progress::TaskletProgress;
use crate::report::{ExecutionFailure, TaskletsReport};
use crate::schedule::Schedule;
use crate::scheduler::TaskletScheduler;
use crate::store_runner::StoreRunner;
use crate::tasklet::Tasklet;
use crate::tuning::check_mode;
use crate::worker_pool::execute;

/// Executes tasklets.
///
/// ```
/// use isochrony_segment::DType;
/// use isochrony_store::{CreateOptions, Mode, Store};
/// use isochrony_tasklets::{Executor, ExecutorOptions, SignalRange, ReturnValue, Tasklet};
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
/// let mut executor = Executor::new(ExecutorOptions::default())?;
/// let (from, to) = (store.signal("counts")?, store.signal("doubled")?);
/// for start in (0..1000).step_by(250) {
///     let double = Tasklet::new(format!("double {start}"), "double", |context| {
///         let samples = context.input(0)?.counts(0i32)?;
///         context.write(0, 0, &samples.iter().map(|x| 2 * x).collect::<Vec<i32>>())?;
///         Ok(ReturnValue::Nothing)
///     });
///     let range = start..start + 250;
///     executor.add(double.reads(SignalRange::new(&store, &from, range.clone())).writes(SignalRange::new(&store, &to, range)));
/// }
/// let report = executor.run(false, &mut |_| true)?;
/// assert_eq!(report.tasklets.len(), 4);
/// assert_eq!(store.signal("doubled")?.select(997..1000)?.counts(0i32)?, [1994, 1996, 1998]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Executor {
    options: ExecutorOptions,
    tasklets: Vec<Tasklet>,
    thread_wrapper: Option<ThreadWrapper>,
}

impl Executor {
    /// An executor without tasklets.
    ///
    /// # Errors
    /// [`TaskletError::Option`].
    pub fn new(options: ExecutorOptions) -> Result<Self, TaskletError> {
        const MAX_WORKERS: usize = 1024;
        if !(1..=MAX_WORKERS).contains(&options.workers) {
            return Err(TaskletError::Option {
                option: "workers",
                got: options.workers.to_string(),
                legal: "a number from 1 to 1024",
            });
        }
        if let Some(mode) = &options.tuning {
            check_mode(mode, options.workers)?;
        }
        Ok(Self {
            options,
            tasklets: Vec::new(),
            thread_wrapper: None,
        })
    }

    /// Wraps the work of each worker thread, for set-up. `wrapper` must call its argument exactly once.
    #[must_use]
    pub fn with_thread_wrapper(mut self, wrapper: fn(&mut (dyn FnMut() + Send))) -> Self {
        self.thread_wrapper = Some(wrapper);
        self
    }

    /// Adds a tasklet.
    pub fn add(&mut self, tasklet: Tasklet) {
        self.tasklets.push(tasklet);
    }

    /// The tasklets, in the order added.
    #[must_use]
    pub fn tasklets(&self) -> &[Tasklet] {
        &self.tasklets
    }

    /// Renders the order of the tasklets with reasons, without running them.
    ///
    /// # Errors
    /// As [`run`](Self::run) before any tasklet runs.
    pub fn explain(&self, resume: bool) -> Result<String, TaskletError> {
        let schedule = Schedule::preview(&self.tasklets, &self.options, resume)?;
        Ok(schedule.explain(&self.tasklets, &self.options))
    }

    /// `resume` keeps what a previous execution finished. The calling thread calls `watch` about every 25 ms; false
    /// ends the execution.
    ///
    /// # Errors
    /// Before any tasklet runs: [`TaskletError::TwoWriters`], [`TaskletError::Cycle`], [`TaskletError::NobodyWrites`],
    /// [`TaskletError::ScratchTooSmall`], [`TaskletError::OutputOccupied`] and others. Later, with a report:
    /// [`TaskletError::Failed`], [`TaskletError::Interrupted`].
    pub fn run(
        &self,
        resume: bool,
        watch: &mut dyn FnMut(&TaskletProgress) -> bool,
    ) -> Result<TaskletsReport, Box<ExecutionFailure>> {
        let (schedule, journal) =
            Schedule::with_locked_journal(&self.tasklets, &self.options, resume)?;
        let journal = match journal {
            Some(journal) => Some(journal.begin(resume, schedule.new_claims())?),
            None => None,
        };
        self.invalidate_unfinished_outputs(&schedule)?;
        let tasklets = schedule.catalog.with_resolved_handles(&self.tasklets);
        let scheduler = TaskletScheduler::new(
            Arc::clone(&schedule.graph),
            Arc::clone(&schedule.serial),
            self.options.scratch,
        );
        let runner = StoreRunner::new(&tasklets, &schedule, &self.options, journal);
        let outcome = execute(
            scheduler,
            &runner,
            &self.options,
            self.thread_wrapper,
            watch,
        )?;
        for tasklet in &self.tasklets {
            runner
                .release_scratch_of(tasklet)
                .map_err(TaskletError::from)?;
        }
        let returned = runner.take_return_values();
        TaskletsReport::new(&schedule, &self.options, outcome, returned)
    }

    fn invalidate_unfinished_outputs(&self, schedule: &Schedule) -> Result<(), TaskletError> {
        for (tasklet, output) in &schedule.unfinished_outputs {
            let output = &self.tasklets[*tasklet].outputs[*output];
            output.writer()?.mark_invalid(output.range.clone())?;
        }
        if !schedule.unfinished_outputs.is_empty() {
            for store in &schedule.catalog.written_stores {
                store.commit(false)?;
            }
        }
        Ok(())
    }
}
