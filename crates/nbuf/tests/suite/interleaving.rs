//! The paper's figures 2 to 5 as predictions that executions follow step by step.
//!
//! A model predicts the ticks of each buffer's states. Each buffer stays in its state until the predicted tick, and a
//! tick comes only when all buffers are in their predicted states. With less parallelism an execution never reaches a
//! tick (a wait with a timeout); with more, or in another order, a state begins too early.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread;

use crate::common::{RECORD, TIMEOUT, numbered, options, run_unwatched};
use isochrony_nbuf::{BlockProcessor, BufferOutput, Cause, Input, Order, Output, RecordBlock};

/// In the states read, execute and write.
type Times = [u64; 3];

const STATES: [&str; 3] = ["read", "executed", "written"];

/// First and end tick of each state.
type Course = [(u64, u64); 3];

/// A state begins when its worker is free and, if it admits one buffer at a time, the previous buffer has left it. A
/// worker reads again after it has written.
fn predicted(times: Times, in_turn: bool, workers: usize, buffers: usize) -> Vec<Course> {
    let mut workers = vec![0; workers];
    let (mut read, mut executed, mut written) = (0, 0, 0);
    let course = |_| {
        let worker = workers.iter_mut().min().expect("there is one");
        let begin = read.max(*worker);
        read = begin + times[0];
        let execute = if in_turn { executed.max(read) } else { read };
        executed = execute + times[1];
        let write = written.max(executed);
        written = write + times[2];
        *worker = written;
        [(begin, read), (execute, executed), (write, written)]
    };
    (0..buffers).map(course).collect()
}

fn end(plan: &[Course]) -> u64 {
    plan.last().map_or(0, |course| course[2].1)
}

/// Between the state's first and last buffer.
fn idle(plan: &[Course], state: usize) -> u64 {
    let gaps = plan
        .windows(2)
        .map(|two| (two[0][state].1, two[1][state].0));
    gaps.map(|(left, came)| came.saturating_sub(left)).sum()
}

fn most(plan: &[Course], states: &[usize]) -> usize {
    let inside = |tick: u64| {
        let all = plan
            .iter()
            .flat_map(|course| states.iter().map(|state| course[*state]));
        all.filter(|(begin, end)| (*begin..*end).contains(&tick))
            .count()
    };
    (0..end(plan)).map(inside).max().unwrap_or(0)
}

struct Stage {
    plan: Vec<Course>,
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Default)]
struct Now {
    tick: u64,
    /// (buffer, state) of all that began.
    begun: BTreeSet<(usize, usize)>,
    /// After it no buffer is held back.
    wrong: Option<String>,
}

impl Stage {
    fn new(plan: Vec<Course>) -> Self {
        Self {
            plan,
            now: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().expect("no panic")
    }

    /// Keeps a buffer in a state until its time is over.
    fn play(&self, buffer: usize, state: usize) {
        let (begin, end) = self.plan[buffer][state];
        let mut now = self.now();
        if now.tick != begin && now.wrong.is_none() {
            let (tick, what) = (now.tick, STATES[state]);
            now.wrong = Some(format!(
                "buffer {buffer} begins to be {what} at tick {tick}, predicted at {begin}"
            ));
        }
        now.begun.insert((buffer, state));
        self.changed.notify_all();
        let over = self
            .changed
            .wait_while(now, |now| now.tick < end && now.wrong.is_none());
        drop(over.expect("no panic"));
    }

    /// Advances each tick when all buffers are in their predicted states.
    fn lead(&self) {
        let all = || {
            let buffers = self.plan.iter().enumerate();
            buffers.flat_map(|(buffer, course)| {
                (0..3).map(move |state| (course[state], (buffer, state)))
            })
        };
        let ticks: BTreeSet<u64> = all().flat_map(|((begin, end), _)| [begin, end]).collect();
        for tick in ticks {
            let due: BTreeSet<_> = all()
                .filter(|((begin, _), _)| *begin <= tick)
                .map(|(_, which)| which)
                .collect();
            let mut now = self.now();
            now.tick = tick;
            self.changed.notify_all();
            let (mut now, waited) = self
                .changed
                .wait_timeout_while(now, TIMEOUT, |now| {
                    !now.begun.is_superset(&due) && now.wrong.is_none()
                })
                .expect("no panic");
            if waited.timed_out() {
                let missing = due.difference(&now.begun);
                let missing =
                    missing.map(|(buffer, state)| format!("{buffer} is {}", STATES[*state]));
                let missing = missing.collect::<Vec<_>>().join(", ");
                now.wrong = Some(format!(
                    "at tick {tick} it does not come about that buffer {missing}"
                ));
                self.changed.notify_all();
            }
            if now.wrong.is_some() {
                return;
            }
        }
    }
}

struct Source<'a>(&'a [u8], usize, &'a Stage);

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        assert_eq!(into.len(), RECORD, "a buffer is a record");
        if !self.0.is_empty() {
            self.2.play(self.1, 0);
            self.1 += 1;
        }
        self.0.read(into)
    }
}

