//! A number that grows forty times a second while somebody wants to look around.
//!
//! A run that does so now and then in its own thread ([`Watch`](crate::Watch)) has to know when. A clock would be seen in the engine, and a
//! thread for each run costs more than a short run. So one thread of the process counts, every such run reads the count,
//! and once a second has gone by without any the thread ends. Nobody waits for it.
//!
//! After a fork the child has no such thread: whose it is, is told by the process's number.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Between two ticks.
const EVERY: Duration = Duration::from_millis(25);
/// Ticks without a run after which the thread ends.
const IDLE: u32 = 40;

/// The number.
static TICKS: AtomicU64 = AtomicU64::new(0);
/// Runs under way.
static RUNS: AtomicUsize = AtomicUsize::new(0);
/// The process whose thread counts; 0: none does.
static TICKER: AtomicU32 = AtomicU32::new(0);

/// As long as this lives, the number grows.
pub(super) struct Ticking;

impl Ticking {
    /// None where the system grants no thread.
    pub(super) fn begin() -> Option<Self> {
        RUNS.fetch_add(1, Ordering::SeqCst);
        let ticking = Self;
        let process = std::process::id();
        if TICKER.swap(process, Ordering::SeqCst) != process {
            let ticker = thread::Builder::new().name("isochrony-ticks".into());
            if ticker.spawn(move || tick(process)).is_err() {
                TICKER.store(0, Ordering::SeqCst);
                return None;
            }
        }
        Some(ticking)
    }
}

/// The number.
#[inline]
pub(super) fn ticks() -> u64 {
    TICKS.load(Ordering::Relaxed)
}

impl Drop for Ticking {
    fn drop(&mut self) {
        RUNS.fetch_sub(1, Ordering::SeqCst);
    }
}

fn tick(process: u32) {
    let mut idle = 0;
    loop {
        thread::sleep(EVERY);
        TICKS.fetch_add(1, Ordering::Relaxed);
        idle = match RUNS.load(Ordering::SeqCst) {
            0 => idle + 1,
            _ => 0,
        };
        if idle < IDLE {
            continue;
        }
        TICKER.store(0, Ordering::SeqCst);
        // A run that began just before has seen that there is a thread, so there must go on to be one; one that began
        // after has made another.
        if RUNS.load(Ordering::SeqCst) == 0 || TICKER.swap(process, Ordering::SeqCst) == process {
            return;
        }
        idle = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn grows(within: Duration) -> bool {
        let (before, begun) = (ticks(), Instant::now());
        while begun.elapsed() < within {
            if ticks() != before {
                return true;
            }
            thread::sleep(EVERY);
        }
        false
    }

    #[test]
    fn it_grows_while_there_are_runs_and_again_after_a_rest() {
        for _ in 0..2 {
            let first = Ticking::begin().unwrap();
            let second = Ticking::begin().unwrap();
            assert!(grows(Duration::from_secs(20)));
            drop(first);
            assert!(grows(Duration::from_secs(20)));
            drop(second);
            // A second after the last run nobody counts any more.
            let begun = Instant::now();
            while TICKER.load(Ordering::SeqCst) != 0 {
                assert!(begun.elapsed() < Duration::from_secs(60));
                thread::sleep(EVERY);
            }
            thread::sleep(2 * EVERY);
            assert!(!grows(4 * EVERY));
        }
    }
}
