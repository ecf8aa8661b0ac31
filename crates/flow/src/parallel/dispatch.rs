//! What is handed out and given back in a run on several cores; in which order is [`order`](super::order)'s.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::cells::{Cell, Cutting};
use super::log::Event;
use super::order::Order;
use super::queue::{self, Gave};
use crate::RunError;
use crate::exec::budget::Room;

/// Tasks that wait or are under way, for each worker.
pub(super) const WINDOW: usize = 3;

/// A portion of what a front reads, to be done.
pub(super) type Task = queue::Task<Cell>;

/// Hands tasks out and takes what they gave.
pub(super) type Dispatch = Order<Cutting, Parcel>;

/// What comes next of a front.
pub(super) type Given = queue::Given<Parcel>;

impl Room for Dispatch {
    fn make(&self) {
        self.make_room();
    }

    fn go_on(&self) {
        self.go_on();
    }
}

/// Whether somebody still takes what leaves by an exit.
#[derive(Debug, Clone, Default)]
pub(super) struct Leads(Arc<AtomicBool>);

impl Leads {
    /// Nobody takes it any more.
    pub(super) fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a task gave.
#[derive(Debug)]
pub(super) struct Parcel {
    /// By exit.
    pub(super) exits: Vec<Leaving>,
    /// The portion, and how many samples it has.
    pub(super) range: Range<i64>,
    pub(super) samples: u64,
    /// Whether something went wrong behind all that.
    pub(super) failed: bool,
    failure: Option<Failure>,
    bytes: u64,
}

/// What a task failed with.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) error: Box<RunError>,
    /// When in what is read it was met.
    pub(super) time: f64,
    /// Exits to which the operator leads; none: it matters in any case.
    leads: Vec<Leads>,
}

impl Failure {
    pub(super) fn new(error: RunError, time: f64, leads: Vec<Leads>) -> Self {
        let error = Box::new(error);
        Self { error, time, leads }
    }
}

/// What a task gave by an exit.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    pub(super) events: Vec<Event>,
    /// Nothing that begins before this index follows.
    pub(super) upto: Option<i64>,
}

impl Parcel {
    pub(super) fn new(exits: Vec<Leaving>, samples: u64, failure: Option<Failure>) -> Self {
        let events = exits.iter().flat_map(|exit| &exit.events);
        let bytes = events.map(|event| match event {
            Event::Item(item) => item.bytes(),
            Event::Stretch { .. } | Event::Upto(_) => 0,
        });
        Self {
            bytes: bytes.sum(),
            exits,
            range: 0..0,
            samples,
            failed: failure.is_some(),
            failure,
        }
    }
}

impl Parcel {
    pub(super) fn of(mut self, portion: &Cell) -> Self {
        self.range = portion.range.clone();
        self
    }
}

impl Gave for Parcel {
    type Error = Failure;

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn matters(failure: &Failure) -> bool {
        failure.leads.is_empty() || !failure.leads.iter().all(Leads::closed)
    }

    fn take_error(&mut self) -> Option<Failure> {
        self.failure.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::super::order::Seat;
    use super::*;
    use crate::{OpErrorKind, Portion, Snapshot, Source};

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

    fn take(dispatch: &Dispatch) -> Option<Task> {
        dispatch.take(&mut Seat::default(), || ())
    }

    fn parcel(upto: i64, error: Option<RunError>) -> Parcel {
        let (events, upto) = (Vec::new(), Some(upto));
        let failure = error.map(|error| Failure::new(error, 0.0, Vec::new()));
        Parcel::new(vec![Leaving { events, upto }], 10, failure)
    }

    #[test]
    fn when_a_worker_is_lost_nobody_waits_for_what_it_had() {
        let dispatch = dispatch(&[5], 2);
        let tasks: Vec<Task> = (0..2).map_while(|_| take(&dispatch)).collect();
        dispatch.give(&tasks[0], parcel(10, None));
        dispatch.lose();
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        assert!(matches!(dispatch.next(0), Given::Failed(None)));
    }

    fn dispatch(fronts: &[i64], workers: usize) -> Dispatch {
        within(fronts, workers, 1 << 20)
    }

    fn within(fronts: &[i64], workers: usize, memory: u64) -> Dispatch {
        let cutting = |&portions: &i64| Cutting {
            reads: vec![(Arc::new(Tens(portions)) as Arc<dyn Snapshot>, 1)],
            samples: 10,
            bytes: 0,
        };
        let cuttings = fronts.iter().map(cutting).collect();
        Dispatch::new(cuttings, WINDOW * workers, memory)
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
                    let (mut chance, mut seat) = (worker + 1, Seat::default());
                    while let Some(task) = dispatch.take(&mut seat, || ()) {
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
                            assert_eq!(parcel.exits[0].upto, Some(upto + 10));
                            upto += 10;
                        }
                        Given::NotYet => {}
                        Given::End => return upto,
                        Given::Failed(_) => panic!("nothing failed"),
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
                let (mut taken, mut seat) = (0, Seat::default());
                while dispatch.take(&mut seat, || ()).is_some() {
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
        let tasks: Vec<Task> = (0..3).map_while(|_| take(&dispatch)).collect();
        let error = |items| Some(RunError::Interrupted { items });
        dispatch.give(&tasks[2], parcel(30, error(2)));
        dispatch.give(&tasks[1], parcel(20, error(1)));
        assert!(matches!(dispatch.next(0), Given::NotYet));
        dispatch.give(&tasks[0], parcel(10, None));
        // What came before the error comes first.
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        let Given::Failed(Some(failure)) = dispatch.next(0) else {
            panic!("nothing failed");
        };
        assert!(matches!(*failure.error, RunError::Interrupted { items: 1 }));
    }

    #[test]
    fn who_has_no_memory_beside_what_a_later_task_failed_with_is_not_tried_for_ever() {
        let dispatch = dispatch(&[3], 2);
        let mut seat = Seat::default();
        let mut take = || dispatch.take(&mut seat, || ()).unwrap();
        let (first, second) = (take(), take());
        let failed = parcel(20, Some(RunError::Interrupted { items: 1 }));
        let bytes = 100;
        dispatch.give(&second, Parcel { bytes, ..failed });
        assert!(dispatch.put_back(&first));
        let mut tries = 0;
        loop {
            assert!(matches!(dispatch.next(0), Given::NotYet));
            let again = take();
            assert_eq!((again.number, again.alone), (0, true));
            tries += 1;
            if !dispatch.put_back(&again) {
                break;
            }
        }
        assert_eq!(tries, 3);
    }

    #[test]
    fn when_much_waits_only_what_is_wanted_next_is_handed_out() {
        let dispatch = within(&[10], 4, 0);
        let first = take(&dispatch).unwrap();
        dispatch.give(&first, parcel(10, None));
        assert!(matches!(dispatch.next(0), Given::Parcel(_)));
        assert_eq!(take(&dispatch).unwrap().number, 1);
    }
}
