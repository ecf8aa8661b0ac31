//! Attaches to a Python interpreter that may be shutting down.
//!
//! Up to Python 3.13, CPython ends a thread that attaches during finalization by unwinding native frames, which aborts
//! the process. So this crate uses only [`attach`] and [`detach`]; after [`close`], called by `atexit`, they let a
//! thread sleep until the process ends.
//!
//! A thread is counted ([`InterpreterEntry`]) before it checks whether it may attach, and `close` waits for a count of
//! zero. Calls of Python code are counted too ([`ActiveCall`]), since native frames wait for them. An attached thread
//! detaches before it sleeps, else no other could attach.
#![allow(unsafe_code)] // CPython is asked whether a thread is attached.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use isochrony_runtime::Interrupt;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Longer Python functions get an exception.
const INTERRUPT_DELAY: Duration = Duration::from_millis(200);
const CLOSE_CHECK_INTERVAL: Duration = Duration::from_millis(1);

static IS_CLOSING: AtomicBool = AtomicBool::new(false);
/// The finalizing thread, which may still run Python code.
static CLOSING_THREAD: OnceLock<ThreadId> = OnceLock::new();
static ENTERING_THREADS: AtomicUsize = AtomicUsize::new(0);
/// Calls of Python code, without those of threads that sleep until the end.
static ACTIVE_CALLS: AtomicUsize = AtomicUsize::new(0);
static ACTIVE_RUNS: Mutex<Vec<Weak<ActiveRun>>> = Mutex::new(Vec::new());

thread_local! {
    /// Whether this thread is inside [`detach`] and no nested [`attach`].
    static IS_DETACHED: Cell<bool> = const { Cell::new(false) };
    static OWN_CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Sets [`IS_DETACHED`] until dropped.
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

fn is_attached() -> bool {
    // SAFETY: callable by any thread at any time; the pointer is only compared.
    let state = unsafe { pyo3::ffi::PyGILState_GetThisThreadState() };
    // A native thread has a state only while attached. A Python thread always has one, and runs this crate's code
    // detached only in `detach`.
    !state.is_null() && !IS_DETACHED.get()
}

struct InterpreterEntry;

impl InterpreterEntry {
    /// At finalization this thread sleeps for ever instead.
    fn begin() -> Self {
        // Sequentially consistent with `close`: either `close` sees the count, or this thread the flag.
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

fn is_closing_elsewhere() -> bool {
    IS_CLOSING.load(Ordering::SeqCst) && CLOSING_THREAD.get() != Some(&thread::current().id())
}

/// This thread's runs and calls never end, so they leave the counts.
fn sleep_for_good() -> ! {
    ActiveRun::abandon();
    ACTIVE_CALLS.fetch_sub(OWN_CALLS.take(), Ordering::SeqCst);
    loop {
        thread::park();
    }
}

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

/// Like [`Python::attach`]. Does not return at finalization.
#[allow(clippy::disallowed_methods)]
pub(crate) fn attach<T>(work: impl for<'py> FnOnce(Python<'py>) -> T) -> T {
    if is_attached() {
        return Python::attach(|py| {
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

/// Like [`Python::detach`]. Does not return at finalization.
#[allow(clippy::disallowed_methods)]
pub(crate) fn detach<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let (done, crossing) = py.detach(|| {
        let _detached = Detachment::set(true);
        (work(), InterpreterEntry::begin())
    });
    drop(crossing);
    done
}

pub(crate) struct ActiveRun {
    pub(crate) stop: Interrupt,
    thread: ThreadId,
    python_thread: u64,
    has_workers: bool,
    /// What [`end_this`](Self::end_this) was given.
    pub(crate) exception: Arc<Mutex<Option<PyErr>>>,
}

impl ActiveRun {
    /// Registers a run until dropped.
    pub(crate) fn begin(py: Python<'_>, has_workers: bool) -> PyResult<Arc<Self>> {
        let python_thread = py.import("_thread")?.call_method0("get_ident")?;
        let run = Arc::new(Self {
            stop: Interrupt::default(),
            thread: thread::current().id(),
            python_thread: python_thread.extract()?,
            has_workers,
            exception: Arc::default(),
        });
        let mut runs = ACTIVE_RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.retain(|run| run.strong_count() > 0);
        runs.push(Arc::downgrade(&run));
        Ok(run)
    }

    /// Unregisters this thread's runs. A worker does not know its run, so it unregisters all that have workers.
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

    /// Of a signal handler's exception inside user code: it ends the innermost run of this thread like one between
    /// calls, and does not first wait for what was read before.
    pub(crate) fn end_this(error: &PyErr) {
        let this = thread::current().id();
        let Some(run) = Self::all().into_iter().rfind(|run| run.thread == this) else {
            return;
        };
        attach(|py| {
            if !error.is_instance_of::<PyException>(py) {
                let exception = run.exception.lock();
                *exception.unwrap_or_else(PoisonError::into_inner) = Some(error.clone_ref(py));
                run.stop.request();
            }
        });
    }

    fn all() -> Vec<Arc<Self>> {
        let runs = ACTIVE_RUNS.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().filter_map(Weak::upgrade).collect()
    }
}

/// Finalization has begun: no other thread may start work.
pub(crate) fn is_closing() -> bool {
    IS_CLOSING.load(Ordering::Relaxed)
}

/// At exit: stops runs of other threads and prevents these from attaching.
#[pyfunction]
#[allow(clippy::disallowed_methods)]
pub(crate) fn close(py: Python<'_>) {
    let _ = CLOSING_THREAD.set(thread::current().id());
    IS_CLOSING.store(true, Ordering::SeqCst);
    for run in ActiveRun::all() {
        run.stop.request();
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
        // Not `detach`: this thread must return.
        py.detach(|| thread::sleep(CLOSE_CHECK_INTERVAL));
    }
}

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
    // Else the run lasts until its function returns.
    let _ = raise();
}

/// In a forked child only the forking thread exists.
#[pyfunction]
fn forget_threads() {
    ENTERING_THREADS.store(0, Ordering::SeqCst);
    ACTIVE_CALLS.store(OWN_CALLS.get(), Ordering::SeqCst);
    // Never contended: only attached threads take the lock, and the forking thread was attached.
    if let Ok(mut runs) = ACTIVE_RUNS.try_lock() {
        let this = thread::current().id();
        runs.retain(|run| run.upgrade().is_some_and(|run| run.thread == this));
    }
}

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