struct Sink<'a>(&'a Stage);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let number = u64::from_le_bytes(bytes.try_into().expect("a buffer is a record"));
        self.0.play(number as usize, 2);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct StageProcessor<'a>(&'a Stage);

impl BlockProcessor for StageProcessor<'_> {
    type Scratch = ();

    fn new_scratch(&self) {}

    fn execute(
        &self,
        (): &mut (),
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        self.0.play(block.number as usize, 1);
        Ok(out.forward(0)?)
    }
}

fn follow(what: &str, plan: Vec<Course>, order: Order, workers: usize) {
    let bytes = numbered(plan.len() as u64);
    let stage = Stage::new(plan);
    if !order.writes_in_turn() {
        // Buffers that arrive at the same tick would have no defined order.
        let waits = stage.plan.iter().any(|course| course[2].0 > course[1].1);
        assert!(!waits, "{what}: the plan has waits for an output");
    }
    thread::scope(|scope| {
        scope.spawn(|| stage.lead());
        let source = Input::reader(Source(&bytes, 0, &stage));
        let sink = Output::writer(Sink(&stage));
        let options = options(order, workers, 1);
        let report = run_unwatched(&options, vec![source], &StageProcessor(&stage), vec![sink]);
        assert_eq!(report.expect("no error").records, stage.plan.len() as u64);
    });
    let wrong = stage.now.into_inner().expect("no panic").wrong;
    assert_eq!(wrong, None, "{what}, {order:?} with {workers} workers");
}

const BUFFERS: usize = 12;

/// Figures 2 to 4: execution in parallel.
fn parallel(figure: u8, times: Times, workers: usize) -> Vec<Course> {
    let plan = predicted(times, false, workers, BUFFERS);
    for order in [Order::None, Order::Output] {
        follow(&format!("figure {figure}"), plan.clone(), order, workers);
    }
    plan
}

#[test]
fn figure_2_three_workers_keep_reader_and_writer_busy_and_a_fourth_adds_nothing() {
    let times = [1, 1, 1];
    let one = parallel(2, times, 1);
    assert_eq!((end(&one), most(&one, &[0, 1, 2])), (36, 1));
    let two = parallel(2, times, 2);
    assert!(idle(&two, 0) > 0 && idle(&two, 2) > 0);
    let three = parallel(2, times, 3);
    assert_eq!((idle(&three, 0), idle(&three, 2)), (0, 0));
    assert_eq!(end(&three), 14);
    assert_eq!(parallel(2, times, 4), three);
}

#[test]
fn figure_3_three_workers_are_too_few_for_a_long_execution_and_five_are_enough() {
    let times = [1, 3, 1];
    let three = parallel(3, times, 3);
    assert!(idle(&three, 0) > 0 && idle(&three, 2) > 0);
    let five = parallel(3, times, 5);
    assert_eq!((idle(&five, 0), idle(&five, 2)), (0, 0));
    // While three execute, one reads and one writes.
    assert_eq!((most(&five, &[1]), most(&five, &[0, 1, 2])), (3, 5));
    assert_eq!(end(&five), 16);
    assert_eq!(parallel(3, times, 6), five);
}

#[test]
fn figure_4_a_short_execution_needs_three_workers_and_two_leave_reader_and_writer_idle() {
    let times = [4, 1, 4];
    let two = parallel(4, times, 2);
    assert!(idle(&two, 0) > 0 && idle(&two, 2) > 0);
    let three = parallel(4, times, 3);
    assert_eq!((idle(&three, 0), idle(&three, 2)), (0, 0));
    assert_eq!(parallel(4, times, 4), three);
}

#[test]
fn figure_5_execution_in_turn_is_never_idle_and_more_workers_add_nothing() {
    let times = [1, 3, 1];
    for workers in [3, 4, 9] {
        let plan = predicted(times, true, workers, BUFFERS);
        for order in [Order::Execution, Order::Both] {
            follow("figure 5", plan.clone(), order, workers);
        }
        assert_eq!((idle(&plan, 1), most(&plan, &[1])), (0, 1));
        assert_eq!(end(&plan), 38);
        assert!(idle(&plan, 2) > 0);
    }
}
