//! One worker process, and the memory that it shares with its parent.
//!
//! The memory is a file without a name. The parent owns it, writes a block there and reads what came of it by positioned
//! reads and writes, never by a mapping: whatever the process does to the file, the worst is a wrong result, and no
//! memory of the parent changes under its hands. So there is nothing to lock, and nothing unsafe.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_flow::ProcessReport;
use pyo3::prelude::*;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::travel::{Start, Travelling};
use super::wire::{self, Heard, LOOK, Raised, Say, Work};

/// Memory begins with so much, and grows in powers of two.
const LEAST: u64 = 1 << 20;
/// Where a result may begin.
const PAGE: u64 = 4096;
/// How long a process may take to end by itself once its socket is closed.
const GRACE: Duration = Duration::from_secs(5);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Lost {
    /// The process ended.
    Died,
    /// The run does not go on.
    Stopped,
    /// What a signal handler raised meanwhile.
    Signal(PyErr),
    /// Why the function cannot travel any more.
    Travels(String),
    /// There is no memory to share: so many bytes.
    Memory(u64, io::Error),
    Io(io::Error),
}

impl From<io::Error> for Lost {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Self::Died,
            _ => Self::Io(error),
        }
    }
}

/// What came of a call.
#[derive(Debug)]
pub(crate) enum Answer {
    Done,
    /// The result is of this type and shape.
    Shape(String, Vec<usize>),
    Raised(PyErr),
}

/// What looks around while a process works.
pub(super) type Look<'a> = &'a mut dyn FnMut() -> Result<(), Lost>;

pub(super) struct Process {
    child: Child,
    over: UnixStream,
    memory: Option<File>,
    pub(super) reserved: u64,
    /// It has said that it is there.
    pub(super) ready: bool,
    /// It was asked for what is wanted of it now: if it dies, that may be why.
    pub(super) asked: bool,
    /// By the functions' numbers: they, and what loading them raised.
    loaded: HashMap<u64, (Arc<Travelling>, Option<Raised>)>,
    /// It was waited for: its number may be another's.
    reaped: bool,
    pub(super) report: ProcessReport,
}

