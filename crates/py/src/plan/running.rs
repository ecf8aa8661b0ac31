//! Executes plans in the calling thread and polls the interpreter meanwhile.
//!
//! Python calls signal handlers only in the main thread, while attached. So a run's [`Watch`] attaches at intervals to
//! handle signals and report progress; an exception of either ends the execution.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use isochrony_flow::{Plan, ProcessReport, Progress, RunError, RunOptions, Watch};
use pyo3::prelude::*;

use super::cluster::{PythonCluster, as_on_cluster};
use super::nesting::Nesting;
use super::owner::Owner;
use super::run_context::RunContext;
use super::run_options::{PythonRunOptions, TuningRequest};
use crate::errors::Result;
use crate::interpreter::{self, attach, detach};
use crate::workers::process_pool;

/// If another thread runs Python code, attaching takes up to 5 ms.
const MAX_ATTACH_WAIT: Duration = Duration::from_millis(1);
/// Polls skipped then: waiting takes a twentieth of the execution, and polls stay less than 100 ms apart.
const SKIPPED_POLLS: u32 = 2;

/// Runs plans as one; also returns reports of worker processes. `owners` own the plans' objects.
pub(super) fn execute<'a, T: Send>(
    py: Python<'_>,
    plans: &[Plan],
    owners: impl Iterator<Item = &'a Py<Owner>>,
    asked: &PythonRunOptions,
    progress: Option<Py<PyAny>>,
    run: impl FnOnce(&[Plan], &RunOptions<'_>) -> std::result::Result<T, RunError> + Send,
) -> Result<(T, Vec<ProcessReport>)> {
    let nesting = Nesting::current();
    let owners: Vec<&Py<Owner>> = owners.collect();
    nesting.check(py, owners.iter().copied())?;
    let objects = Owner::objects_of(py, owners);
    let mut options: RunOptions<'_> = asked.settings;
    if interpreter::is_closing() {
        // Workers cannot attach any more.
        options.workers = 1;
    }
    let ends = interpreter::ActiveRun::begin(py, options.workers > 1)?;
    let stop = ends.stop.clone();
    let exception = Arc::clone(&ends.exception);
    let poll = Arc::new(InterpreterPoll {
        progress,
        nesting: nesting.inside_handler(),
        done: Progress::default(),
        polls_to_skip: AtomicU32::new(0),
        is_needed: OnceLock::new(),
        raised: Mutex::new(None),
    });
    let watched = poll.clone();
    let watch = Watch::new(move || watched.run());
    options.watch = Some(&watch);
    options.progress = Some(&poll.done);
    options.interrupt = Some(&stop);
    let control = asked.control.as_ref();
    options.control = control.map(|control| &*control.get().control);
    let tuning = asked
        .tuning
        .as_ref()
        .map(TuningRequest::tuning)
        .transpose()?;
    options.tuning = tuning.as_ref();
    let cluster = asked.cluster.as_ref();
    let cluster = cluster.map(|cluster| PythonCluster::new(cluster.bind(py)));
    let cluster = cluster.transpose()?;
    if let Some(cluster) = &cluster {
        as_on_cluster(&mut options);
        options.cluster = Some(cluster);
    }
    let processes =
        (options.workers > 1).then(|| process_pool(options.workers, nesting.of_processes()));
    let shared: Arc<dyn Any + Send + Sync> = Arc::new(RunContext::new(processes.clone(), nesting));
    options.shared = Some(&shared);
    let (ran, processes) = detach(py, || {
        let ran = run(plans, &options);
        let ended = processes.map(|processes| processes.close());
        // From here on it does not delay the interpreter's end.
        drop(ends);
        (ran, ended.unwrap_or_default())
    });
    drop(objects);
    let raised = poll.raised().take();
    if let Some(error) = raised {
        return Err(error.into());
    }
    if let Err(RunError::Interrupted { .. }) = ran
        && let Some(error) = (exception.lock().unwrap_or_else(PoisonError::into_inner)).take()
    {
        return Err(error.into());
    }
    Ok((ran?, processes))
}

struct InterpreterPoll {
    progress: Option<Py<PyAny>>,
    /// For runs of progress functions and signal handlers.
    nesting: Arc<Nesting>,
    done: Progress,
    polls_to_skip: AtomicU32,
    /// Unset before the first poll.
    is_needed: OnceLock<bool>,
    raised: Mutex<Option<PyErr>>,
}

impl InterpreterPoll {
    fn run(&self) -> bool {
        let left = self.polls_to_skip.load(Ordering::Relaxed);
        if left > 0 {
            self.polls_to_skip.store(left - 1, Ordering::Relaxed);
            return true;
        }
        if self.is_needed.get() == Some(&false) {
            return true;
        }
        let asked = Instant::now();
        let outcome = attach(|py| -> PyResult<()> {
            if asked.elapsed() > MAX_ATTACH_WAIT {
                self.polls_to_skip.store(SKIPPED_POLLS, Ordering::Relaxed);
            }
            if self.is_needed.get().is_none() {
                // Only the main thread handles signals.
                let is_needed = self.progress.is_some() || in_main_thread(py)?;
                let _ = self.is_needed.set(is_needed);
            }
            let _inside = self.nesting.enter();
            py.check_signals()?;
            // Not called again after it raised, while the run ends.
            let progress = self.progress.as_ref().filter(|_| self.raised().is_none());
            match progress {
                Some(progress) => {
                    let (done, total) = (self.done.done(), self.done.total().unwrap_or(0));
                    progress.call1(py, (done, total)).map(drop)
                }
                None => Ok(()),
            }
        });
        match outcome {
            Ok(()) => true,
            Err(error) => {
                self.raised().get_or_insert(error);
                false
            }
        }
    }

    fn raised(&self) -> MutexGuard<'_, Option<PyErr>> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn in_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}
