//! Runs in the calling thread, which looks around meanwhile.
//!
//! A signal's Python handler runs only where the interpreter looks for it, in the main thread. So a run, which goes on
//! there detached from the interpreter, attaches itself now and then ([`Watch`]) to look for signals and to say
//! how far it is; what either raises ends the run. Short runs do nothing of the kind.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use isochrony_flow::{MEMORY, Plan, ProcessReport, Progress, RunError, RunOptions, Watch};
use pyo3::prelude::*;

use super::NativeControl;
use crate::errors::Result;
use crate::processes::Processes;

/// Waiting longer than this for the interpreter means that another thread runs Python code, which lets go of it only
/// every 5 ms.
const BUSY: Duration = Duration::from_millis(1);
/// Looks that are left out then, so that waiting is a twentieth of the run and looks are still less than 100 ms apart.
const LEAVE_OUT: u32 = 2;

/// How Python asked for a run.
pub(super) struct Asked<'a> {
    pub(super) memory: Option<u64>,
    pub(super) optimise: bool,
    /// Called with samples done and in all.
    pub(super) progress: Option<Py<PyAny>>,
    pub(super) control: Option<&'a NativeControl>,
    pub(super) workers: Workers,
}

/// How many threads, whether each stays on its core, and what tolerance is granted to what settles.
#[derive(Clone, Copy, FromPyObject)]
pub(super) struct Workers(usize, bool, f64);

impl Default for Workers {
    fn default() -> Self {
        Self(1, false, 0.0)
    }
}

/// Runs plans as one; also what its worker processes did, which end with it.
pub(super) fn execute<T: Send>(
    py: Python<'_>,
    plans: &[Plan],
    asked: Asked<'_>,
    run: impl FnOnce(&[Plan], &RunOptions<'_>) -> std::result::Result<T, RunError> + Send,
) -> Result<(T, Vec<ProcessReport>)> {
    let looks = Arc::new(Looks {
        progress: asked.progress,
        done: Progress::default(),
        leave_out: AtomicU32::new(0),
        wanted: OnceLock::new(),
        raised: Mutex::new(None),
    });
    let looking = looks.clone();
    let watch = Watch::new(move || looking.look());
    let mut options = RunOptions::default();
    options.memory = asked.memory.unwrap_or(MEMORY);
    options.optimise = asked.optimise;
    options.watch = Some(&watch);
    options.progress = Some(&looks.done);
    let Workers(workers, pin, tolerance) = asked.workers;
    (options.workers, options.pin, options.tolerance) = (workers, pin, tolerance);
    options.control = asked.control.map(|control| &*control.control);
    let processes = (options.workers > 1).then(|| Processes::new(options.workers));
    let shared: Option<Arc<dyn Any + Send + Sync>> = processes.clone().map(|one| one as _);
    options.shared = shared.as_ref();
    let (ran, processes) = py.detach(|| {
        let ran = run(plans, &options);
        let ended = processes.map(|processes| processes.close());
        (ran, ended.unwrap_or_default())
    });
    let raised = looks.raised.lock();
    match raised.unwrap_or_else(PoisonError::into_inner).take() {
        Some(error) => Err(error.into()),
        None => Ok((ran?, processes)),
    }
}

struct Looks {
    progress: Option<Py<PyAny>>,
    done: Progress,
    /// Looks to leave out.
    leave_out: AtomicU32,
    /// Whether there is anything to look for.
    wanted: OnceLock<bool>,
    raised: Mutex<Option<PyErr>>,
}

impl Looks {
    /// Whether the run goes on.
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
        let looked = Python::attach(|py| -> PyResult<()> {
            if asked.elapsed() > BUSY {
                self.leave_out.store(LEAVE_OUT, Ordering::Relaxed);
            }
            if self.wanted.get().is_none() {
                // Signals are handled in the main thread only.
                let wanted = self.progress.is_some() || in_main_thread(py)?;
                let _ = self.wanted.set(wanted);
            }
            py.check_signals()?;
            match &self.progress {
                Some(progress) => {
                    let (done, total) = (self.done.done(), self.done.total());
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
