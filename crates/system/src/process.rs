//! Processes, their groups, names of signals, and the limit on open files.

use std::process::Child;

use rustix::io::Errno;
use rustix::process::{
    Pid, Resource, Signal, WaitId, WaitIdOptions, getpgrp, getpid, getrlimit,
    kill_current_process_group, kill_process, kill_process_group, test_kill_process, waitid,
};

/// Whether a process has this number, which may differ in another container.
#[must_use]
pub fn is_running(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_none_or(|pid| test_kill_process(pid) != Err(Errno::SRCH))
}

/// Whether a child has ended, without taking its exit status.
#[must_use]
pub fn has_ended(child: &Child) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    pid(child).is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), options), Ok(None)))
}

/// Kills a child's process group, if possible. Not for a child whose exit status was taken: its number may be another
/// process's.
pub fn kill_group(child: &Child) {
    if let Some(group) = pid(child) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Kills this process, and its group if it leads one: another group may contain foreign processes.
pub fn kill_own_group() {
    if getpgrp() == getpid() {
        let _ = kill_current_process_group(Signal::KILL);
    }
    let _ = kill_process(getpid(), Signal::KILL);
}

fn pid(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id().try_into().ok()?)
}

/// Name of a signal that commonly ends a process, as `SIGKILL`.
#[must_use]
pub fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        libc::SIGHUP => "SIGHUP",
        libc::SIGINT => "SIGINT",
        libc::SIGILL => "SIGILL",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGTERM => "SIGTERM",
        libc::SIGXCPU => "SIGXCPU",
        _ => return None,
    })
}

/// Files that this process may have open at once. None without a limit.
#[must_use]
pub fn open_file_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Longer than any operation takes on any machine.
    const LONG: Duration = Duration::from_secs(60);

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < LONG, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn an_ended_child_keeps_its_number_and_status_until_it_is_waited_for() {
        let mut child = Command::new("sh").args(["-c", "exit 3"]).spawn().unwrap();
        wait_until("it ends", || has_ended(&child));
        assert!(is_running(child.id()));
        assert_eq!(child.wait().unwrap().code(), Some(3));
        assert!(is_running(std::process::id()));
    }

    #[test]
    fn a_group_ends_with_the_processes_that_its_leader_started() {
        let mut child = Command::new("sh")
            .args(["-c", "sleep 600 & echo $!; wait"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(!has_ended(&child));
        kill_group(&child);
        wait_until("the leader ends", || has_ended(&child));
        let status = child.wait().unwrap();
        assert_eq!(status.signal().and_then(signal_name), Some("SIGKILL"));
        line.clear();
        assert_eq!(output.read_line(&mut line).unwrap(), 0);
    }

    #[test]
    fn common_signals_have_names() {
        assert_eq!(signal_name(9), Some("SIGKILL"));
        assert_eq!(signal_name(15), Some("SIGTERM"));
        assert_eq!(signal_name(0), None);
    }

    #[test]
    fn some_files_may_be_open() {
        assert!(open_file_limit().is_none_or(|limit| limit > 3));
    }
}
