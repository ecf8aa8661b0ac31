//! Hands out tasks in read order and returns results in that order, as a bounded reorder buffer: at most `window` tasks
//! per subgraph are in flight or buffered, and buffered results count against the memory budget.
//!
//! The oldest task is always handed out, so there is no deadlock. The subgraph with the fewest queued tasks is served
//! first. One mutex suffices: a task takes milliseconds.
//!
//! A part is what a worker computes at a time, with a slot of its own; a task is what it is given at a time, of one part
//! or several that follow each other. The worker that is given the first part reserves the others, and gives back what
//! it has not begun when memory is short, or when it ends.
//!
//! ```text
//!  worker   waits for work_available: no task allowed by window, bytes or concurrency limit
//!  consumer waits for progress:       oldest task not finished, at most one RESULT_WAIT
//!  memory refused to a task:          retry_later -> fewer in flight, in the end one; buffered results are discarded
//!                                     and recomputed; every worker releases what it does not need
//!  memory refused to the consumer:    reclaim_memory -> as above, nothing handed out until resume_tasks
//! ```
//!
//! Generic over the task, for model checking (`tests/loom_models/tasks.rs`).

// The model checker need not see this count: nothing waits for it.
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use super::task_queue::{
    NextResult, Partitioner, QueueTotals, SlotState, Task, TaskQueue, TaskResult,
};

const RESULT_WAIT: Duration = Duration::from_millis(20);
/// Waits of [`RESULT_WAIT`] until the consumer stops reclaiming memory.
const MAX_RECLAIM_WAITS: u32 = 250;
const COMPLETIONS_PER_INCREASE: u64 = 16;
/// Retries of a task that ran alone: the consumer may have used memory.
const MAX_LONE_RETRIES: u32 = 2;

#[derive(Clone, Copy)]
enum WaitLimit {
    No,
    Until(Instant),
    UntilEnd,
}

#[derive(Debug)]
pub(super) struct Registration<Part> {
    release_round: u64,
    registered: bool,
    /// Parts of its task that it has not begun.
    reserved: VecDeque<Task<Part>>,
}

impl<Part> Default for Registration<Part> {
    fn default() -> Self {
        Self {
            release_round: 0,
            registered: false,
            reserved: VecDeque::new(),
        }
    }
}

struct State<Part, R: TaskResult> {
    queues: Vec<TaskQueue<Part, R>>,
    totals: QueueTotals,
    stopped: bool,
    worker_lost: bool,
    consumer: Option<Waker>,
    /// Falls when memory is short, then rises slowly.
    concurrency_limit: usize,
    worker_limit: usize,
    completions: u64,
    lone_retries: u32,
    paused: bool,
    workers: usize,
    released: usize,
    release_round: u64,
    /// Parts in flight that no worker computes yet, since they follow another one of its task.
    reserved: usize,
}

pub(super) struct ReorderScheduler<P: Partitioner, R: TaskResult> {
    state: Mutex<State<P::Part, R>>,
    work_available: Condvar,
    progress: Condvar,
    partitioners: Vec<P>,
    window: usize,
    memory: u64,
    busy_ns: AtomicU64,
    consumer_wait_ns: AtomicU64,
    consumed_samples: AtomicU64,
}

impl<P: Partitioner, R: TaskResult> ReorderScheduler<P, R> {
    /// `memory`: bytes above which only the oldest task is handed out.
    pub(super) fn new(partitioners: Vec<P>, window: usize, memory: u64) -> Self {
        let queues: Vec<_> = partitioners.iter().map(|_| TaskQueue::new()).collect();
        let mut totals = QueueTotals::new(queues.len());
        for (at, (queue, partitioner)) in queues.iter().zip(&partitioners).enumerate() {
            let parts = partitioner.parts_per_task(0);
            totals.update(at, queue, partitioner.bytes(), parts);
        }
        Self {
            state: Mutex::new(State {
                queues,
                totals,
                stopped: false,
                worker_lost: false,
                consumer: None,
                concurrency_limit: usize::MAX,
                worker_limit: usize::MAX,
                completions: 0,
                lone_retries: 0,
                paused: false,
                workers: 0,
                released: 0,
                release_round: 0,
                reserved: 0,
            }),
            work_available: Condvar::new(),
            progress: Condvar::new(),
            partitioners,
            window,
            memory,
            busy_ns: AtomicU64::new(0),
            consumer_wait_ns: AtomicU64::new(0),
            consumed_samples: AtomicU64::new(0),
        }
    }

