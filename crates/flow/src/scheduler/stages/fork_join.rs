//! Work in parts that several threads compute: each part once, and `join` returns when all are done.
//!
//! ```text
//!  owner:   open(work, 4) -> part 0 ---> part 2 ------> join --> returns
//!  helper:                     part 1 ---> part 3 -> complete
//! ```
//!
//! The owner computes every part that nobody has taken, so it waits only for parts that are being computed: it never
//! depends on a thread that is elsewhere. Does not know what the work is, for model checkers
//! (`tests/loom_models/divided.rs`).

use std::sync::atomic::Ordering;

use super::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, PoisonError};

struct State<W> {
    work: Option<W>,
    /// The next part, and how many there are.
    next: usize,
    parts: usize,
}

pub(crate) struct ForkJoin<W> {
    state: Mutex<State<W>>,
    /// Parts that are being computed. Changed under the lock.
    running: AtomicUsize,
    all_done: Condvar,
    /// How often the owner looks before it sleeps.
    spins: usize,
}

impl<W: Clone> ForkJoin<W> {
    pub(crate) fn new(spins: usize) -> Self {
        Self {
            state: Mutex::new(State {
                work: None,
                next: 0,
                parts: 0,
            }),
            running: AtomicUsize::new(0),
            all_done: Condvar::new(),
            spins,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Called by the owner, after [`join`](Self::join) of the work before.
    pub(crate) fn open(&self, work: W, parts: usize) {
        let mut state = self.lock();
        state.work = Some(work);
        (state.next, state.parts) = (0, parts);
    }

    /// A part that nobody has taken. Followed by [`complete`](Self::complete).
    pub(crate) fn take(&self) -> Option<(W, usize)> {
        let mut state = self.lock();
        if state.next == state.parts {
            return None;
        }
        let work = state.work.clone()?;
        state.next += 1;
        self.running.fetch_add(1, Ordering::Relaxed);
        Some((work, state.next - 1))
    }

    pub(crate) fn complete(&self) {
        let state = self.lock();
        if self.running.fetch_sub(1, Ordering::Relaxed) == 1 && state.next == state.parts {
            self.all_done.notify_all();
        }
    }

    /// Called by the owner when [`take`](Self::take) has nothing more: waits for what others compute.
    pub(crate) fn join(&self) {
        for _ in 0..self.spins {
            if self.running.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::hint::spin_loop();
        }
        let mut state = self.lock();
        while self.running.load(Ordering::Relaxed) > 0 {
            let waited = self.all_done.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.work = None;
    }
}
