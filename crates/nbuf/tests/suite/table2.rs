//! What each of the four configurations of table 2 permits and forbids.
//!
//! A buffer awaits permitted events, with a timeout. For forbidden ones, all workers have opportunity and time.

use std::io::{self, Read, Write};
use std::sync::{Condvar, Mutex};
use std::thread::sleep;
use std::time::Duration;

use crate::common::{RECORD, TIMEOUT, numbered, numbers, options, run_unwatched};
use isochrony_nbuf::{BlockProcessor, BufferOutput, Cause, Input, Order, Output, RecordBlock};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Read(u64),
    Begun(u64),
    /// Executed and about to be written.
    Arrived(u64),
    Written(u64),
}

#[derive(Default)]
struct Events {
    all: Mutex<Vec<Event>>,
    changed: Condvar,
}

impl Events {
    fn note(&self, event: Event) {
        self.all.lock().expect("no panic").push(event);
        self.changed.notify_all();
    }

    fn wait(&self, event: Event) -> Result<(), Cause> {
        let all = self.all.lock().expect("no panic");
        let waited = self
            .changed
            .wait_timeout_while(all, TIMEOUT, |all| !all.contains(&event));
        if waited.expect("no panic").1.timed_out() {
            return Err(format!("waited {TIMEOUT:?} in vain for {event:?}").into());
        }
        Ok(())
    }

    fn happened(&self, event: Event) -> bool {
        self.all.lock().expect("no panic").contains(&event)
    }
}

struct Source<'a>(&'a [u8], &'a Events);

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if let Some(record) = self.0.get(..RECORD) {
            self.1.note(Event::Read(numbers(record)[0]));
        }
        self.0.read(into)
    }
}

struct Sink<'a>(&'a Events);

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for number in numbers(bytes) {
            self.0.note(Event::Written(number));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// While a buffer is executed, and before it is written.
struct Hooks<'a, E, A> {
    events: &'a Events,
    executing: E,
    arriving: A,
}

impl<E, A> BlockProcessor for Hooks<'_, E, A>
where
    E: Fn(u64) -> Result<(), Cause> + Sync,
    A: Fn(u64) -> Result<(), Cause> + Sync,
{
    type Scratch = u64;

    fn new_scratch(&self) -> u64 {
        0
    }

    fn execute(
        &self,
        mine: &mut u64,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        *mine = block.number;
        self.events.note(Event::Begun(block.number));
        (self.executing)(block.number)?;
        Ok(out.forward(0)?)
    }

    fn trailing_output<'w>(&self, mine: &'w u64) -> [&'w [u8]; 2] {
        self.events.note(Event::Arrived(*mine));
        if let Err(why) = (self.arriving)(*mine) {
            panic!("{why}");
        }
        [&[], &[]]
    }
}

/// Returns the orders of execution and writing.
fn carried(
    order: Order,
    workers: usize,
    buffers: u64,
    events: &Events,
    executing: impl Fn(u64) -> Result<(), Cause> + Sync,
    arriving: impl Fn(u64) -> Result<(), Cause> + Sync,
) -> (Vec<u64>, Vec<u64>) {
    let bytes = numbered(buffers);
    let hooks = Hooks {
        events,
        executing,
        arriving,
    };
    let input = Input::reader(Source(&bytes, events));
    let output = Output::writer(Sink(events));
    let done = run_unwatched(
        &options(order, workers, 1),
        vec![input],
        &hooks,
        vec![output],
    );
    done.unwrap_or_else(|failure| panic!("{order:?}: {failure}"));
    let all = events.all.lock().expect("no panic");
    let begun = all.iter().filter_map(|event| match event {
        Event::Begun(number) => Some(*number),
        _ => None,
    });
    let written = all.iter().filter_map(|event| match event {
        Event::Written(number) => Some(*number),
        _ => None,
    });
    (begun.collect(), written.collect())
}

fn nothing(_: u64) -> Result<(), Cause> {
    Ok(())
}

fn invite() {
    sleep(Duration::from_millis(30));
}

#[test]
fn figures_6_and_8_all_workers_execute_at_once() {
    const WORKERS: u64 = 4;
    for order in [Order::None, Order::Output] {
        let events = Events::default();
        let all = |number: u64| {
            let group = number - number % WORKERS;
            (group..group + WORKERS).try_for_each(|other| events.wait(Event::Begun(other)))
        };
        let (mut begun, _) = carried(order, WORKERS as usize, 3 * WORKERS, &events, all, nothing);
        begun.sort_unstable();
        assert!(begun.into_iter().eq(0..3 * WORKERS), "{order:?}");
    }
}

#[test]
fn figure_6_a_long_execution_is_overtaken_by_all_other_buffers() {
    let events = Events::default();
    let last = |number| match number {
        0 => (1..20).try_for_each(|other| events.wait(Event::Written(other))),
        _ => Ok(()),
    };
    let (_, written) = carried(Order::None, 2, 20, &events, last, nothing);
    assert!(written.into_iter().eq((1..20).chain([0])));
}

#[test]
fn figures_6_and_9_what_is_executed_is_overtaken_before_it_is_written() {
    for order in [Order::None, Order::Execution] {
        let events = Events::default();
        let last = |number| match number {
            0 => (1..20).try_for_each(|other| events.wait(Event::Written(other))),
            _ => Ok(()),
        };
        let (begun, written) = carried(order, 2, 20, &events, nothing, last);
        assert!(written.into_iter().eq((1..20).chain([0])), "{order:?}");
        if order == Order::Execution {
            assert!(begun.into_iter().eq(0..20));
        }
    }
}

#[test]
fn figures_7_and_9_one_executes_at_a_time_in_the_order_of_reading() {
    const WORKERS: u64 = 4;
    const BUFFERS: u64 = 20;
    for order in [Order::Execution, Order::Both] {
        let events = Events::default();
        let alone = |number: u64| {
            // The others would execute their buffers if they could.
            let others = number + 1..(number + WORKERS).min(BUFFERS);
            others
                .clone()
                .try_for_each(|other| events.wait(Event::Read(other)))?;
            if number.is_multiple_of(WORKERS) {
                invite();
            }
            let too_early = others
                .clone()
                .find(|other| events.happened(Event::Begun(*other)));
            match too_early {
                Some(other) => Err(format!("{other} executes while {number} does").into()),
                None => Ok(()),
            }
        };
        // A worker reads only after it has written, so no buffer may be held back.
        let (begun, _) = carried(order, WORKERS as usize, BUFFERS, &events, alone, nothing);
        assert!(begun.into_iter().eq(0..BUFFERS), "{order:?}");
    }
}

#[test]
fn figures_7_and_8_what_is_done_last_first_is_written_in_the_order_of_reading() {
    const WORKERS: u64 = 3;
    for order in [Order::Output, Order::Both] {
        let events = Events::default();
        // The last of three reaches the output first.
        let reversed = |number: u64| {
            if number % WORKERS < WORKERS - 1 {
                events.wait(Event::Arrived(number + 1))?;
                invite();
            }
            Ok(())
        };
        let (_, written) = carried(
            order,
            WORKERS as usize,
            4 * WORKERS,
            &events,
            nothing,
            reversed,
        );
        assert!(written.into_iter().eq(0..4 * WORKERS), "{order:?}");
    }
}
