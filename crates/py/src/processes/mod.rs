//! Worker processes: Python functions on many cores, each with an interpreter of its own.
//!
//! A run has a [`Processes`]. Each worker takes a process from it for a block and puts it back, so that each has one of its
//! own, started when it is first asked for, fresh and never forked; all end with the run. A block goes into memory that
//! both share, a message of some hundred bytes over a Unix socket ([`wire`]), and the worker waits for the answer without
//! the interpreter ([`process`]). Samples are never pickled.
//!
//! A process that dies is a socket that closes. A block that is made of itself alone is given to a fresh process, once; a
//! function that kills that one, too, ends the run, as does one that has lost what it remembered. So many deaths are
//! borne in a run, not more.
//!
//! Nothing outlives the run: processes are told to end and waited for, killed where they are at work or do not end; they
//! end by themselves when this process is gone ([`watch`]). Each is the first of a group, so that what functions start
//! (commands, pools) ends with it.

mod process;
mod remote_call;
mod travel;
pub(crate) mod watch;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use isochrony_flow::{Cause, OpError, OpErrorKind, ProcessReport, RunOptions};
use isochrony_runtime::Interrupt;
use pyo3::prelude::*;

pub(crate) use process::Answer;
use process::{Look, Lost, Process};
pub(crate) use remote_call::{InputSegment, RemoteCall, RemoteInput, RemoteOutput, RemoteResult};
pub(crate) use travel::Travelling;
use travel::{SMALL, Start};
pub(crate) use wire::Work;

use crate::plan::RunContext;

/// Processes that may die in a run before it ends: more are no accidents.
const MOST_DEATHS: usize = 8;

/// The processes of a run.
pub(crate) struct Processes {
    workers: usize,
    /// Added to their environment.
    added: (String, String),
    start: OnceLock<Result<Start, String>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Those that have nothing to do.
    idle: Vec<Process>,
    deaths: usize,
    /// Those that have ended.
    ended: Vec<ProcessReport>,
    /// By the functions' addresses: how they travel, or why not. The functions are kept, so that no other has the address.
    functions: HashMap<usize, (Arc<Py<PyAny>>, Travels)>,
}

/// How a function travels, or why not.
pub(crate) type Travels = Result<Arc<Travelling>, String>;

impl Processes {
    /// Those of so many workers; what is added to their environment, name and value.
    pub(crate) fn new(workers: usize, added: (String, String)) -> Arc<Self> {
        Arc::new(Self {
            workers,
            added,
            start: OnceLock::new(),
            state: Mutex::default(),
        })
    }

