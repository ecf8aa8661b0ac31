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
//! code ([`ActiveCall`]), which native frames wait for: such a thread must not be ended either. A thread that holds the
//! interpreter already and has to sleep gives it up first, or nobody could have it any more.
#![allow(unsafe_code)] // Whether a thread is attached is asked of CPython.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Longest that the end of the interpreter waits for runs of daemon threads.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// After which Python functions that are still running are interrupted by an exception.
const INTERRUPT_DELAY: Duration = Duration::from_millis(200);
/// Between two looks at whether they have ended.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Set when the interpreter is about to end.
static IS_CLOSING: AtomicBool = AtomicBool::new(false);
/// The thread that ends it, which may still run Python code.
static CLOSING_THREAD: OnceLock<ThreadId> = OnceLock::new();
/// Threads that wait for the interpreter.
static ENTERING_THREADS: AtomicUsize = AtomicUsize::new(0);
/// Calls of Python code by this crate, of threads that do not sleep for good.
static ACTIVE_CALLS: AtomicUsize = AtomicUsize::new(0);
/// Runs that have not ended.
static ACTIVE_RUNS: Mutex<Vec<Weak<ActiveRun>>> = Mutex::new(Vec::new());

thread_local! {
    /// This thread is inside of [`detach`], and of no [`attach`] within.
    static IS_DETACHED: Cell<bool> = const { Cell::new(false) };
    /// Of [`ACTIVE_CALLS`], those of this thread.
    static OWN_CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Sets [`IS_DETACHED`] until it is dropped.
struct Detachment {
    before: bool,
}

impl Detachment {
    fn set(detached: bool) -> Self {
        let before = IS_DETACHED.replace(detached);
        Self { before }
    }
}

impl Drop for Detachment {
    fn drop(&mut self) {
        IS_DETACHED.set(self.before);
    }
}

/// Whether this thread holds the interpreter.
fn is_attached() -> bool {
    // SAFETY: it may be called by any thread at any time; the pointer is only compared.
    let state = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() };
    // A thread of ours has a state only while it is attached; one of Python's always has one, and leaves the interpreter
    // for this crate's code by `detach` only.
    !state.is_null() && !IS_DETACHED.get()
}

/// A thread on its way into the interpreter.
struct InterpreterEntry;

impl InterpreterEntry {
    /// Counts this thread; if the interpreter is about to end, the thread sleeps for good.
    fn begin() -> Self {
        // In one order with what `close` does: either it sees the count, or this sees that it is closed.
        ENTERING_THREADS.fetch_add(1, Ordering::SeqCst);
        let crossing = Self;
        if is_closing_elsewhere() {
            drop(crossing);
            sleep_for_good();
        }
        crossing
    }
}

impl Drop for InterpreterEntry {
    fn drop(&mut self) {
        ENTERING_THREADS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether the interpreter is about to end, and not by this thread.
fn is_closing_elsewhere() -> bool {
    IS_CLOSING.load(Ordering::SeqCst) && CLOSING_THREAD.get() != Some(&thread::current().id())
}

/// Neither the runs nor the calls of this thread will ever end: nobody is to wait for them.
fn sleep_for_good() -> ! {
    ActiveRun::abandon();
    ACTIVE_CALLS.fetch_sub(OWN_CALLS.take(), Ordering::SeqCst);
    loop {
        thread::park();
    }
}

/// A call of Python code by native code.
struct ActiveCall;

impl ActiveCall {
    fn begin() -> Self {
        OWN_CALLS.set(OWN_CALLS.get() + 1);
        ACTIVE_CALLS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        OWN_CALLS.set(OWN_CALLS.get() - 1);
        ACTIVE_CALLS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// As [`Python::attach`]; a thread that comes when the interpreter is about to end does not return.
#[allow(clippy::disallowed_methods)]
pub(crate) fn attach<T>(work: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    if is_attached() {
        return Python::attach(|py| {
            // In one order with what `close` does, as in `InterpreterEntry::begin`.
            let _call = ActiveCall::begin();
            if is_closing_elsewhere() {
                py.detach(|| sleep_for_good());
            }
            work(py)
        });
    }
    let crossing = InterpreterEntry::begin();
    Python::attach(|py| {
        let _attached = Detachment::set(false);
        let _call = ActiveCall::begin();
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
pub(crate) struct ActiveRun {
    pub(crate) stop: Arc<AtomicBool>,
    /// The thread that waits for it, and Python's number of that.
    thread: ThreadId,
    python_thread: u64,
    /// Worker threads take part in it.
    has_workers: bool,
}

impl ActiveRun {
    /// Begins one; it has ended when it is dropped.
    pub(crate) fn begin(py: Python<'_>, has_workers: bool) -> PyResult<Arc<Self>> {
        let python_thread = py.import("_thread")?.call_method0("get_ident")?;
        let run = Arc::new(Self {
            stop: Arc::default(),
            thread: thread::current().id(),
            python_thread: python_thread.extract()?,
            has_workers,
        });
        let mut runs = ACTIVE_RUNS.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut all = ACTIVE_RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|run| run.upgrade().is_some_and(|run| stays(&run)));
    }

    /// Those that have not ended.
    fn all() -> Vec<Arc<Self>> {
        let runs = ACTIVE_RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Whether the interpreter is about to end: nothing new should begin in other threads.
pub(crate) fn is_closing() -> bool {
    IS_CLOSING.load(Ordering::Relaxed)
}

/// The interpreter is about to end: stops runs of other threads, and keeps them out of it.
#[pyfunction]
#[allow(clippy::disallowed_methods)]
pub(crate) fn close(py: Python<'_>) {
    let _ = CLOSING_THREAD.set(thread::current().id());
    IS_CLOSING.store(true, Ordering::SeqCst);
    for run in ActiveRun::all() {
        run.stop.store(true, Ordering::Relaxed);
    }
    let begun = Instant::now();
    let mut interrupted = false;
    let own = OWN_CALLS.get();
    while ENTERING_THREADS.load(Ordering::SeqCst) > 0
        || ACTIVE_CALLS.load(Ordering::SeqCst) > own
        || !ActiveRun::all().is_empty()
    {
        if begun.elapsed() > CLOSE_TIMEOUT {
            break;
        }
        if begun.elapsed() > INTERRUPT_DELAY && !std::mem::replace(&mut interrupted, true) {
            ActiveRun::all()
                .iter()
                .for_each(|run| interrupt(py, run.python_thread));
        }
        // Not by `detach`: this thread comes back.
        py.detach(|| thread::sleep(POLL_INTERVAL));
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
    ENTERING_THREADS.store(0, Ordering::SeqCst);
    ACTIVE_CALLS.store(OWN_CALLS.get(), Ordering::SeqCst);
    // Only threads that held the interpreter took the lock, as the one that forked did: it is free.
    if let Ok(mut runs) = ACTIVE_RUNS.try_lock() {
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
