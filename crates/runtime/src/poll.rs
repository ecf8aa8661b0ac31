//! Polling for interrupts and progress every [`POLL_INTERVAL`].

use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use crate::interval_clock::{ClockUser, POLL_INTERVAL, ticks};

/// Tells a thread when to poll, at the cost of one load.
#[derive(Debug)]
pub struct PollTimer {
    /// None if the system refused a thread for it: a poll is always due.
    clock: Option<ClockUser>,
    last: u64,
}

impl PollTimer {
    /// Due after at most [`POLL_INTERVAL`].
    #[must_use]
    pub fn start() -> Self {
        Self {
            clock: ClockUser::register(),
            last: ticks(),
        }
    }

    /// Whether to poll.
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.last != ticks() || self.clock.is_none()
    }

    /// Due again after at most [`POLL_INTERVAL`].
    pub fn restart(&mut self) {
        self.last = ticks();
    }
}

/// A callback that an execution runs every [`POLL_INTERVAL`] in its own thread, for example to check for signals.
#[derive(Clone)]
pub struct Watch {
    callback: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Watch {
    /// False from `callback` ends the execution early. The first call comes after at most [`POLL_INTERVAL`]; a short
    /// execution may end without one.
    #[must_use]
    pub fn new(callback: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self {
            callback: Arc::new(callback),
        }
    }

    /// Runs the callback; returns whether the execution continues.
    #[must_use]
    pub fn poll(&self) -> bool {
        (self.callback)()
    }

    /// Starts the timer.
    #[must_use]
    pub fn start(&self) -> ActiveWatch {
        ActiveWatch {
            watch: self.clone(),
            timer: PollTimer::start(),
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").finish_non_exhaustive()
    }
}

/// A [`Watch`] with an execution's timer.
#[derive(Debug)]
pub struct ActiveWatch {
    watch: Watch,
    timer: PollTimer,
}

impl ActiveWatch {
    /// Whether to [`poll`](Self::poll).
    #[inline]
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.timer.is_due()
    }

    /// As [`Watch::poll`].
    #[must_use]
    pub fn poll(&mut self) -> bool {
        self.timer.restart();
        self.watch.poll()
    }
}

/// Lets a thread poll while it waits for others, each of which holds a token.
///
/// ```
/// let group = isochrony_runtime::WaitGroup::new();
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         let token = group.token();
///         scope.spawn(move || {
///             let _token = token;
///             // Work.
///         });
///     }
///     group.wait(|| {
///         // Look for signals, report progress.
///     });
/// });
/// ```
#[derive(Debug)]
pub struct WaitGroup {
    token: WaitToken,
    all_dropped: Receiver<()>,
}

/// Held by an awaited thread until dropped, also in a panic.
#[derive(Debug, Clone)]
pub struct WaitToken {
    _sender: Sender<()>,
}

impl WaitGroup {
    /// A group without tokens.
    #[must_use]
    pub fn new() -> Self {
        let (sender, all_dropped) = channel();
        Self {
            token: WaitToken { _sender: sender },
            all_dropped,
        }
    }

    /// A token that [`wait`](Self::wait) waits for.
    #[must_use]
    pub fn token(&self) -> WaitToken {
        self.token.clone()
    }

    /// Blocks until all tokens are dropped. Calls `poll` every [`POLL_INTERVAL`].
    pub fn wait(self, mut poll: impl FnMut()) {
        drop(self.token);
        while self.all_dropped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            poll();
        }
    }
}

impl Default for WaitGroup {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::*;
    use crate::interval_clock::CLOCK_TESTS;

    fn wait_until_due(timer: &PollTimer) {
        let start = Instant::now();
        while !timer.is_due() {
            assert!(start.elapsed() < Duration::from_secs(20));
            thread::yield_now();
        }
    }

    #[test]
    fn a_timer_is_due_once_each_interval() {
        let _clock = CLOCK_TESTS.lock().unwrap_or_else(PoisonError::into_inner);
        let mut timer = PollTimer::start();
        wait_until_due(&timer);
        let start = Instant::now();
        timer.restart();
        wait_until_due(&timer);
        timer.restart();
        wait_until_due(&timer);
        assert!(start.elapsed() >= POLL_INTERVAL);
    }

    #[test]
    fn a_watch_says_whether_the_execution_goes_on() {
        let _clock = CLOCK_TESTS.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&calls);
        let watch = Watch::new(move || counted.fetch_add(1, Ordering::Relaxed) < 2);
        let mut active = watch.start();
        wait_until_due(&active.timer);
        assert!(active.is_due() && active.poll() && active.poll() && !active.poll());
        assert_eq!(calls.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_group_waits_for_all_its_threads_and_polls_meanwhile() {
        let group = WaitGroup::new();
        let finished = Mutex::new(Vec::new());
        let mut polls = 0;
        thread::scope(|scope| {
            for number in 0..3 {
                let (token, finished) = (group.token(), &finished);
                scope.spawn(move || {
                    let _token = token;
                    thread::sleep(4 * number * POLL_INTERVAL);
                    finished.lock().unwrap().push(number);
                });
            }
            group.wait(|| polls += 1);
            assert_eq!(*finished.lock().unwrap(), [0, 1, 2]);
        });
        assert!(polls >= 2, "{polls} polls");
    }

    #[test]
    fn a_group_without_tokens_does_not_wait() {
        WaitGroup::new().wait(|| panic!("it waited"));
    }

    #[test]
    fn a_panic_releases_the_token() {
        let group = WaitGroup::new();
        let token = group.token();
        let thread = thread::spawn(move || {
            let _token = token;
            panic!("as a test");
        });
        group.wait(|| ());
        assert!(thread.join().is_err());
    }
}