    /// Those of a run, if it has any.
    pub(crate) fn of(run: &RunOptions<'_>) -> Option<Arc<Self>> {
        RunContext::processes(run)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How a function travels in this run, as it is when it is first asked for; or why not.
    pub(crate) fn travels(&self, function: &Arc<Py<PyAny>>) -> Travels {
        self.travels_within(function, None)
    }

    /// How that of a tasklet travels, which leaves it ([`Travelling::leave`]) when it ends. Each may have a function of its
    /// own, so that none is kept from the beginning but small ones.
    pub(crate) fn travels_with_tasklet(&self, function: &Arc<Py<PyAny>>) -> Travels {
        self.travels_within(function, Some(SMALL))
    }

    fn travels_within(&self, function: &Arc<Py<PyAny>>, most: Option<usize>) -> Travels {
        let shared = |travels: &Travels| travels.clone().inspect(|function| function.share());
        let start = self
            .start
            .get_or_init(|| Start::of(self.workers, &self.added));
        if let Err(why) = start {
            return Err(format!("cannot travel to a worker process ({why})"));
        }
        let address = function.as_ptr().addr();
        if let Some((_, travels)) = self.lock().functions.get(&address) {
            return shared(travels);
        }
        // The interpreter may be waited for: not while the lock is held.
        let travels = Travelling::of(function, most).map(Arc::new);
        let mut state = self.lock();
        let (_, travels) = (state.functions.entry(address)).or_insert((function.clone(), travels));
        shared(travels)
    }

    fn take(&self, worker: Option<usize>) -> Result<Process, Unanswered> {
        let mut state = self.lock();
        let own = (state.idle.iter()).position(|one| one.report.worker == worker);
        if let Some(at) = own {
            return Ok(state.idle.swap_remove(at));
        }
        drop(state);
        let start = self
            .start
            .get_or_init(|| Start::of(self.workers, &self.added));
        let start = start.as_ref().map_err(|why| failed(why.clone()))?;
        Process::start(start, worker).map_err(|error| {
            failed(format!(
                "no worker process can be started ({}: {error}); give on_workers=\"inline\", or run with workers=1",
                start.program
            ))
        })
    }

    /// Says how a process ended before its time, and whether another may take its place.
    fn died(&self, mut process: Process) -> (String, bool) {
        let how = process.bury();
        let mut state = self.lock();
        let mut report = process.report.clone();
        report.ended = Some(how.clone());
        state.ended.push(report);
        state.deaths += 1;
        (how, state.deaths <= MOST_DEATHS)
    }

    /// Ends all that have nothing to do; a report of each that there was.
    pub(crate) fn close(&self) -> Vec<ProcessReport> {
        let mut idle = std::mem::take(&mut self.lock().idle);
        idle.iter_mut().for_each(Process::dismiss);
        idle.iter_mut().for_each(Process::wait);
        let mut state = self.lock();
        let mut all = std::mem::take(&mut state.ended);
        all.extend(idle.iter().map(|process| process.report.clone()));
        all.sort_by_key(|report| report.worker);
        all
    }
}

/// Why nothing came of a call, for good.
pub(crate) enum Unanswered {
    /// The run does not go on.
    Stopped,
    /// What a signal handler raised meanwhile.
    Signal(PyErr),
    Failed(String),
}

impl From<Unanswered> for OpError {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Stopped => OpErrorKind::Interrupted,
            Unanswered::Signal(error) => OpErrorKind::Failed(Box::new(error)),
            Unanswered::Failed(message) => OpErrorKind::Failed(Cause::from(message)),
        }
        .into()
    }
}

impl From<Unanswered> for Cause {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Stopped => Self::from("it was stopped with the run"),
            Unanswered::Signal(error) => Box::new(error),
            Unanswered::Failed(message) => Self::from(message),
        }
    }
}

/// A function in worker processes, as an operator or a tasklet calls it.
pub(crate) struct Remote {
    processes: Arc<Processes>,
    function: Arc<Travelling>,
    /// As printed.
    shown: String,
    worker: Option<usize>,
    stop: Option<Interrupt>,
    /// Whether a block may be tried again: it does not remember.
    again: bool,
    /// What it is given, in messages.
    portion: &'static str,
}

impl Remote {
    /// That of a tasklet, whose outputs are its own, so that it can be done again. Without a `worker` signals are looked for
    /// meanwhile: it is the caller's thread.
    pub(crate) fn of_tasklet(
        processes: &Arc<Processes>,
        function: &Arc<Travelling>,
        shown: &str,
        worker: Option<usize>,
        stop: &Interrupt,
    ) -> Self {
        let remote = Self {
            processes: Arc::clone(processes),
            function: Arc::clone(function),
            shown: shown.to_owned(),
            worker,
            stop: Some(stop.clone()),
            again: true,
            portion: "tasklet",
        };
        remote.warm_up();
        remote
    }

    pub(crate) fn new(
        processes: Arc<Processes>,
        function: Arc<Travelling>,
        shown: &str,
        run: &RunOptions<'_>,
        again: bool,
    ) -> Self {
        let remote = Self {
            processes,
            function,
            shown: shown.to_owned(),
            worker: run.worker,
            stop: run.interrupt.cloned(),
            again,
            portion: "block",
        };
        remote.warm_up();
        remote
    }

    /// Has a process started and the function loaded: what takes tenths of a second is not counted to the first block.
    /// What fails is told there: what loading raised is kept, a process that died is counted and another started. In the
    /// caller's thread the first block has to wait, since there a signal ends the run.
    fn warm_up(&self) {
        if self.worker.is_some()
            && let Ok(mut process) = self.processes.take(self.worker)
        {
            match process.load(&self.function, &mut || self.look()) {
                Ok(()) => self.processes.lock().idle.push(process),
                Err(Lost::Died) => drop(self.processes.died(process)),
                // It will be met again, or the run is over.
                Err(_) => {}
            }
        }
    }

