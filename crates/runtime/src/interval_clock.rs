//! A counter advanced by one thread of the process every [`POLL_INTERVAL`] while needed.
//!
//! Executions check between short steps whether a poll is due. Reading the system clock is too slow, and starting a
//! timer thread takes longer than a short execution, so all share one thread. It ends after [`IDLE_TICKS`] without
//! users; nobody joins it.
//!
//! A forked child has no such thread, so the owner is recorded by process id.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::cpu::unpinned;

/// An interrupt is noticed well within a tenth of a second.
pub const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// One second.
const IDLE_TICKS: u32 = 40;

static TICKS: AtomicU64 = AtomicU64::new(0);
static USERS: AtomicUsize = AtomicUsize::new(0);
/// Process of the counting thread; 0: none.
static CLOCK_PROCESS: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
pub(crate) struct ClockUser(());

impl ClockUser {
    /// None if the system refuses a thread.
    pub(crate) fn register() -> Option<Self> {
        USERS.fetch_add(1, Ordering::SeqCst);
        let user = Self(());
        let process = std::process::id();
        if CLOCK_PROCESS.swap(process, Ordering::SeqCst) != process {
            let clock = thread::Builder::new().name("isochrony-clock".into());
            // It outlives the execution that starts it.
            let main = unpinned(move || count(process));
            if clock.spawn(main).is_err() {
                CLOCK_PROCESS.store(0, Ordering::SeqCst);
                return None;
            }
        }
        Some(user)
    }
}

impl Drop for ClockUser {
    fn drop(&mut self) {
        USERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Constant without users.
#[inline]
pub(crate) fn ticks() -> u64 {
    TICKS.load(Ordering::Relaxed)
}

fn count(process: u32) {
    let mut idle = 0;
    loop {
        thread::sleep(POLL_INTERVAL);
        TICKS.fetch_add(1, Ordering::Relaxed);
        idle = match USERS.load(Ordering::SeqCst) {
            0 => idle + 1,
            _ => 0,
        };
        if idle < IDLE_TICKS {
            continue;
        }
        CLOCK_PROCESS.store(0, Ordering::SeqCst);
        // A user that registered before the store relies on this thread: the swap finds 0, and it continues. A later
        // one has started another: the swap finds `process`, and this thread ends.
        if USERS.load(Ordering::SeqCst) == 0
            || CLOCK_PROCESS.swap(process, Ordering::SeqCst) == process
        {
            return;
        }
        idle = 0;
    }
}

/// The test that waits until the clock stops must run alone.
#[cfg(test)]
pub(crate) static CLOCK_TESTS: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use std::sync::PoisonError;
    use std::time::{Duration, Instant};

    use super::*;

    fn advances_within(limit: Duration) -> bool {
        let (before, start) = (ticks(), Instant::now());
        while start.elapsed() < limit {
            if ticks() != before {
                return true;
            }
            thread::sleep(POLL_INTERVAL);
        }
        false
    }

    #[test]
    fn runs_while_it_has_users_and_again_after_it_has_stopped() {
        let _alone = CLOCK_TESTS.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..2 {
            let first = ClockUser::register().unwrap();
            let second = ClockUser::register().unwrap();
            assert!(advances_within(Duration::from_secs(20)));
            drop(first);
            assert!(advances_within(Duration::from_secs(20)));
            drop(second);
            let start = Instant::now();
            while CLOCK_PROCESS.load(Ordering::SeqCst) != 0 {
                assert!(start.elapsed() < Duration::from_secs(60));
                thread::sleep(POLL_INTERVAL);
            }
            thread::sleep(2 * POLL_INTERVAL);
            assert!(!advances_within(4 * POLL_INTERVAL));
        }
    }
}
