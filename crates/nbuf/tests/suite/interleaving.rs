//! The paper's figures 2 to 5 as predictions: how long a run takes whose reading, executing and writing take a known time.
//!
//! A model of a few lines says when each buffer is in which state. Its times are lower bounds that a run keeps to whatever
//! else the machine does. There is no upper bound that it keeps to: what happens at the same time is seen in the trace.

use std::io::{self, Read, Write};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{RECORD, ignored, numbered, options};
use isochrony_nbuf::{Block, Cause, Input, Options, Order, Out, Output, Process, State, Visit};

/// Milliseconds in each state.
#[derive(Clone, Copy)]
struct Times {
    read: u64,
    execute: u64,
    write: u64,
}

/// Milliseconds for so many buffers: each state of a buffer begins when its worker is there and, where one at a time is
/// inside, the buffer before has left.
fn predicted(times: Times, in_turn: bool, workers: usize, buffers: usize) -> u64 {
    let mut workers = vec![0; workers];
    let (mut read, mut executed, mut written) = (0, 0, 0);
    for _ in 0..buffers {
        let worker = workers.iter_mut().min().expect("there is one");
        read = read.max(*worker) + times.read;
        let begin = if in_turn { executed.max(read) } else { read };
        let end = begin + times.execute;
        executed = executed.max(end);
        written = written.max(end) + times.write;
        *worker = written;
    }
    written
}

struct SlowSource<'a>(&'a [u8], Duration);

impl Read for SlowSource<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.0.is_empty() {
            sleep(self.1);
        }
        self.0.read(into)
    }
}

struct SlowSink(Duration);

impl Write for SlowSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        sleep(self.0);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Slow(Duration);

impl Process for Slow {
    type Worker = ();

    fn worker(&self) {}

    fn execute(&self, (): &mut (), _: &Block<'_>, out: &mut Out<'_>) -> Result<(), Cause> {
        sleep(self.0);
        Ok(out.forward(0)?)
    }
}

/// Whether a buffer was in one state while another was in the other.
fn together(visits: &[Visit], one: State, other: State) -> bool {
    visits.iter().any(|a| {
        visits.iter().any(|b| {
            let differ = a.buffer != b.buffer && (a.state, b.state) == (one, other);
            differ && a.start < b.end && b.start < a.end
        })
    })
}

/// Milliseconds that a run took, and its visits.
fn measured(times: Times, order: Order, workers: usize, buffers: usize) -> (u64, Vec<Visit>) {
    let bytes = numbered(buffers as u64);
    let ms = Duration::from_millis;
    let options = Options {
        trace: 100,
        ..options(order, workers, 1)
    };
    let source = Input::reader(SlowSource(&bytes, ms(times.read)));
    let sink = Output::writer(SlowSink(ms(times.write)));
    let report =
        ignored(&options, vec![source], &Slow(ms(times.execute)), vec![sink]).expect("no error");
    let mut visits: Vec<_> = report
        .workers
        .iter()
        .flat_map(|worker| worker.trace.clone())
        .collect();
    assert_eq!(visits.len(), 3 * buffers);
    visits.sort_by_key(|visit| visit.start);
    // Nobody reads while another reads, and buffers are numbered as they are read.
    let read: Vec<_> = visits
        .iter()
        .filter(|visit| visit.state == State::Read)
        .collect();
    assert!(read.iter().map(|visit| visit.buffer).eq(0..buffers as u64));
    assert_eq!(bytes.len(), buffers * RECORD);
    (report.elapsed.as_millis() as u64, visits)
}

#[test]
fn the_papers_interleavings_come_about() {
    const BUFFERS: usize = 12;
    let equal = Times {
        read: 10,
        execute: 10,
        write: 10,
    };
    let heavy = Times {
        read: 10,
        execute: 30,
        write: 10,
    };
    let light = Times {
        read: 20,
        execute: 5,
        write: 20,
    };
    // Figure 2: three workers keep reader and writer busy, a fourth adds nothing.
    assert_eq!(predicted(equal, false, 3, BUFFERS), 140);
    assert_eq!(predicted(equal, false, 4, BUFFERS), 140);
    assert_eq!(predicted(equal, false, 1, BUFFERS), 360);
    // Figure 3: three are too few for a long execution, five are enough.
    assert_eq!(predicted(heavy, false, 5, BUFFERS), 160);
    assert!(predicted(heavy, false, 3, BUFFERS) > 200);
    // Figure 4: with a short one, three are enough, and two are not.
    assert_eq!(predicted(light, false, 3, BUFFERS), 265);
    assert!(predicted(light, false, 2, BUFFERS) > 265);
    // Figure 5: in turn, execution is all that counts, whoever waits.
    assert_eq!(predicted(heavy, true, 3, BUFFERS), 380);
    assert_eq!(predicted(heavy, true, 9, BUFFERS), 380);

    for (figure, times, order, workers) in [
        (2, equal, Order::Output, 1),
        (2, equal, Order::Output, 3),
        (3, heavy, Order::Output, 3),
        (3, heavy, Order::Output, 5),
        (4, light, Order::Output, 2),
        (4, light, Order::Output, 3),
        (5, heavy, Order::Both, 3),
    ] {
        let least = predicted(times, order.executes_in_turn(), workers, BUFFERS);
        let (took, visits) = measured(times, order, workers, BUFFERS);
        assert!(
            took >= least,
            "figure {figure}: {took} ms, which cannot be less than {least}"
        );
        let met = |one, other| together(&visits, one, other);
        let here = format!("figure {figure} with {workers} workers");
        if workers == 1 {
            assert!(!met(State::Read, State::Execute), "{here}");
            assert!(!met(State::Read, State::Write), "{here}");
            continue;
        }
        // Somewhere in twelve buffers, on any machine.
        assert!(met(State::Read, State::Execute), "{here}");
        if times.execute <= times.read {
            assert!(met(State::Read, State::Write), "{here}");
        }
        // That executions in turn do not meet is what their lower bound says.
        if times.execute > times.read && !order.executes_in_turn() {
            assert!(met(State::Execute, State::Execute), "{here}");
        }
    }
}
