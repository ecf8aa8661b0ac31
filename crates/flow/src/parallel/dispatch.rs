//! Who does what next: tasks are handed out in the order of reading and their results are given back in it.
//!
//! One lock a task, which takes milliseconds. A task is handed out while fewer than `window` of its front wait or are under
//! way and what waits is within its share of memory; the oldest that is wanted is always handed out, so nobody waits for
//! what nobody does. Of several fronts the one that is furthest behind is served first.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Duration;

use super::log::Event;
use crate::{OpErrorKind, Portion, RunError, Snapshot};

/// Tasks that wait or are under way, for each worker.
pub(super) const WINDOW: usize = 3;
/// How long the run waits for a task before it looks around.
const LOOK: Duration = Duration::from_millis(20);

/// A portion of a front's recording, to be done.
#[derive(Debug, Clone)]
pub(super) struct Task {
    pub(super) front: usize,
    pub(super) number: u64,
    pub(super) portion: Portion,
}

/// What a front reads, and in which portions.
#[derive(Clone)]
pub(super) struct Cutting {
    pub(super) snapshot: Arc<dyn Snapshot>,
    pub(super) samples: u64,
    pub(super) grain: u64,
    /// What comes out of a portion, about.
    pub(super) bytes: u64,
}

/// What a task gave.
#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) events: Vec<Event>,
    /// Nothing that begins before this index follows.
    pub(super) upto: i64,
    /// Samples of the portion.
    pub(super) samples: u64,
    /// What went wrong behind all that.
    error: Option<Box<RunError>>,
    bytes: u64,
}

impl Parcel {
    pub(super) fn new(
        events: Vec<Event>,
        upto: i64,
        samples: u64,
        error: Option<RunError>,
    ) -> Self {
        let bytes = events.iter().map(|event| match event {
            Event::Item(item) => item.bytes(),
            Event::Stretch { .. } => 0,
        });
        let bytes = bytes.sum();
        Self {
            events,
            upto,
            samples,
            error: error.map(Box::new),
            bytes,
        }
    }
}

/// What comes next of a front.
#[derive(Debug)]
pub(super) enum Given {
    Parcel(Parcel),
    NotYet,
    /// A task failed: no more comes.
    Failed,
    End,
}

#[derive(Debug, Default)]
struct Front {
    last: Option<Portion>,
    /// All portions were handed out.
    exhausted: bool,
    handed_out: u64,
    /// Of the tasks from the oldest that is wanted on: what they gave, if they are done.
    parcels: VecDeque<Option<Parcel>>,
    /// What the task that was taken last failed with: behind it nothing comes.
    error: Option<Box<RunError>>,
    bytes: u64,
}

impl Front {
    /// Bytes that wait, and about those that will.
    fn waiting(&self, cutting: &Cutting) -> u64 {
        let under_way = self.parcels.iter().filter(|place| place.is_none()).count();
        self.bytes + under_way as u64 * cutting.bytes
    }
}

#[derive(Debug, Default)]
struct State {
    fronts: Vec<Front>,
    stopped: bool,
    /// A worker is gone that did not mean to go.
    lost: bool,
    error: Option<RunError>,
    run: Option<Thread>,
}

/// Hands tasks out and takes what they gave.
pub(super) struct Dispatch {
    state: Mutex<State>,
    /// There may be work.
    work: Condvar,
    /// A task is done.
    done: Condvar,
    cuttings: Vec<Cutting>,
    window: usize,
    memory: u64,
}

