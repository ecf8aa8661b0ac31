//! Runs in the calling thread, which looks around meanwhile.
//!
//! A signal's Python handler runs only where the interpreter looks for it, in the main thread. So a run, which goes on
//! there detached from the interpreter, attaches now and then ([`Watch`]) to look for signals and to report progress;
//! what either raises ends the run. Short runs do nothing of the kind.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use isochrony_flow::{Plan, ProcessReport, Progress, RunError, RunOptions, Watch};
use isochrony_workers::ProcessPool;
use pyo3::prelude::*;

use super::nesting::Nesting;
use super::owner::Owner;
use super::run_options::PythonRunOptions;
use crate::errors::Result;
use crate::interpreter::{self, attach, detach};
use crate::workers::process_pool;

/// A longer wait for the interpreter means that another thread runs Python code, which lets go of it only every 5 ms.
const BUSY: Duration = Duration::from_millis(1);
/// Looks left out after that: waiting is a twentieth of the run and looks are still less than 100 ms apart.
const LEAVE_OUT: u32 = 2;

/// Shared by the operators of a run that call Python.
pub(crate) struct RunContext {
    processes: Option<Arc<ProcessPool>>,
    nesting: Arc<Nesting>,
}

impl RunContext {
    fn of(run: &RunOptions<'_>) -> Option<Arc<Self>> {
        let shared: Arc<dyn Any + Send + Sync> = run.shared?.clone();
        shared.downcast().ok()
    }

    pub(crate) fn processes(run: &RunOptions<'_>) -> Option<Arc<ProcessPool>> {
        Self::of(run)?.processes.clone()
    }

    pub(crate) fn nesting(run: &RunOptions<'_>) -> Arc<Nesting> {
        Self::of(run).map_or_else(Nesting::current, |context| Arc::clone(&context.nesting))
    }
}

/// Runs plans as one. Also returns the reports of its worker processes. `owners` own what the plans refer to.
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
    let looks = Arc::new(Looks {
        progress,
        nesting: nesting.inside_handler(),
        done: Progress::default(),
        leave_out: AtomicU32::new(0),
        wanted: OnceLock::new(),
        raised: Mutex::new(None),
    });
    let looking = looks.clone();
    let watch = Watch::new(move || looking.look());
    options.watch = Some(&watch);
    options.progress = Some(&looks.done);
    options.interrupt = Some(&stop);
    let control = asked.control.as_ref();
    options.control = control.map(|control| &*control.get().control);
    let processes =
        (options.workers > 1).then(|| process_pool(options.workers, nesting.of_processes()));
    let shared: Arc<dyn Any + Send + Sync> = Arc::new(RunContext {
        processes: processes.clone(),
        nesting,
    });
    options.shared = Some(&shared);
    let (ran, processes) = detach(py, || {
        let ran = run(plans, &options);
        let ended = processes.map(|processes| processes.close());
        // From here on it does not keep the interpreter from ending.
        drop(ends);
        (ran, ended.unwrap_or_default())
    });
    drop(objects);
    let raised = looks.raised.lock();
    match raised.unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error.into()),
        None => Ok((ran?, processes)),
    }
}

struct Looks {
    progress: Option<Py<PyAny>>,
    /// Runs that progress functions and signal handlers begin are inside of this one.
    nesting: Arc<Nesting>,
    done: Progress,
    leave_out: AtomicU32,
    /// Something has to be looked for.
    wanted: OnceLock<bool>,
    raised: Mutex<Option<PyErr>>,
}

impl Looks {
    fn look(&self) -> bool {
        let left = self.leave_out.load(Ordering::Relaxed);
        if left > 0 {
            self.leave_out.store(left - 1, Ordering::Relaxed);
            return true;
        }
        if self.wanted.get() == Some(&false) {
            return true;
        }
        let asked = Instant::now();
        let looked = attach(|py| -> PyResult<()> {
            if asked.elapsed() > BUSY {
                self.leave_out.store(LEAVE_OUT, Ordering::Relaxed);
            }
            if self.wanted.get().is_none() {
                // Signals are handled in the main thread only.
                let wanted = self.progress.is_some() || in_main_thread(py)?;
                let _ = self.wanted.set(wanted);
            }
            let _inside = self.nesting.enter();
            py.check_signals()?;
            match &self.progress {
                Some(progress) => {
                    let (done, total) = (self.done.done(), self.done.total().unwrap_or(0));
                    progress.call1(py, (done, total)).map(drop)
                }
                None => Ok(()),
            }
        });
        match looked {
            Ok(()) => true,
            Err(error) => {
                let raised = self.raised.lock();
                *raised.unwrap_or_else(PoisonError::into_inner) = Some(error);
                false
            }
        }
    }
}

fn in_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import("threading")?;
    let main = threading.call_method0("main_thread")?.getattr("ident")?;
    main.eq(threading.call_method0("get_ident")?)
}
