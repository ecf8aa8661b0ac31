//! Tasklets over real stores: outputs, journals, refusals and resumption.

mod concurrent_runs;
mod in_memory;
mod killed;
mod refusals;
mod resume;
mod signal_state;
mod tuned;

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Scratch, Signal, Store};
use isochrony_tasklets::{
    ExecutionFailure, Executor, ExecutorOptions, OrderPolicy, ReturnValue, SignalRange, Tasklet,
    TaskletsReport,
};
use isochrony_time::Rate;

const PART: i64 = 500;
const PARTS: i64 = 40;

fn options() -> CreateOptions {
    CreateOptions::new(DType::I32, Rate::from_hz(1000).unwrap())
}

fn sample(signal: i32, index: i64) -> i32 {
    (index as i32).wrapping_mul(7919) % 10_007 + signal
}

fn recorded(path: &Path) -> Store {
    let store = Store::open(path, Mode::Create).unwrap();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let samples: Vec<i32> = (0..PART * PARTS)
            .map(|index| sample(number as i32, index))
            .collect();
        store
            .create(name, &options())
            .unwrap()
            .append(&samples)
            .unwrap();
    }
    store
        .create("sum", &options())
        .unwrap()
        .append_gap(PART * PARTS)
        .unwrap();
    store.commit(true).unwrap();
    store
}

fn range(part: i64) -> Range<i64> {
    part * PART..(part + 1) * PART
}

type Log = Arc<Mutex<Vec<String>>>;

/// Squares of both recordings in scratch, their sums in the output. Each tasklet calls `before`.
fn adder(
    store: &Store,
    options: ExecutorOptions,
    before: impl Fn(&str) -> Result<(), String> + Clone + Send + Sync + 'static,
) -> (Executor, Vec<Scratch>) {
    let mut executor = Executor::new(options).unwrap();
    let mut room = Vec::new();
    for name in ["a", "b"] {
        let signal = store.signal(name).unwrap();
        let scratch = store.scratch(&self::options()).unwrap();
        scratch.append_gap(PART * PARTS).unwrap();
        for part in 0..PARTS {
            let before = before.clone();
            let square = Tasklet::new(format!("square {name} {part}"), "square", move |context| {
                before(context.name())?;
                let samples = context.input(0)?.counts(0i32)?;
                let squares: Vec<i32> = samples.iter().map(|x| x.wrapping_mul(*x)).collect();
                let middle = squares.len() / 2;
                context.write(0, middle as i64, &squares[middle..])?;
                context.write(0, 0, &squares[..middle])?;
                Ok(ReturnValue::Nothing)
            });
            executor.add(
                square
                    .reads(SignalRange::new(store, &signal, range(part)))
                    .writes(SignalRange::scratch(&scratch, range(part))),
            );
        }
        room.push(scratch);
    }
    let sum = store.signal("sum").unwrap();
    for part in 0..PARTS {
        let before = before.clone();
        let add = Tasklet::new(format!("add {part}"), "add", move |context| {
            before(context.name())?;
            let (a, b) = (
                context.input(0)?.counts(0i32)?,
                context.input(1)?.counts(0i32)?,
            );
            let sums: Vec<i32> = a.iter().zip(&b).map(|(a, b)| a.wrapping_add(*b)).collect();
            context.write(0, 0, &sums)?;
            Ok(ReturnValue::Value(sums[0].into()))
        });
        let add = add
            .reads(SignalRange::scratch(&room[0], range(part)))
            .reads(SignalRange::scratch(&room[1], range(part)));
        executor.add(add.writes(SignalRange::new(store, &sum, range(part))));
    }
    (executor, room)
}

fn expected(index: i64) -> i32 {
    let square = |signal| sample(signal, index).wrapping_mul(sample(signal, index));
    square(0).wrapping_add(square(1))
}

fn check_sums(signal: &Signal) {
    let sums = signal
        .select(0..PART * PARTS)
        .unwrap()
        .counts(-1i32)
        .unwrap();
    let wrong = sums
        .iter()
        .enumerate()
        .find(|(index, sum)| **sum != expected(*index as i64));
    assert_eq!(wrong, None);
    assert!(signal.gaps().is_empty());
}

