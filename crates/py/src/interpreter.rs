//! Attaching to the Python interpreter, also while the process exits.
//!
//! Daemon threads may be at work in this library when the main thread ends the interpreter. Up to Python 3.13 a thread that
//! asks for the interpreter from then on is ended by CPython, which unwinds its stack through native frames and aborts the
//! process. So this crate attaches and detaches by [`attach`] and [`detach`] only. When the interpreter is about to end
//! ([`close`], called by `atexit`), runs are asked to stop, and a thread that would go on in Python sleeps instead, for as
//! long as the process lasts.
//!
//! Whoever waits for the interpreter is counted ([`InterpreterEntry`]) before it is looked whether it may, and `close` waits until
//! nobody is counted any more: none can be between the look and the interpreter when that ends. So are calls of Python
//! code ([`Call`]), which native frames wait for: such a thread must not be ended either. A thread that holds the
//! interpreter already and has to sleep gives it up first, or nobody could have it any more.
#![allow(unsafe_code)] // Whether a thread is attached is asked of CPython.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use isochrony_runtime::Interrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Longest that the end of the interpreter waits for runs of daemon threads.
const PATIENCE: Duration = Duration::from_secs(1);
/// After which Python functions that are still running are interrupted by an exception.
const POLITE: Duration = Duration::from_millis(200);
/// Between two looks at whether they have ended.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Set when the interpreter is about to end.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// The thread that ends it, which may still run Python code.
static CLOSER: OnceLock<ThreadId> = OnceLock::new();
/// Threads that wait for the interpreter.
static CROSSING: AtomicUsize = AtomicUsize::new(0);
/// Calls of Python code by this crate, of threads that do not sleep for good.
static CALLS: AtomicUsize = AtomicUsize::new(0);
/// Runs that have not ended.
static RUNS: Mutex<Vec<Weak<Run>>> = Mutex::new(Vec::new());

thread_local! {
    /// This thread is inside of [`detach`], and of no [`attach`] within.
    static DETACHED: Cell<bool> = const { Cell::new(false) };
    /// Of [`CALLS`], those of this thread.
    static OWN_CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Sets [`DETACHED`] until it is dropped.
struct Detachment {
    before: bool,
}

impl Detachment {
    fn set(detached: bool) -> Self {
        let before = DETACHED.replace(detached);
        Self { before }
    }
}

impl Drop for Detachment {
    fn drop(&mut self) {
        DETACHED.set(self.before);
    }
}

/// Whether this thread holds the interpreter.
fn is_attached() -> bool {
    // SAFETY: it may be called by any thread at any time; the pointer is only compared.
    let state = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() };
    // A thread of ours has a state only while it is attached; one of Python's always has one, and leaves the interpreter
    // for this crate's code by `detach` only.
    !state.is_null() && !DETACHED.get()
}

/// A thread on its way into the interpreter.
struct InterpreterEntry;

impl InterpreterEntry {
    /// Counts this thread; if the interpreter is about to end, the thread sleeps for good.
    fn begin() -> Self {
        // In one order with what `close` does: either it sees the count, or this sees that it is closed.
        CROSSING.fetch_add(1, Ordering::SeqCst);
        let crossing = Self;
        if is_closed_here() {
            drop(crossing);
            sleep_for_good();
        }
        crossing
    }
}

