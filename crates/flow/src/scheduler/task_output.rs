//! Results of tasks, and the scheduler of [`reorder`](super::reorder) for plans.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::boundary::ExitEvent;
use super::partition::{RecordingPartitioner, TaskInput};
use super::reorder::ReorderScheduler;
use super::task_queue::{self, TaskResult};
use crate::RunError;
use crate::engine::budget::MemoryReclaimer;

pub(super) const TASKS_PER_WORKER: usize = 3;

pub(super) type Task = task_queue::Task<TaskInput>;

pub(super) type TaskScheduler = ReorderScheduler<RecordingPartitioner, TaskOutput>;

pub(super) type NextOutput = task_queue::NextResult<TaskOutput>;

impl MemoryReclaimer for TaskScheduler {
    fn reclaim(&self) {
        self.reclaim_memory();
    }

    fn resume(&self) {
        self.resume_tasks();
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct ExitState(Arc<AtomicBool>);

impl ExitState {
    /// Its consumers have ended, as after a `limit`.
    pub(super) fn close(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(super) struct TaskOutput {
    pub(super) exits: Vec<ExitOutput>,
    /// The portion, and samples read in it.
    pub(super) range: Range<i64>,
    pub(super) samples: u64,
    pub(super) failed: bool,
    /// When the task began, or was sent to another host.
    pub(super) begun: Option<Instant>,
    failure: Option<TaskFailure>,
    bytes: u64,
}

#[derive(Debug)]
pub(super) struct TaskFailure {
    pub(super) error: Box<RunError>,
    /// Of the failed block; orders errors of several tasks.
    pub(super) time: f64,
    /// Downstream of the failed operator. If all are closed, the error is irrelevant; without any, it always counts.
    exits: Vec<ExitState>,
}

impl TaskFailure {
    pub(super) fn new(error: RunError, time: f64, exits: Vec<ExitState>) -> Self {
        let error = Box::new(error);
        Self { error, time, exits }
    }

    pub(super) fn positions(&self, exits: &[ExitState]) -> Vec<u32> {
        let affected =
            |state: &ExitState| self.exits.iter().any(|one| Arc::ptr_eq(&one.0, &state.0));
        let positions = (0..).zip(exits).filter(|(_, state)| affected(state));
        positions.map(|(position, _)| position).collect()
    }
}

#[derive(Debug, Default)]
pub(super) struct ExitOutput {
    pub(super) events: Vec<ExitEvent>,
    pub(super) upto: Option<i64>,
}

impl ExitOutput {
    pub(super) fn bytes(&self) -> u64 {
        let bytes = self.events.iter().map(|event| match event {
            ExitEvent::Item(item) => item.bytes(),
            ExitEvent::RangeStart { .. } | ExitEvent::ProgressMark(_) => 0,
        });
        bytes.sum()
    }
}

impl TaskOutput {
    pub(super) fn new(exits: Vec<ExitOutput>, samples: u64, failure: Option<TaskFailure>) -> Self {
        Self {
            bytes: exits.iter().map(ExitOutput::bytes).sum(),
            exits,
            range: 0..0,
            samples,
            failed: failure.is_some(),
            begun: None,
            failure,
        }
    }
}

impl TaskOutput {
    pub(super) fn into_parts(self) -> (Vec<ExitOutput>, Option<TaskFailure>) {
        (self.exits, self.failure)
    }

    pub(super) fn begun_at(mut self, begun: Instant) -> Self {
        self.begun = Some(begun);
        self
    }

    pub(super) fn with_input(mut self, portion: &TaskInput) -> Self {
        self.range = portion.range.clone();
        self
    }
}

impl TaskResult for TaskOutput {
    type Error = TaskFailure;

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn has_failed(&self) -> bool {
        self.failed
    }

    fn is_relevant(failure: &TaskFailure) -> bool {
        failure.exits.is_empty() || !failure.exits.iter().all(ExitState::is_closed)
    }

    fn take_error(&mut self) -> Option<TaskFailure> {
        self.failure.take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    use super::super::reorder::Registration;
    use super::super::task_sizes::{TaskSize, TaskSizes};
    use super::*;
    use crate::{OpErrorKind, Portion, Snapshot, Source};

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
            _: crate::PortionOverlap,
            _: u64,
        ) -> Result<Box<dyn Source>, crate::OpError> {
            Err(OpErrorKind::Interrupted.into())
        }

        fn total(&self) -> u64 {
            10 * self.0.unsigned_abs()
        }
    }

    fn next_task(scheduler: &TaskScheduler) -> Option<Task> {
        scheduler.next_task(&mut Registration::default(), || ())
    }

    fn task_output(upto: i64, error: Option<RunError>) -> TaskOutput {
        let (events, upto) = (Vec::new(), Some(upto));
        let failure = error.map(|error| TaskFailure::new(error, 0.0, Vec::new()));
        TaskOutput::new(vec![ExitOutput { events, upto }], 10, failure)
    }

    #[test]
    fn a_lost_worker_ends_the_wait_for_its_task() {
        let scheduler = scheduler(&[5], 2);
        let tasks: Vec<Task> = (0..2).map_while(|_| next_task(&scheduler)).collect();
        scheduler.complete(&tasks[0], task_output(10, None));
        scheduler.report_lost_worker();
        assert!(matches!(scheduler.next_result(0), NextOutput::Ready(_)));
        assert!(matches!(scheduler.next_result(0), NextOutput::Failed(None)));
    }

    fn scheduler(subgraphs: &[i64], workers: usize) -> TaskScheduler {
        within(subgraphs, workers, 1 << 20)
    }

    fn within(subgraphs: &[i64], workers: usize, memory: u64) -> TaskScheduler {
        let partitioner = |&portions: &i64| RecordingPartitioner {
            reads: vec![(Arc::new(Tens(portions)) as Arc<dyn Snapshot>, 1)],
            sizes: Arc::new(TaskSizes::new(TaskSize::fixed(10), None)),
        };
        let partitioners = subgraphs.iter().map(partitioner).collect();
        TaskScheduler::new(partitioners, TASKS_PER_WORKER * workers, memory)
    }

    #[test]
    fn results_come_in_order_and_few_tasks_are_in_flight() {
        const PORTIONS: i64 = 400;
        let scheduler = scheduler(&[PORTIONS, 0, 7], 3);
        let most = AtomicU64::new(0);
        let in_flight = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for worker in 0..3u64 {
                let (scheduler, most, in_flight) = (&scheduler, &most, &in_flight);
                scope.spawn(move || {
                    let (mut chance, mut registration) = (worker + 1, Registration::default());
                    while let Some(task) = scheduler.next_task(&mut registration, || ()) {
                        most.fetch_max(
                            in_flight.fetch_add(1, Ordering::SeqCst) + 1,
                            Ordering::SeqCst,
                        );
                        chance = chance
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1);
                        if chance >> 62 == 0 {
                            std::thread::sleep(Duration::from_micros(chance >> 54));
                        }
                        scheduler.complete(&task, task_output(task.part.range.end, None));
                    }
                });
            }
            let read = |subgraph: usize| {
                let mut upto = 0;
                loop {
                    match scheduler.next_result(subgraph) {
                        NextOutput::Ready(task_output) => {
                            in_flight.fetch_sub(1, Ordering::SeqCst);
                            assert_eq!(task_output.exits[0].upto, Some(upto + 10));
                            upto += 10;
                        }
                        NextOutput::Pending => {}
                        NextOutput::End => return upto,
                        NextOutput::Failed(_) => panic!("nothing failed"),
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
    fn tasks_of_a_lost_worker_are_repeated_and_do_not_count_as_short_of_memory() {
        let scheduler = scheduler(&[6], 2);
        let mut registration = Registration::default();
        let mut take = || scheduler.next_task_now(&mut registration);
        let lost: Vec<Task> = (0..3).map_while(|_| take()).collect();
        scheduler.complete(&lost[0], task_output(10, None));
        lost[1..].iter().for_each(|task| scheduler.repeat(task));
        let again: Vec<Task> = std::iter::from_fn(take).collect();
        let numbers: Vec<u64> = again.iter().map(|task| task.number).collect();
        // The window has six slots, one of them finished.
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        assert!(again.iter().all(|task| !task.alone));
        for task in &again {
            scheduler.complete(task, task_output(task.part.range.end, None));
        }
        for upto in 1..=6 {
            let NextOutput::Ready(output) = scheduler.next_result(0) else {
                panic!("no result {upto}");
            };
            assert_eq!(output.exits[0].upto, Some(10 * upto));
        }
    }

    #[test]
    fn stop_wakes_waiting_workers() {
        let scheduler = scheduler(&[1000], 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let (mut count, mut registration) = (0, Registration::default());
                while scheduler.next_task(&mut registration, || ()).is_some() {
                    count += 1;
                }
                count
            });
            std::thread::sleep(Duration::from_millis(20));
            scheduler.stop();
            assert!(waiting.join().unwrap() <= 3);
        });
    }

    #[test]
    fn the_first_error_in_read_order_counts() {
        let scheduler = scheduler(&[3], 2);
        let tasks: Vec<Task> = (0..3).map_while(|_| next_task(&scheduler)).collect();
        let error = |items| Some(RunError::Interrupted { items });
        scheduler.complete(&tasks[2], task_output(30, error(2)));
        scheduler.complete(&tasks[1], task_output(20, error(1)));
        assert!(matches!(scheduler.next_result(0), NextOutput::Pending));
        scheduler.complete(&tasks[0], task_output(10, None));
        assert!(matches!(scheduler.next_result(0), NextOutput::Ready(_)));
        assert!(matches!(scheduler.next_result(0), NextOutput::Ready(_)));
        let NextOutput::Failed(Some(failure)) = scheduler.next_result(0) else {
            panic!("nothing failed");
        };
        assert!(matches!(*failure.error, RunError::Interrupted { items: 1 }));
    }

    #[test]
    fn a_task_without_memory_beside_a_failed_result_is_retried_a_few_times() {
        let scheduler = scheduler(&[3], 2);
        let mut registration = Registration::default();
        let mut take = || scheduler.next_task(&mut registration, || ()).unwrap();
        let (first, second) = (take(), take());
        let failed = task_output(20, Some(RunError::Interrupted { items: 1 }));
        let bytes = 100;
        scheduler.complete(&second, TaskOutput { bytes, ..failed });
        assert!(scheduler.retry_later(&first));
        let mut tries = 0;
        loop {
            assert!(matches!(scheduler.next_result(0), NextOutput::Pending));
            let again = take();
            assert_eq!((again.number, again.alone), (0, true));
            tries += 1;
            if !scheduler.retry_later(&again) {
                break;
            }
        }
        assert_eq!(tries, 3);
    }

    #[test]
    fn above_the_byte_limit_only_the_oldest_task_is_handed_out() {
        let scheduler = within(&[10], 4, 0);
        let first = next_task(&scheduler).unwrap();
        scheduler.complete(&first, task_output(10, None));
        assert!(matches!(scheduler.next_result(0), NextOutput::Ready(_)));
        assert_eq!(next_task(&scheduler).unwrap().number, 1);
    }
}
