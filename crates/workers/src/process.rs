//! Life cycle of one worker process.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use isochrony_system::process::{has_ended, kill_group, signal_name};

use crate::connection::Connection;
use crate::error::{ProcessError, RemoteException};
use crate::function::PortableFunction;
use crate::report::ProcessReport;
use crate::wire::InterruptCheck;

const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// For the exit status of a process whose socket is closed.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// Command of a worker process. Its standard input is the socket.
#[derive(Debug, Clone)]
pub struct StartCommand {
    /// The program.
    pub program: String,
    /// Arguments.
    pub arguments: Vec<String>,
    /// Variables added to the environment.
    pub environment: Vec<(String, String)>,
}

pub(crate) struct WorkerProcess {
    child: Child,
    connection: Connection,
    /// Its id may then belong to another process.
    is_reaped: bool,
    /// Functions keep state there, so it stays with its worker.
    pub(crate) holds_state: bool,
    report: ProcessReport,
}

impl WorkerProcess {
    pub(crate) fn start(command: &StartCommand, worker: Option<usize>) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let environment = command.environment.iter();
        let child = Command::new(&command.program)
            .args(&command.arguments)
            .envs(environment.map(|(name, value)| (name, value)))
            // Ctrl-C reaches the parent only. Processes that functions start end with the group.
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .spawn()?;
        let pid = child.id();
        Ok(Self {
            child,
            connection: Connection::new(ours, pid)?,
            is_reaped: false,
            holds_state: false,
            report: ProcessReport::new(worker, pid),
        })
    }

    pub(crate) fn report(&self) -> &ProcessReport {
        &self.report
    }

    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(crate) fn load(
        &mut self,
        function: &Arc<PortableFunction>,
        check: InterruptCheck<'_>,
    ) -> Result<(), ProcessError> {
        let Self {
            child, connection, ..
        } = self;
        connection
            .load(function, &mut || check_child(child, check))
            .map(drop)
    }

    /// Loads a function if necessary, and calls it by `send`.
    pub(crate) fn call<T>(
        &mut self,
        function: &Arc<PortableFunction>,
        check: InterruptCheck<'_>,
        send: impl FnOnce(
            &mut Connection,
            InterruptCheck<'_>,
        ) -> Result<Result<T, RemoteException>, ProcessError>,
    ) -> Result<Result<T, RemoteException>, ProcessError> {
        let Self {
            child,
            connection,
            report,
            ..
        } = self;
        let check: InterruptCheck<'_> = &mut || check_child(child, check);
        if let Some(exception) = connection.load(function, check)? {
            return Ok(Err(exception));
        }
        let started = Instant::now();
        let answer = send(connection, check)?;
        report.blocks += 1;
        report.busy += started.elapsed();
        Ok(answer)
    }

    pub(crate) fn request_exit(&self) {
        self.connection.close();
    }

    pub(crate) fn wait(&self) {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        let mut pause = Duration::from_micros(200);
        while !has_ended(&self.child) && Instant::now() < deadline {
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(10));
        }
    }

    pub(crate) fn into_report(mut self) -> (ProcessReport, String) {
        let deadline = Instant::now() + STATUS_TIMEOUT;
        while !has_ended(&self.child) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        let end = match self.kill() {
            Ok(status) => describe(status),
            Err(error) => format!("ended ({error})"),
        };
        self.report.ended = Some(end.clone());
        (self.report.clone(), end)
    }

    fn kill(&mut self) -> io::Result<ExitStatus> {
        if !self.is_reaped {
            // No other process or group can have this id before it is reaped.
            kill_group(&self.child);
            let _ = self.child.kill();
            self.is_reaped = true;
        }
        self.child.wait()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn check_child(child: &Child, check: InterruptCheck<'_>) -> Result<(), ProcessError> {
    // Processes started by the child may hold its socket open.
    if has_ended(child) {
        return Err(ProcessError::Died);
    }
    check()
}

fn describe(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("ended with exit status {}", status.code().unwrap_or(-1));
    };
    match signal_name(signal) {
        Some(name) => format!("was killed by {name}"),
        None => format!("was killed by signal {signal}"),
    }
}