impl Drop for InterpreterEntry {
    fn drop(&mut self) {
        CROSSING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether the interpreter is about to end, and not by this thread.
fn is_closed_here() -> bool {
    CLOSED.load(Ordering::SeqCst) && CLOSER.get() != Some(&thread::current().id())
}

/// Neither the runs nor the calls of this thread will ever end: nobody is to wait for them.
fn sleep_for_good() -> ! {
    Run::abandon();
    CALLS.fetch_sub(OWN_CALLS.take(), Ordering::SeqCst);
    loop {
        thread::park();
    }
}

/// A call of Python code by native code.
struct Call;

impl Call {
    fn begin() -> Self {
        OWN_CALLS.set(OWN_CALLS.get() + 1);
        CALLS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        OWN_CALLS.set(OWN_CALLS.get() - 1);
        CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// As [`Python::attach`]; a thread that comes when the interpreter is about to end does not return.
#[allow(clippy::disallowed_methods)]
pub(crate) fn attach<T>(work: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    if is_attached() {
        return Python::attach(|py| {
            // In one order with what `close` does, as in `InterpreterEntry::begin`.
            let _call = Call::begin();
            if is_closed_here() {
                py.detach(|| sleep_for_good());
            }
            work(py)
        });
    }
    let crossing = InterpreterEntry::begin();
    Python::attach(|py| {
        let _attached = Detachment::set(false);
        let _call = Call::begin();
        drop(crossing);
        work(py)
    })
}

/// As [`Python::detach`]; a thread that has done its work when the interpreter is about to end does not return.
#[allow(clippy::disallowed_methods)]
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (done, crossing) = py.detach(|| {
        let _detached = Detachment::set(true);
        (work(), InterpreterEntry::begin())
    });
    drop(crossing);
    done
}

/// A run that the end of the interpreter stops.
pub(crate) struct Run {
    pub(crate) stop: Interrupt,
    /// The thread that waits for it, and Python's number of that.
    thread: ThreadId,
    python_thread: u64,
    /// Worker threads take part in it.
    has_workers: bool,
}

impl Run {
    /// Begins one; it has ended when it is dropped.
    pub(crate) fn begin(py: Python<'_>, has_workers: bool) -> PyResult<Arc<Self>> {
        let python_thread = py.import("_thread")?.call_method0("get_ident")?;
        let run = Arc::new(Self {
            stop: Interrupt::default(),
            thread: thread::current().id(),
            python_thread: python_thread.extract()?,
            has_workers,
        });
        let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|run| run.strong_count() > 0);
        runs.push(Arc::downgrade(&run));
        Ok(run)
    }

    /// Runs that this thread takes part in will never end, since it sleeps from now on: nobody waits for them any more.
    /// Of a worker thread it is not known which run it works for, so those are all that have workers.
    fn abandon() {
        let this = thread::current().id();
        let runs = Self::all();
        let is_worker = !runs.iter().any(|run| run.thread == this);
        let stays = |run: &Self| match is_worker {
            true => !run.has_workers,
            false => run.thread != this,
        };
        let mut all = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|run| run.upgrade().is_some_and(|run| stays(&run)));
    }

    /// Those that have not ended.
    fn all() -> Vec<Arc<Self>> {
        let runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Whether the interpreter is about to end: nothing new should begin in other threads.
pub(crate) fn is_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// The interpreter is about to end: stops runs of other threads, and keeps them out of it.
#[pyfunction]
#[allow(clippy::disallowed_methods)]
pub(crate) fn close(py: Python<'_>) {
    let _ = CLOSER.set(thread::current().id());
    CLOSED.store(true, Ordering::SeqCst);
    for run in Run::all() {
        run.stop.request();
    }
    let begun = Instant::now();
    let mut interrupted = false;
    let own = OWN_CALLS.get();
    while CROSSING.load(Ordering::SeqCst) > 0
        || CALLS.load(Ordering::SeqCst) > own
        || !Run::all().is_empty()
    {
        if begun.elapsed() > PATIENCE {
            break;
        }
        if begun.elapsed() > POLITE && !std::mem::replace(&mut interrupted, true) {
            Run::all()
                .iter()
                .for_each(|run| interrupt(py, run.python_thread));
        }
        // Not by `detach`: this thread comes back.
        py.detach(|| thread::sleep(LOOK_EVERY));
    }
}

/// Has a thread that runs Python code raise SystemExit.
fn interrupt(py: Python<'_>, thread: u64) {
    let raise = || -> PyResult<()> {
        let api = py.import("ctypes")?.getattr("pythonapi")?;
        let set = api.getattr("PyThreadState_SetAsyncExc")?;
        let ctypes = py.import("ctypes")?;
        let thread = ctypes.getattr("c_ulong")?.call1((thread,))?;
        let exit = py.get_type::<pyo3::exceptions::PySystemExit>();
        let exit = ctypes.getattr("py_object")?.call1((exit,))?;
        set.call1((thread, exit)).map(drop)
    };
    // Without it the run goes on until its function returns.
    let _ = raise();
}

/// In a forked child: no thread of the parent but the one that forked goes on here.
#[pyfunction]
fn forget_threads() {
    CROSSING.store(0, Ordering::SeqCst);
    CALLS.store(OWN_CALLS.get(), Ordering::SeqCst);
    // Only threads that held the interpreter took the lock, as the one that forked did: it is free.
    if let Ok(mut runs) = RUNS.try_lock() {
        let this = thread::current().id();
        runs.retain(|run| run.upgrade().is_some_and(|run| run.thread == this));
    }
}

/// Has Python call [`close`] when it exits.
pub(crate) fn close_at_exit(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let close = pyo3::wrap_pyfunction!(close, module)?;
    let register = py.import("atexit")?.getattr("register")?;
    register.call1((close,))?;
    let forget = pyo3::wrap_pyfunction!(forget_threads, module)?;
    let in_child = PyDict::new(py);
    in_child.set_item("after_in_child", forget)?;
    let at_fork = py.import("os")?.getattr("register_at_fork")?;
    at_fork.call((), Some(&in_child)).map(drop)
}