    /// What is looked for while a process works.
    fn look(&self) -> Result<(), Lost> {
        if (self.stop.as_ref()).is_some_and(Interrupt::is_requested) {
            return Err(Lost::Stopped);
        }
        match self.worker {
            Some(_) => Ok(()),
            // Signals are looked for in the caller's thread only.
            None => crate::interpreter::attach(|py| py.check_signals()).map_err(Lost::Signal),
        }
    }

    /// Has the function called over a block, and what it returns, if that is as wanted, written to `out`.
    pub(crate) fn call(&self, work: &Work<'_>, out: &mut [u8]) -> Result<Answer, OpError> {
        Ok(self.ask(|process, function, look| process.call(function, work, out, look))?)
    }

    /// Has the function called over a tasklet's inputs.
    pub(crate) fn run(&self, call: &RemoteCall<'_>) -> Result<RemoteResult, Unanswered> {
        self.ask(|process, function, look| process.run(function, call, look))
    }

    fn ask<T>(
        &self,
        mut ask: impl FnMut(&mut Process, &Arc<Travelling>, Look<'_>) -> Result<T, Lost>,
    ) -> Result<T, Unanswered> {
        let mut look = || self.look();
        let mut first = true;
        loop {
            let mut process = self.processes.take(self.worker)?;
            let lost = match ask(&mut process, &self.function, &mut look) {
                Ok(answer) => {
                    self.processes.lock().idle.push(process);
                    return Ok(answer);
                }
                Err(lost) => lost,
            };
            return Err(match lost {
                Lost::Died if !process.ready => {
                    let (how, _) = self.processes.died(process);
                    failed(format!(
                        "a worker process {how} before it was ready; what it printed says why; give on_workers=\"inline\" to \
                         call {} in this process",
                        self.shown
                    ))
                }
                Lost::Died => {
                    // One that had nothing to do died of something else than this block.
                    let asked = process.asked;
                    match self.processes.died(process) {
                        (_, true) if self.again && (first || !asked) => {
                            first &= !asked;
                            continue;
                        }
                        (how, bearable) => self.gone(&how, bearable),
                    }
                }
                Lost::Stopped => Unanswered::Stopped,
                Lost::Travels(why) => failed(format!(
                    "{} {why}, though it could when the run began; leave what it encloses as it is meanwhile, or give \
                     on_workers=\"inline\"",
                    self.shown
                )),
                Lost::Signal(error) => Unanswered::Signal(error),
                Lost::Memory(bytes, error) => failed(format!(
                    "{bytes} bytes of shared memory for a worker process of {} cannot be had ({error}); run with fewer \
                     workers, or cut smaller {}",
                    self.shown,
                    if self.portion == "block" {
                        "windows"
                    } else {
                        "tasklets"
                    }
                )),
                Lost::Io(error) => failed(format!(
                    "the worker process of {} cannot be reached ({error}); give on_workers=\"inline\" to call it in \
                     this process",
                    self.shown
                )),
            });
        }
    }

    /// What is said of a process that ended in the midst of its work, for good.
    fn gone(&self, how: &str, bearable: bool) -> Unanswered {
        let (shown, portion) = (&self.shown, self.portion);
        let hint = if how.ends_with("SIGKILL") {
            "; the system kills what takes too much memory: see its log, or run with fewer workers"
        } else {
            ""
        };
        failed(if !self.again {
            format!(
                "the worker process of {shown} {how}, and what {shown} remembered is lost{hint}; run the plan again, or \
                 give on_workers=\"inline\" to call it in this process"
            )
        } else if bearable {
            format!(
                "the worker process of {shown} {how}, and so did another that was given the same {portion}{hint}; mend \
                 {shown}, or give on_workers=\"inline\" to call it in this process"
            )
        } else {
            format!(
                "more than {MOST_DEATHS} worker processes died in this run, the last of {shown}, which {how}{hint}; mend \
                 {shown}, or give on_workers=\"inline\" to call it in this process"
            )
        })
    }
}

fn failed(message: String) -> Unanswered {
    Unanswered::Failed(message)
}