impl Process {
    pub(super) fn start(start: &Start, worker: Option<usize>) -> io::Result<Self> {
        let (over, theirs) = UnixStream::pair()?;
        over.set_read_timeout(Some(LOOK))?;
        let mut command = Command::new(&start.program);
        command.args(&start.arguments);
        command.envs(start.environment.iter().map(|(name, value)| (name, value)));
        // Ctrl-C is for the parent, which says what becomes of it. What it starts is in its group, and ends with it.
        command.process_group(0);
        let child = command.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)));
        let child = child.spawn()?;
        let report = ProcessReport::new(worker, child.id());
        Ok(Self {
            child,
            over,
            memory: None,
            reserved: 0,
            ready: false,
            asked: false,
            loaded: HashMap::new(),
            reaped: false,
            report,
        })
    }

    /// Has a function called over a block; what it returns, if that is as wanted, is in `out`.
    pub(super) fn call(
        &mut self,
        function: &Arc<Travelling>,
        work: &Work<'_>,
        out: &mut [u8],
        look: Look<'_>,
    ) -> Result<Answer, Lost> {
        self.load(function, look)?;
        if let Some(error) = self.refusal(function) {
            return Ok(Answer::Raised(error));
        }
        let begun = Instant::now();
        let place = (work.input.len() as u64).next_multiple_of(PAGE);
        let memory = self.reserve(place + out.len() as u64)?;
        memory.write_all_at(work.input, 0)?;
        let message = work.message(function.number, place, self.reserved);
        self.say(Say::Call, &[&message])?;
        self.asked = true;
        let answer = match self.hear(look)? {
            Heard::Shape(dtype, shape) => Answer::Shape(dtype, shape),
            Heard::Raised(raised) => {
                if raised.kept {
                    self.leave_memory();
                }
                Answer::Raised(self.rebuilt(&raised, false))
            }
            Heard::Done { kept } => {
                self.read(place, out)?;
                if kept {
                    self.leave_memory();
                }
                Answer::Done
            }
            Heard::Ready | Heard::Loaded | Heard::Brought { .. } => {
                return Err(Lost::Io(io::Error::other("an answer to another question")));
            }
        };
        self.report.blocks += 1;
        self.report.busy += begun.elapsed();
        Ok(answer)
    }

    /// Has a function loaded, if it was not tried before; what that raised is what calls give.
    pub(super) fn load(&mut self, function: &Arc<Travelling>, look: Look<'_>) -> Result<(), Lost> {
        self.asked = false;
        if !self.ready {
            self.hear(look)?;
            self.ready = true;
        }
        if !self.loaded.contains_key(&function.number) {
            self.forget()?;
            let payload = function.payload().map_err(Lost::Travels)?;
            let number = function.number.to_ne_bytes();
            let how = [u8::from(function.by_value)];
            self.say(Say::Function, &[&number, &how, &payload])?;
            self.asked = true;
            let raised = match self.hear(look)? {
                Heard::Raised(raised) => Some(raised),
                _ => None,
            };
            let loaded = (Arc::clone(function), raised);
            self.loaded.insert(function.number, loaded);
        }
        Ok(())
    }

    /// Has it forget the functions that nobody may call any more.
    fn forget(&mut self) -> Result<(), Lost> {
        let over = (self.loaded).extract_if(|_, (function, _)| function.is_over());
        let numbers: Vec<u8> = over.flat_map(|(number, _)| number.to_ne_bytes()).collect();
        if numbers.is_empty() {
            return Ok(());
        }
        self.say(Say::Forget, &[&numbers])
    }

    pub(super) fn say(&mut self, what: Say, parts: &[&[u8]]) -> Result<(), Lost> {
        Ok(wire::say(&mut self.over, what, parts)?)
    }

    pub(super) fn hear(&mut self, look: Look<'_>) -> Result<Heard, Lost> {
        let child = &self.child;
        // A process that it started may hold its socket open.
        let mut look = || {
            if has_ended(child) {
                Err(Lost::Died)
            } else {
                look()
            }
        };
        wire::hear(&mut self.over, &mut look)
    }

    /// What was raised there, by a call or when the function was loaded.
    pub(super) fn rebuilt(&self, raised: &Raised, loading: bool) -> PyErr {
        let Raised {
            text,
            name,
            said,
            pickled,
            ..
        } = raised;
        crate::interpreter::attach(|py| {
            let transport = py.import("isochrony.transport")?;
            let rebuilt = transport.getattr("rebuilt")?;
            let error =
                rebuilt.call1((self.report.pid, loading, text, name, said, &pickled[..]))?;
            Ok(PyErr::from_value(error))
        })
        .unwrap_or_else(|error| error)
    }

    /// What loading a function raised.
    pub(super) fn refusal(&self, function: &Travelling) -> Option<PyErr> {
        let (_, raised) = self.loaded.get(&function.number)?;
        let raised = raised.as_ref()?;
        Some(self.rebuilt(raised, true))
    }

    /// Leaves the memory to the process, whose function may look into it still; the next call gets another.
    pub(super) fn leave_memory(&mut self) {
        self.memory = None;
        self.reserved = 0;
    }

    /// Bytes of the memory.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match &self.memory {
            Some(memory) => memory.read_exact_at(into, at),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Memory of so many bytes at least, all of them there: writing there cannot fail later on.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<&File, Lost> {
        if self.memory.is_none() {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let memory = memfd_create("isochrony-worker", flags).map_err(io::Error::from)?;
            // Nobody can take away what the process looks into.
            fcntl_add_seals(&memory, SealFlags::SHRINK).map_err(io::Error::from)?;
            self.say(Say::Memory, &[])?;
            let sent = crate::interpreter::attach(|py| -> PyResult<()> {
                let send = py.import("isochrony.transport")?.getattr("send")?;
                send.call1((self.over.as_raw_fd(), memory.as_raw_fd()))?;
                Ok(())
            });
            if let Err(error) = sent {
                let io = crate::interpreter::attach(|py| error.value(py).extract_errno());
                return Err(io.map_or_else(|| Lost::Signal(error), Lost::from));
            }
            self.memory = Some(File::from(memory));
        }
        let Some(memory) = &self.memory else {
            return Err(Lost::Died);
        };
        if self.reserved < bytes {
            let size = bytes.max(LEAST).checked_next_power_of_two();
            let size = size.unwrap_or(bytes);
            fallocate(memory, FallocateFlags::empty(), 0, size)
                .map_err(|error| Lost::Memory(size, error.into()))?;
            self.reserved = size;
        }
        Ok(memory)
    }

    /// Closes the socket, at which the process ends by itself.
    pub(super) fn dismiss(&mut self) {
        let _ = self.over.shutdown(std::net::Shutdown::Both);
    }

    /// Waits for a process that was dismissed, for a while.
    pub(super) fn wait(&mut self) {
        let until = Instant::now() + GRACE;
        let mut pause = Duration::from_micros(200);
        while !has_ended(&self.child) && Instant::now() < until {
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(10));
        }
    }

    /// How it ended; it is killed if it has not.
    pub(super) fn bury(&mut self) -> String {
        // A moment, for a process whose socket closes before the system says how it ended.
        let until = Instant::now() + Duration::from_secs(1);
        while !has_ended(&self.child) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.end() {
            Ok(status) => how(status),
            Err(error) => format!("ended ({error})"),
        }
    }

    /// Kills it, if it has not ended, and what it started, and waits for it.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.reaped {
            // Its group has its number, which no other can have before it was waited for.
            if let Some(group) = number(&self.child) {
                let _ = kill_process_group(group, Signal::KILL);
            }
            let _ = self.child.kill();
            self.reaped = true;
        }
        self.child.wait()
    }
}

fn number(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().try_into().ok()?)
}

/// Whether a process has ended; it is left to be waited for.
fn has_ended(child: &Child) -> bool {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    number(child).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), look), Ok(None)))
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// How a process ended, in words.
fn how(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("ended with exit status {}", status.code().unwrap_or(-1));
    };
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        _ => return format!("was killed by signal {signal}"),
    };
    format!("was killed by {name}")
}

trait Errno {
    fn extract_errno(&self) -> Option<io::Error>;
}

impl Errno for Bound<'_, pyo3::exceptions::PyBaseException> {
    /// The system's error that an OSError stands for.
    fn extract_errno(&self) -> Option<io::Error> {
        let errno = self.getattr("errno").ok()?.extract().ok()?;
        Some(io::Error::from_raw_os_error(errno))
    }
}