impl Dispatch {
    /// `memory`: most bytes that wait before only the oldest task is handed out.
    pub(super) fn new(cuttings: Vec<Cutting>, workers: usize, memory: u64) -> Self {
        let fronts = cuttings.iter().map(|_| Front::default()).collect();
        Self {
            state: Mutex::new(State {
                fronts,
                ..State::default()
            }),
            work: Condvar::new(),
            done: Condvar::new(),
            cuttings,
            window: WINDOW * workers,
            memory,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic is done under the lock but to ask where a portion ends, which changes nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next task, once there is one; None if there is nothing more to do.
    pub(super) fn take(&self) -> Option<Task> {
        let mut state = self.lock();
        loop {
            if state.stopped || state.fronts.iter().all(|front| front.exhausted) {
                return None;
            }
            let fronts = state.fronts.iter().zip(&self.cuttings);
            let waiting: u64 = fronts.map(|(front, cut)| front.waiting(cut)).sum();
            let open = state.fronts.iter().enumerate().filter(|(_, front)| {
                let room = front.parcels.len() < self.window && waiting < self.memory;
                !front.exhausted && (room || front.parcels.is_empty())
            });
            let Some((at, _)) = open.min_by_key(|(_, front)| front.parcels.len()) else {
                state = self
                    .work
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let cutting = &self.cuttings[at];
            let front = &mut state.fronts[at];
            let last = front.last.as_ref();
            match cutting
                .snapshot
                .portion_after(last, cutting.samples, cutting.grain)
            {
                Some(portion) => {
                    let number = front.handed_out;
                    front.handed_out += 1;
                    front.parcels.push_back(None);
                    front.last = Some(portion.clone());
                    return Some(Task {
                        front: at,
                        number,
                        portion,
                    });
                }
                None => {
                    front.exhausted = true;
                    self.work.notify_all();
                    self.tell(&state);
                }
            }
        }
    }

    /// What a task gave; behind one that failed nothing comes.
    pub(super) fn give(&self, task: &Task, gave: Parcel) {
        let mut state = self.lock();
        let front = &mut state.fronts[task.front];
        let first = front.handed_out - front.parcels.len() as u64;
        front.bytes += gave.bytes;
        front.exhausted |= gave.error.is_some();
        if let Some(place) = front.parcels.get_mut((task.number - first) as usize) {
            *place = Some(gave);
        }
        if task.number == first {
            self.tell(&state);
        }
    }

    fn tell(&self, state: &State) {
        self.done.notify_all();
        if let Some(run) = &state.run {
            run.unpark();
        }
    }

    /// What comes next of a front; waits for it for a while.
    pub(super) fn next(&self, front: usize) -> Given {
        let mut state = self.lock();
        let mut waited = false;
        loop {
            let lost = state.lost;
            let own = &mut state.fronts[front];
            if let Some(error) = own.error.take() {
                state.error.get_or_insert(*error);
                return Given::Failed;
            }
            if own.parcels.is_empty() && own.exhausted {
                return Given::End;
            }
            match own.parcels.front_mut().and_then(Option::take) {
                Some(mut parcel) => {
                    own.parcels.pop_front();
                    own.bytes -= parcel.bytes;
                    own.error = parcel.error.take();
                    self.work.notify_all();
                    return Given::Parcel(parcel);
                }
                None if lost => return Given::Failed,
                None if waited || state.stopped => return Given::NotYet,
                None => {
                    (state, _) = self
                        .done
                        .wait_timeout(state, LOOK)
                        .unwrap_or_else(PoisonError::into_inner);
                    waited = true;
                }
            }
        }
    }

    /// Whom to wake when something is done.
    pub(super) fn wakes(&self, run: &Thread) {
        self.lock().run = Some(run.clone());
    }

    /// Nobody wants more.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.work.notify_all();
        self.done.notify_all();
    }

    /// A worker is gone in the midst of its work: what it was to give does not come.
    pub(super) fn lose(&self) {
        let mut state = self.lock();
        state.lost = true;
        self.tell(&state);
    }

    /// What a task failed with, the first in the order of reading of those that were looked at.
    pub(super) fn take_error(&self) -> Option<RunError> {
        self.lock().error.take()
    }

    /// The run's own thread could not go on.
    pub(super) fn failed_to_begin(&self) -> RunError {
        RunError::Operator {
            operator: "scan",
            node: 0,
            range: None,
            time: None,
            error: OpErrorKind::NoThread.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::Source;

    /// So many portions of ten samples.
    struct Tens(i64);

    impl Snapshot for Tens {
        fn portion_after(&self, last: Option<&Portion>, _: u64, _: u64) -> Option<Portion> {
            let start = last.map_or(0, |last| last.range.end);
            (start < 10 * self.0).then(|| Portion {
                range: start..start + 10,
                before: None,
                part: 0,
            })
        }

        fn open(
            &self,
            _: &Portion,
            _: crate::Reach,
            _: u64,
        ) -> Result<Box<dyn Source>, crate::OpError> {
            Err(OpErrorKind::Interrupted.into())
        }

        fn total(&self) -> u64 {
            10 * self.0.unsigned_abs()
        }
    }

    fn parcel(upto: i64, error: Option<RunError>) -> Parcel {
        Parcel::new(Vec::new(), upto, 10, error)
    }

    #[test]
    fn when_a_worker_is_lost_nobody_waits_for_what_it_had() {
        let dispatch = dispatch(&[5], 2);
        let tasks: Vec<Task> = (0..2).map_while(|_| dispatch.take()).collect();
        dispatch.give(&tasks[0], parcel(10, None));
        dispatch.lose();
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        assert!(matches!(dispatch.next(0), Given::Failed));
    }

    fn dispatch(fronts: &[i64], workers: usize) -> Dispatch {
        let cutting = |&portions: &i64| Cutting {
            snapshot: Arc::new(Tens(portions)),
            samples: 10,
            grain: 1,
            bytes: 0,
        };
        Dispatch::new(fronts.iter().map(cutting).collect(), workers, 1 << 20)
    }

    #[test]
    fn any_workers_in_any_order_give_parcels_in_order_and_few_at_once() {
        const PORTIONS: i64 = 400;
        let dispatch = dispatch(&[PORTIONS, 0, 7], 3);
        let most = AtomicU64::new(0);
        let under_way = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for worker in 0..3u64 {
                let (dispatch, most, under_way) = (&dispatch, &most, &under_way);
                scope.spawn(move || {
                    let mut chance = worker + 1;
                    while let Some(task) = dispatch.take() {
                        most.fetch_max(
                            under_way.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        chance = chance
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        if chance >> 62 == 0 {
                            std::thread::sleep(Duration::from_micros(chance >> 54));
                        }
                        dispatch.give(&task, parcel(task.portion.range.end, None));
                    }
                });
            }
            let read = |front: usize| {
                let mut upto = 0;
                loop {
                    match dispatch.next(front) {
                        Given::Parcel(parcel) => {
                            under_way.fetch_sub(1, Ordering::SeqCst);
                            assert_eq!(parcel.upto, upto + 10);
                            upto = parcel.upto;
                        }
                        Given::NotYet => {}
                        Given::End => return upto,
                        Given::Failed => panic!("nothing failed"),
                    }
                }
            };
            assert_eq!(read(2), 70);
            assert_eq!(read(0), 10 * PORTIONS);
            assert_eq!(read(1), 0);
        });
        assert!(most.load(Ordering::SeqCst) <= 2 * 9 + 1);
    }

    #[test]
    fn who_waits_for_work_is_let_go_when_nobody_wants_more() {
        let dispatch = dispatch(&[1000], 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut taken = 0;
                while dispatch.take().is_some() {
                    taken += 1;
                }
                taken
            });
            std::thread::sleep(Duration::from_millis(20));
            dispatch.stop();
            assert!(waiting.join().unwrap() <= 3);
        });
    }

    #[test]
    fn the_error_that_would_have_been_met_first_is_the_one_that_counts() {
        let dispatch = dispatch(&[3], 2);
        let tasks: Vec<Task> = (0..3).map_while(|_| dispatch.take()).collect();
        let error = |items| Some(RunError::Interrupted { items });
        dispatch.give(&tasks[2], parcel(30, error(2)));
        dispatch.give(&tasks[1], parcel(20, error(1)));
        assert!(matches!(dispatch.next(0), Given::NotYet));
        dispatch.give(&tasks[0], parcel(10, None));
        // What came before the error comes first.
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        assert!(matches!(dispatch.next(0), Given::Failed));
        assert!(matches!(
            dispatch.take_error(),
            Some(RunError::Interrupted { items: 1 })
        ));
    }

    #[test]
    fn when_much_waits_only_what_is_wanted_next_is_handed_out() {
        let mut dispatch = dispatch(&[10], 4);
        dispatch.memory = 0;
        let first = dispatch.take().unwrap();
        dispatch.give(&first, parcel(10, None));
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        assert_eq!(dispatch.take().unwrap().number, 1);
    }
}
