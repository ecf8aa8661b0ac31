//! Where workers come for tasklets: the roster behind one lock, and who waits is woken when something ends.
//!
//! Nothing can begin that could not before unless a tasklet ends or the run stops, so these wake all who wait, and nothing
//! else has to. `tests/loom_desk.rs` runs this file through every interleaving of a few threads.

use crate::roster::{Next, Roster};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What is behind the lock.
pub(crate) struct Behind<T> {
    pub(crate) roster: Roster,
    /// Workers that wait for something to end: while there are none nobody is woken, which takes longer than the rest.
    waiting: usize,
    /// What its user keeps beside it.
    pub(crate) more: T,
}

/// A roster that threads share.
pub(crate) struct Desk<T> {
    behind: Mutex<Behind<T>>,
    /// A tasklet ended, or the run.
    ended: Condvar,
}

impl<T> Desk<T> {
    pub(crate) fn new(roster: Roster, more: T) -> Self {
        Self {
            behind: Mutex::new(Behind {
                roster,
                waiting: 0,
                more,
            }),
            ended: Condvar::new(),
        }
    }

    /// The lock. A panic while it was held would be told by the scope of the threads, which ends with it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Behind<T>> {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a tasklet that may begin; None: there is nothing left to do. `begins` is called with the lock held.
    pub(crate) fn take(&self, begins: impl FnOnce(&mut Behind<T>, usize)) -> Option<usize> {
        let mut behind = self.lock();
        loop {
            match behind.roster.take() {
                Next::Run(tasklet) => {
                    begins(&mut behind, tasklet);
                    return Some(tasklet);
                }
                Next::Wait => {
                    behind.waiting += 1;
                    behind = (self.ended.wait(behind)).unwrap_or_else(PoisonError::into_inner);
                    behind.waiting -= 1;
                }
                Next::End => return None,
            }
        }
    }

    /// A tasklet is over, done or failed. `ends` is called with the lock held and the tasklets whose scratch nobody needs
    /// any more: what it gives back is given back before another takes it.
    pub(crate) fn end(
        &self,
        tasklet: usize,
        done: bool,
        ends: impl FnOnce(&mut Behind<T>, Vec<usize>),
    ) {
        let mut behind = self.lock();
        let released = if done {
            behind.roster.done(tasklet)
        } else {
            behind.roster.failed(tasklet)
        };
        ends(&mut behind, released);
        self.wake(behind);
    }

    /// No tasklet begins any more.
    pub(crate) fn stop(&self, stops: impl FnOnce(&mut Behind<T>)) {
        let mut behind = self.lock();
        behind.roster.stop();
        stops(&mut behind);
        self.wake(behind);
    }

    /// Wakes who waits, having let go of the lock that they need.
    fn wake(&self, behind: MutexGuard<'_, Behind<T>>) {
        let waiting = behind.waiting;
        drop(behind);
        if waiting > 0 {
            self.ended.notify_all();
        }
    }
}