    pub(super) fn add_busy(&self, time: Duration) {
        self.busy_ns
            .fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    pub(super) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Ordering::Relaxed))
    }

    pub(super) fn add_consumed(&self, samples: u64) {
        self.consumed_samples.fetch_add(samples, Ordering::Relaxed);
    }

    /// Samples of results that the consumer has taken.
    pub(super) fn consumed_samples(&self) -> u64 {
        self.consumed_samples.load(Ordering::Relaxed)
    }

    /// How long the consumer waited for results.
    pub(super) fn consumer_wait(&self) -> Duration {
        Duration::from_nanos(self.consumer_wait_ns.load(Ordering::Relaxed))
    }

    /// Call after each change of a queue.
    fn update(&self, state: &mut State<P::Part, R>, at: usize) {
        let (queue, partitioner) = (&state.queues[at], &self.partitioners[at]);
        let parts = partitioner.parts_per_task(queue.handed_out);
        let each = partitioner.bytes();
        state.totals.update(at, queue, each, parts);
    }

    /// Also discards buffered results, and makes every worker release memory.
    fn reduce_concurrency(&self, state: &mut State<P::Part, R>, concurrency_limit: usize) {
        state.concurrency_limit = concurrency_limit.max(1);
        state.completions = 0;
        state.release_round += 1;
        state.released = 0;
        self.discard_finished(state);
    }

    fn discard_finished(&self, state: &mut State<P::Part, R>) {
        for at in 0..state.queues.len() {
            state.queues[at].discard_finished();
            self.update(state, at);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<P::Part, R>> {
        // Only `part_after` may panic under the lock; it changes no state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn next_task(
        &self,
        registration: &mut Registration<P::Part>,
        release_memory: impl FnMut(),
    ) -> Option<Task<P::Part>> {
        self.take_task(registration, release_memory, WaitLimit::UntilEnd)
    }

    pub(super) fn next_task_within(
        &self,
        registration: &mut Registration<P::Part>,
        limit: Duration,
    ) -> Option<Task<P::Part>> {
        self.take_task(
            registration,
            || (),
            WaitLimit::Until(Instant::now() + limit),
        )
    }

    pub(super) fn next_task_now(
        &self,
        registration: &mut Registration<P::Part>,
    ) -> Option<Task<P::Part>> {
        self.take_task(registration, || (), WaitLimit::No)
    }

    pub(super) fn is_finished(&self) -> bool {
        let state = self.lock();
        state.stopped || state.totals.unfinished == 0
    }

    fn take_task(
        &self,
        registration: &mut Registration<P::Part>,
        mut release_memory: impl FnMut(),
        wait: WaitLimit,
    ) -> Option<Task<P::Part>> {
        let mut state = self.lock();
        if !std::mem::replace(&mut registration.registered, true) {
            state.workers += 1;
            registration.release_round = state.release_round;
            state.released += 1;
        }
        loop {
            if registration.release_round != state.release_round {
                registration.release_round = state.release_round;
                self.give_back(
                    &mut state,
                    std::mem::take(&mut registration.reserved).iter(),
                );
                drop(state);
                release_memory();
                state = self.lock();
                // A new round may have begun meanwhile.
                state.released += usize::from(registration.release_round == state.release_round);
                self.progress.notify_all();
                self.work_available.notify_all();
                continue;
            }
            // Buffered results may still be discarded: a queue with slots is not finished.
            if state.stopped || state.totals.unfinished == 0 {
                return None;
            }
            if let Some(next) = registration.reserved.pop_front() {
                return Some(next);
            }
            let Some(at) = self.choose_queue(&state) else {
                state = match wait {
                    WaitLimit::No => return None,
                    WaitLimit::UntilEnd => self
                        .work_available
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner),
                    WaitLimit::Until(end) => {
                        let left = end.saturating_duration_since(Instant::now());
                        if left.is_zero() {
                            return None;
                        }
                        let waited = self.work_available.wait_timeout(state, left);
                        waited.unwrap_or_else(PoisonError::into_inner).0
                    }
                };
                continue;
            };
            let alone = self.would_run_alone(&state);
            let task = |number, part| Task {
                subgraph: at,
                number,
                part,
                alone,
                continues: false,
            };
            if let Some((number, part)) = state.queues[at].hand_out_again() {
                self.update(&mut state, at);
                return Some(task(number, part));
            }
            match self.hand_out_new(&mut state, at) {
                Some((number, part)) => {
                    let mut first = task(number, part);
                    self.reserve_others(&mut state, &mut first, registration);
                    return Some(first);
                }
                None => {
                    state.queues[at].exhausted = true;
                    self.update(&mut state, at);
                    self.work_available.notify_all();
                    self.notify_consumer(&state);
                }
            }
        }
    }

    fn hand_out_new(&self, state: &mut State<P::Part, R>, at: usize) -> Option<(u64, P::Part)> {
        let queue = &mut state.queues[at];
        let part = self.partitioners[at].part_after(queue.last_part.as_ref(), queue.handed_out)?;
        let number = queue.hand_out(part.clone());
        self.update(state, at);
        Some((number, part))
    }

    /// The other parts of a task; fewer at the end of the input and if there is no memory for them.
    fn reserve_others(
        &self,
        state: &mut State<P::Part, R>,
        first: &mut Task<P::Part>,
        registration: &mut Registration<P::Part>,
    ) {
        let at = first.subgraph;
        let mut last = first;
        for _ in 1..self.partitioners[at].parts_per_task(last.number) {
            // The limit rises again, and then matters no longer.
            let is_short = state.concurrency_limit < state.workers.max(2);
            if is_short || state.totals.expected_bytes >= self.memory {
                break;
            }
            let Some((number, part)) = self.hand_out_new(state, at) else {
                break;
            };
            last.continues = true;
            state.reserved += 1;
            registration.reserved.push_back(Task {
                subgraph: at,
                number,
                part,
                alone: false,
                continues: false,
            });
            let Some(next) = registration.reserved.back_mut() else {
                break;
            };
            last = next;
        }
    }

    /// What a worker has not begun of its task.
    fn give_back<'a>(
        &self,
        state: &mut State<P::Part, R>,
        reserved: impl ExactSizeIterator<Item = &'a Task<P::Part>>,
    ) where
        P::Part: 'a,
    {
        // The part before them has ended, so the first one no longer counts as reserved.
        state.reserved -= reserved.len().saturating_sub(1);
        for task in reserved {
            self.set_slot(state, task, SlotState::Retry);
        }
    }

    /// A worker goes on to the next part of its task.
    fn end_part(state: &mut State<P::Part, R>, task: &Task<P::Part>) {
        state.reserved -= usize::from(task.continues);
    }

    pub(super) fn set_workers(&self, workers: usize) {
        self.lock().worker_limit = workers.max(1);
        self.work_available.notify_all();
    }

    fn choose_queue(&self, state: &State<P::Part, R>) -> Option<usize> {
        let totals = &state.totals;
        let is_lone = state.concurrency_limit == 1;
        let in_flight_limit = state.concurrency_limit.min(state.worker_limit);
        if state.paused || totals.in_flight - state.reserved >= in_flight_limit {
            return None;
        }
        // Only after every worker released memory.
        if is_lone && state.released < state.workers {
            return None;
        }
        let room = totals.expected_bytes < self.memory && !is_lone;
        // Alone: only after the consumer used up all results.
        let may = |&&(_, at): &&(usize, usize)| !is_lone || state.queues[at].consumer_waits;
        // Without room only the oldest task.
        let window = if room { self.window } else { 1 };
        let new = totals.with_new.iter();
        let new = new.take_while(|(len, _)| *len < window).find(may);
        let again = totals.with_retry.iter();
        let again = again
            .filter(may)
            .find(|&&(_, at)| room || state.queues[at].offers_oldest());
        new.into_iter().chain(again).min().map(|&(_, at)| at)
    }

    fn would_run_alone(&self, state: &State<P::Part, R>) -> bool {
        state.concurrency_limit == 1
            && state.totals.in_flight == 0
            && !state.queues.iter().any(TaskQueue::has_discardable)
    }

    /// After a memory refusal; false if it was retried alone too often.
    pub(super) fn retry_later(&self, task: &Task<P::Part>) -> bool {
        let mut state = self.lock();
        state.lone_retries += u32::from(task.alone);
        if state.lone_retries > MAX_LONE_RETRIES {
            return false;
        }
        self.set_slot(&mut state, task, SlotState::Retry);
        let others = state.totals.in_flight - state.reserved;
        Self::end_part(&mut state, task);
        self.reduce_concurrency(&mut state, others);
        self.work_available.notify_all();
        self.progress.notify_all();
        true
    }

    pub(super) fn repeat(&self, task: &Task<P::Part>) {
        let mut state = self.lock();
        self.set_slot(&mut state, task, SlotState::Retry);
        Self::end_part(&mut state, task);
        self.work_available.notify_all();
        self.progress.notify_all();
    }

    pub(super) fn complete(&self, task: &Task<P::Part>, result: R) {
        let mut state = self.lock();
        let queue = &mut state.queues[task.subgraph];
        let first = queue.first_number();
        queue.exhausted |= result.has_failed();
        self.set_slot(&mut state, task, SlotState::Finished(result));
        Self::end_part(&mut state, task);
        state.lone_retries = 0;
        if state.worker_limit < usize::MAX {
            self.work_available.notify_one();
        }
        if state.concurrency_limit < usize::MAX {
            state.completions += 1;
            if state.completions >= COMPLETIONS_PER_INCREASE {
                (state.concurrency_limit, state.completions) = (state.concurrency_limit + 1, 0);
            }
            self.work_available.notify_all();
            self.progress.notify_all();
        }
        if task.number == first {
            self.notify_consumer(&state);
        }
    }

    fn set_slot(&self, state: &mut State<P::Part, R>, task: &Task<P::Part>, slot: SlotState<R>) {
        state.queues[task.subgraph].set(task.number, slot);
        self.update(state, task.subgraph);
    }

    fn notify_consumer(&self, state: &State<P::Part, R>) {
        self.progress.notify_all();
        if let Some(consumer) = &state.consumer {
            consumer.wake_by_ref();
        }
    }

    pub(super) fn next_result(&self, subgraph: usize) -> NextResult<R> {
        let mut state = self.lock();
        let mut waited = false;
        loop {
            let (worker_lost, short) = (state.worker_lost, state.concurrency_limit == 1);
            let queue = &mut state.queues[subgraph];
            if let Some((part, error)) = queue.failure.take() {
                if R::is_relevant(&error) {
                    self.update(&mut state, subgraph);
                    return NextResult::Failed(Some(error));
                }
                // All exits after the failed operator are closed: retry without them.
                queue.retry_consumed(part);
                self.update(&mut state, subgraph);
                self.work_available.notify_all();
            }
            let queue = &mut state.queues[subgraph];
            if queue.len() == 0 && queue.exhausted {
                return NextResult::End;
            }
            if let Some((part, mut result)) = queue.pop_finished() {
                queue.failure = result.take_error().map(|error| (part, error));
                queue.consumer_waits = false;
                self.update(&mut state, subgraph);
                self.work_available.notify_all();
                return NextResult::Ready(result);
            }
            queue.consumer_waits = true;
            if short {
                self.work_available.notify_all();
            }
            if worker_lost {
                return NextResult::Failed(None);
            }
            if waited || state.stopped {
                return NextResult::Pending;
            }
            let begun = Instant::now();
            (state, _) = self
                .progress
                .wait_timeout(state, RESULT_WAIT)
                .unwrap_or_else(PoisonError::into_inner);
            self.consumer_wait_ns
                .fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            waited = true;
        }
    }

    /// Frees memory for the consumer: workers finish or abandon tasks, buffered results are discarded, nothing is
    /// handed out until [`resume_tasks`](Self::resume_tasks). Gives up after seconds: a worker may wait for something
    /// the consumer holds, such as the GIL.
    pub(super) fn reclaim_memory(&self) {
        let mut state = self.lock();
        state.paused = true;
        self.reduce_concurrency(&mut state, 1);
        self.work_available.notify_all();
        for _ in 0..MAX_RECLAIM_WAITS {
            let idle = state.totals.in_flight == 0 && state.released >= state.workers;
            if idle || state.stopped || state.worker_lost {
                break;
            }
            (state, _) = self
                .progress
                .wait_timeout(state, RESULT_WAIT)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.discard_finished(&mut state);
    }

    pub(super) fn resume_tasks(&self) {
        self.lock().paused = false;
        self.work_available.notify_all();
    }

    /// Between parts: what the worker has not begun of its task goes to others.
    pub(super) fn unregister(&self, registration: &Registration<P::Part>) {
        let mut state = self.lock();
        self.give_back(&mut state, registration.reserved.iter());
        state.workers -= usize::from(registration.registered);
        state.released -= usize::from(
            registration.registered && registration.release_round == state.release_round,
        )
        .min(state.released);
        self.progress.notify_all();
        self.work_available.notify_all();
    }

    pub(super) fn wake_consumer(&self) {
        if let Some(consumer) = &self.lock().consumer {
            consumer.wake_by_ref();
        }
    }

    pub(super) fn set_consumer(&self, waker: &Waker) {
        self.lock().consumer = Some(waker.clone());
    }

    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.work_available.notify_all();
        self.progress.notify_all();
    }

    pub(super) fn report_lost_worker(&self) {
        let mut state = self.lock();
        state.worker_lost = true;
        self.notify_consumer(&state);
    }

    pub(super) fn take_failures(&self) -> Vec<R::Error> {
        let mut state = self.lock();
        let mut failed = Vec::new();
        for at in 0..state.queues.len() {
            if let Some((_, error)) = state.queues[at].failure.take() {
                self.update(&mut state, at);
                failed.push(error);
            }
        }
        failed.retain(R::is_relevant);
        failed
    }
}