fn with(workers: usize, scratch: u64) -> ExecutorOptions {
    let mut options = ExecutorOptions::default();
    (options.workers, options.scratch) = (workers, scratch);
    options
}

fn run(executor: &Executor, resume: bool) -> Result<TaskletsReport, Box<ExecutionFailure>> {
    executor.run(resume, &mut |_| true)
}

fn count(report: &TaskletsReport, state: &str) -> usize {
    report
        .tasklets
        .iter()
        .filter(|one| one.state == state)
        .count()
}

#[test]
fn any_number_of_workers_and_any_budget_give_the_same_samples() {
    let least = 2 * PART as u64 * 4;
    for (workers, scratch) in [
        (1, least),
        (1, 1 << 30),
        (2, least),
        (3, 2 * least + 5),
        (8, 1 << 30),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let store = recorded(&folder.path().join("a.iso"));
        let log = Log::default();
        let logged = log.clone();
        let (executor, room) = adder(&store, with(workers, scratch), move |name| {
            logged.lock().unwrap().push(name.into());
            Ok(())
        });
        let report = run(&executor, false).unwrap();
        check_sums(&store.signal("sum").unwrap());
        let mut ran = log.lock().unwrap().clone();
        ran.sort();
        let mut all: Vec<String> = executor
            .tasklets()
            .iter()
            .map(|one| one.name().into())
            .collect();
        all.sort();
        assert_eq!(ran, all);
        assert!(report.peak_scratch <= scratch && report.peak_scratch >= least);
        assert_eq!(
            report
                .workers
                .iter()
                .map(|worker| worker.items)
                .sum::<u64>(),
            all.len() as u64
        );
        assert_eq!(
            report.tasklets.last().unwrap().value(),
            Some(expected(range(PARTS - 1).start).into())
        );
        for scratch in room {
            assert_eq!(scratch.signal().unwrap().sample_count(), 0);
        }
        let reader = Store::open(store.path(), Mode::Read).unwrap();
        check_sums(&reader.signal("sum").unwrap());
    }
}

#[test]
fn outputs_are_read_through_the_writing_store_for_any_handle() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let mut executor = Executor::new(with(2, 0)).unwrap();
    let read = Tasklet::new("read", "f", |context| {
        let samples = context.input(0)?.counts(-1i32)?;
        Ok(ReturnValue::Value(samples[9].into()))
    });
    executor.add(read.reads(SignalRange::new(
        &reader,
        &reader.signal("sum").unwrap(),
        0..10,
    )));
    let write = Tasklet::new("write", "f", |context| {
        context.write(0, 0, &[7; 10])?;
        Ok(ReturnValue::Nothing)
    });
    executor.add(write.writes(SignalRange::new(
        &store,
        &store.signal("sum").unwrap(),
        0..10,
    )));
    let report = run(&executor, false).unwrap();
    assert_eq!(report.tasklets[0].value(), Some(7.into()));
}

#[test]
fn two_runs_at_once_that_write_the_same_signals_do_not_disturb_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let fill = |name: &'static str, store: &Store, inner: Option<Executor>| {
        let mut executor = Executor::new(with(1, 0)).unwrap();
        let inner = inner.map(Mutex::new);
        let fill = Tasklet::new(name, "f", move |context| {
            if let Some(inner) = &inner {
                let refused = inner.lock().unwrap().run(true, &mut |_| true).unwrap_err();
                assert_eq!(refused.error.code(), "journal_in_use");
            }
            context.write(0, 0, &[7; 10])?;
            Ok(ReturnValue::Nothing)
        });
        executor.add(fill.writes(SignalRange::new(
            store,
            &store.signal("sum").unwrap(),
            0..10,
        )));
        executor
    };
    let inner = fill("inner", &store, None);
    run(&fill("outer", &store, Some(inner)), false).unwrap();
    assert_eq!(store.signal("sum").unwrap().sample_count(), 10);
}
