//! Tasklets over real stores: what is written, kept, refused, and gone on with.

use std::io::Write;
use std::ops::Range;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Scratch, Signal, Store, VerifyOptions, verify};
use isochrony_tasklets::{Executor, Failure, Options, Order, Part, Report, Returned, Tasklet};
use isochrony_time::Rate;

const PART: i64 = 500;
const PARTS: i64 = 40;

fn options() -> CreateOptions {
    CreateOptions::new(DType::I32, Rate::from_hz(1000).unwrap())
}

fn sample(signal: i32, index: i64) -> i32 {
    (index as i32).wrapping_mul(7919) % 10_007 + signal
}

/// A store with two recordings and room for their sum.
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

/// Squares of both recordings to scratch, their sums to the output: as the FFT Adder. `before` is called in each tasklet.
fn adder(
    store: &Store,
    options: Options,
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
                // In two pieces, the later one first.
                context.write(0, middle as i64, &squares[middle..])?;
                context.write(0, 0, &squares[..middle])?;
                Ok(Returned::Nothing)
            });
            executor.add(
                square
                    .reads(Part::new(store, &signal, range(part)))
                    .writes(Part::scratch(&scratch, range(part))),
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
            Ok(Returned::Value(sums[0].into()))
        });
        let add = add
            .reads(Part::scratch(&room[0], range(part)))
            .reads(Part::scratch(&room[1], range(part)));
        executor.add(add.writes(Part::new(store, &sum, range(part))));
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

fn with(workers: usize, scratch: u64) -> Options {
    let mut options = Options::default();
    (options.workers, options.scratch) = (workers, scratch);
    options
}

fn run(executor: &Executor, resume: bool) -> Result<Report, Box<Failure>> {
    executor.run(resume, &mut |_| true)
}

fn count(report: &Report, state: &str) -> usize {
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
                .map(|worker| worker.tasklets)
                .sum::<usize>(),
            all.len()
        );
        assert_eq!(
            report.tasklets.last().unwrap().value,
            Some(expected(range(PARTS - 1).start).into())
        );
        // Scratch is free again, and what was written is committed.
        for scratch in room {
            assert_eq!(scratch.signal().unwrap().sample_count(), 0);
        }
        let reader = Store::open(store.path(), Mode::Read).unwrap();
        check_sums(&reader.signal("sum").unwrap());
    }
}

#[test]
fn a_failure_costs_what_needs_it_and_resuming_does_only_that() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let failing = Arc::new(AtomicUsize::new(1));
    let fails = failing.clone();
    let (executor, _room) = adder(&store, with(2, 1 << 30), move |name| {
        if fails.load(Ordering::Relaxed) == 1 && name == "square b 7" {
            return Err("no luck".into());
        }
        assert!(
            fails.load(Ordering::Relaxed) == 0 || name != "add 9",
            "as a test"
        );
        Ok(())
    });
    let failure = run(&executor, false).unwrap_err();
    assert_eq!(failure.error.code(), "tasklet_failed");
    let said = failure.to_string();
    assert!(said.contains("\"square b 7\" failed: no luck (and 1 others failed); 1 that need what failed were not run"), "{said}");
    let report = failure.report.unwrap();
    let why = |name: &str| {
        report
            .tasklets
            .iter()
            .find(|one| one.name == name)
            .unwrap()
            .why
            .clone()
            .unwrap()
    };
    assert_eq!(why("add 7"), "it needs \"square b 7\", which failed");
    assert_eq!(why("add 9"), "it panicked: as a test");
    assert_eq!(
        (
            count(&report, "failed"),
            count(&report, "not_run"),
            count(&report, "done")
        ),
        (2, 1, 3 * PARTS as usize - 3)
    );
    assert_eq!(
        store
            .signal("sum")
            .unwrap()
            .gaps()
            .iter()
            .map(|gap| gap.range())
            .collect::<Vec<_>>(),
        [range(7), range(9)]
    );

    failing.store(0, Ordering::Relaxed);
    let report = run(&executor, true).unwrap();
    // Two sums, and the scratch that they need again.
    assert_eq!(
        (count(&report, "done"), count(&report, "kept")),
        (6, 3 * PARTS as usize - 6)
    );
    assert_eq!(
        report.notes,
        ["114 of 120 tasklets are kept from an earlier run"]
    );
    check_sums(&store.signal("sum").unwrap());
    assert_eq!(
        report.tasklets[2 * PARTS as usize].value,
        Some(expected(0).into())
    );
    // Once more: nothing is left to do.
    assert_eq!(
        count(&run(&executor, true).unwrap(), "kept"),
        3 * PARTS as usize
    );
    // Without resuming, what is there is not written over.
    let refused = run(&executor, false).unwrap_err();
    assert_eq!(
        (refused.error.code(), refused.report.is_none()),
        ("output_occupied", true)
    );
}

#[test]
fn a_failure_stops_the_rest_if_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let mut options = with(1, 1 << 30);
    (options.keep_going, options.order) = (false, Order::Given);
    let (executor, _room) = adder(&store, options, |name| match name {
        "square a 3" => Err("no luck".into()),
        _ => Ok(()),
    });
    let report = run(&executor, false).unwrap_err().report.unwrap();
    assert_eq!(
        (count(&report, "done"), count(&report, "stopped")),
        (3, 3 * PARTS as usize - 5)
    );
}

#[test]
fn an_interrupted_run_ends_soon_and_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let ran = Arc::new(AtomicUsize::new(0));
    let pressed = Arc::new(AtomicUsize::new(0));
    let (counted, waited) = (ran.clone(), pressed.clone());
    let (executor, _room) = adder(&store, with(2, 1 << 14), move |_| {
        // Whoever comes later waits, so that the interrupt is in time however busy the machine is.
        if counted.fetch_add(1, Ordering::Relaxed) >= 40 {
            std::thread::sleep(Duration::from_millis(20));
            while waited.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    });
    let failure = executor
        .run(false, &mut |progress| {
            let goes_on = progress.tasklets < 30;
            pressed.store(usize::from(!goes_on), Ordering::Relaxed);
            goes_on
        })
        .unwrap_err();
    assert_eq!(failure.error.code(), "interrupted");
    assert!(count(&failure.report.unwrap(), "stopped") > 0);
    let before = ran.load(Ordering::Relaxed);
    let report = run(&executor, true).unwrap();
    check_sums(&store.signal("sum").unwrap());
    assert!(count(&report, "kept") > 0, "{before} had run");
}

#[test]
fn what_changed_is_run_again_with_what_needs_it_and_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let sum = store.signal("sum").unwrap();
    let log = Log::default();
    let made = |function: &str| {
        let mut executor = Executor::new(Options::default()).unwrap();
        for part in 0..3 {
            let log = log.clone();
            let function = if part == 0 { function } else { "fill" };
            let fill = Tasklet::new(format!("fill {part}"), function, move |context| {
                log.lock().unwrap().push(context.name().to_owned());
                context.write(0, 0, &[part; 500])?;
                Ok(Returned::Nothing)
            });
            let fill = fill.writes(Part::new(&store, &sum, range(part.into())));
            executor.add(if part == 2 {
                fill.after("fill 0")
            } else {
                fill
            });
        }
        executor
    };
    run(&made("fill"), true).unwrap();
    log.lock().unwrap().clear();
    let executor = made("fill better");
    assert!(
        executor
            .explain(true)
            .unwrap()
            .contains("note: tasklet \"fill 0\" changed since")
    );
    let report = run(&executor, true).unwrap();
    assert_eq!(*log.lock().unwrap(), ["fill 0", "fill 2"]);
    assert_eq!(report.notes.len(), 2);
    let samples = store
        .signal("sum")
        .unwrap()
        .select(0..3 * PART)
        .unwrap()
        .counts(-1i32)
        .unwrap();
    assert_eq!([samples[0], samples[600], samples[1400]], [0, 1, 2]);
}

#[test]
fn what_was_declared_is_what_must_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let sum = store.signal("sum").unwrap();
    let said = |function: fn(
        &mut isochrony_tasklets::Context<'_>,
    ) -> Result<Returned, isochrony_tasklets::Cause>| {
        let mut executor = Executor::new(Options::default()).unwrap();
        executor.add(Tasklet::new("t", "f", function).writes(Part::new(&store, &sum, 100..200)));
        let said = run(&executor, false).unwrap_err().to_string();
        assert_eq!(store.signal("sum").unwrap().sample_count(), 0);
        said
    };
    let missing = said(|context| {
        context.write(0, 0, &[1; 40])?;
        context.write(0, 60, &[1; 40])?;
        Ok(Returned::Nothing)
    });
    assert!(
        missing.contains("without writing samples 140..160 of sum"),
        "{missing}"
    );
    let beyond = said(|context| {
        context.write(0, 61, &[1; 40])?;
        Ok(Returned::Nothing)
    });
    assert!(
        beyond.contains("its output 0 is 100 samples of 4 bytes"),
        "{beyond}"
    );
    let other = said(|context| {
        context.write(0, 0, &[1.0f32; 100])?;
        Ok(Returned::Nothing)
    });
    assert!(
        other.contains("writes float32 samples, but its output 0 is of int32 samples"),
        "{other}"
    );
    let twice = said(|context| {
        context.write(0, 0, &[1; 100])?;
        context.write(0, 50, &[1; 10])?;
        Ok(Returned::Nothing)
    });
    assert!(twice.contains("already holds"), "{twice}");
}

#[test]
fn what_cannot_be_run_is_refused_before_anything_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let (a, sum) = (store.signal("a").unwrap(), store.signal("sum").unwrap());
    let refused = |tasklets: Vec<Tasklet>, resume: bool| {
        let mut executor = Executor::new(Options::default()).unwrap();
        tasklets
            .into_iter()
            .for_each(|tasklet| executor.add(tasklet));
        let failure = run(&executor, resume).unwrap_err();
        assert!(failure.report.is_none());
        failure.error.code()
    };
    let tasklet = |name: &str| Tasklet::new(name, "f", |_| Ok(Returned::Nothing));
    assert_eq!(
        refused(
            vec![tasklet("t").writes(Part::new(&store, &a, 0..10))],
            false
        ),
        "output_occupied"
    );
    assert_eq!(
        refused(
            vec![tasklet("t").reads(Part::new(&store, &sum, 0..10))],
            false
        ),
        "nobody_writes"
    );
    assert_eq!(
        refused(
            vec![tasklet("t").reads(Part::new(&store, &a, 0..PART * PARTS + 1))],
            false
        ),
        "out_of_bounds"
    );
    assert_eq!(
        refused(vec![tasklet("t").reads(Part::new(&store, &a, 0..10))], true),
        "bad_option"
    );
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    assert_eq!(
        refused(
            vec![tasklet("t").writes(Part::new(&reader, &sum, 0..10))],
            false
        ),
        "not_writable"
    );
    assert_eq!(Executor::new(with(0, 0)).unwrap_err().code(), "bad_option");
}

#[test]
fn what_the_run_writes_is_read_where_it_is_written_whatever_handle_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let store = recorded(&folder.path().join("a.iso"));
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let mut executor = Executor::new(with(2, 0)).unwrap();
    let read = Tasklet::new("read", "f", |context| {
        let samples = context.input(0)?.counts(-1i32)?;
        Ok(Returned::Value(samples[9].into()))
    });
    executor.add(read.reads(Part::new(&reader, &reader.signal("sum").unwrap(), 0..10)));
    let write = Tasklet::new("write", "f", |context| {
        context.write(0, 0, &[7; 10])?;
        Ok(Returned::Nothing)
    });
    executor.add(write.writes(Part::new(&store, &store.signal("sum").unwrap(), 0..10)));
    let report = run(&executor, false).unwrap();
    assert_eq!(report.tasklets[0].value, Some(7.into()));
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
            Ok(Returned::Nothing)
        });
        executor.add(fill.writes(Part::new(store, &store.signal("sum").unwrap(), 0..10)));
        executor
    };
    let inner = fill("inner", &store, None);
    run(&fill("outer", &store, Some(inner)), false).unwrap();
    assert_eq!(store.signal("sum").unwrap().sample_count(), 10);
}

const CHILD: &str = "ISOCHRONY_TASKLETS_CHILD";
const LIMIT: &str = "ISOCHRONY_TASKLETS_LIMIT";

fn child_options() -> Options {
    let mut options = with(2, 1 << 14);
    options.keep_every = Duration::from_millis(15);
    options
}

/// Runs the adder and notes each tasklet that began.
fn child(root: &Path) {
    // So many of them; whoever comes then waits to be killed.
    let limit: usize = std::env::var(LIMIT).unwrap().parse().unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let store = Store::open(root, Mode::ReadWrite).unwrap();
    let log = root.with_extension("log");
    let (executor, _room) = adder(&store, child_options(), move |name| {
        let mut log = std::fs::File::options()
            .append(true)
            .create(true)
            .open(&log)
            .unwrap();
        writeln!(log, "{name}").unwrap();
        std::thread::sleep(Duration::from_millis(2));
        if begun.fetch_add(1, Ordering::Relaxed) >= limit {
            std::thread::sleep(Duration::from_secs(600));
        }
        Ok(())
    });
    run(&executor, true).unwrap();
}

#[test]
fn killed_at_any_time_it_goes_on_until_all_is_there() {
    if let Ok(root) = std::env::var(CHILD) {
        child(Path::new(&root));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut kills, mut kept) = (0u64, 0);
    for history in 0..3u64 {
        let root: PathBuf = folder.path().join(format!("{history}.iso"));
        recorded(&root).close().unwrap();
        let log = root.with_extension("log");
        for life in 0.. {
            assert!(life < 500, "no child came to its end");
            let began = std::fs::read_to_string(&log).map_or(0, |log| log.lines().count());
            let mut process = Command::new(std::env::current_exe().unwrap())
                .args([
                    "--exact",
                    "killed_at_any_time_it_goes_on_until_all_is_there",
                    "--nocapture",
                ])
                .env(CHILD, &root)
                .env(LIMIT, if life == 0 { "60" } else { "1000" })
                .stdout(Stdio::null())
                .spawn()
                .unwrap();
            // Killed once it has begun a few tasklets more: whatever the machine's speed, runs come to their end.
            let more = began + 10 + (life * 7 + history as usize * 13) % 40;
            let status = loop {
                if let Some(status) = process.try_wait().unwrap() {
                    break status;
                }
                if std::fs::read_to_string(&log).map_or(0, |log| log.lines().count()) > more {
                    std::thread::sleep(Duration::from_micros(life as u64 * 977 % 9000));
                    process.kill().unwrap();
                    break process.wait().unwrap();
                }
                std::thread::sleep(Duration::from_millis(1));
            };
            if status.success() {
                break;
            }
            assert_eq!(status.signal(), Some(9), "the child ended by itself");
            kills += 1;
            // What is committed at any time is whole tasklets.
            let store = Store::open(&root, Mode::ReadWrite).unwrap();
            let sum = store.signal("sum").unwrap();
            for part in 0..PARTS {
                let missing = sum.gaps().missing_within(range(part));
                assert!(missing == 0 || missing == PART, "a part of {part}");
                if missing == 0 {
                    let sums = sum.select(range(part)).unwrap().counts(-1i32).unwrap();
                    assert_eq!(sums[3], expected(range(part).start + 3));
                }
            }
            // Scratch does not outlive its process.
            assert_eq!(
                std::fs::read_dir(root.join(".isochrony/tmp"))
                    .unwrap()
                    .count(),
                0
            );
        }
        let store = Store::open(&root, Mode::ReadWrite).unwrap();
        check_sums(&store.signal("sum").unwrap());
        let (executor, _room) = adder(&store, child_options(), |_| {
            Err("nothing is left to do".into())
        });
        kept += count(&run(&executor, true).unwrap(), "kept");
        store.close().unwrap();
        let report = verify(&root, &VerifyOptions::default()).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
    assert!(kills >= 3, "{kills} kills");
    assert_eq!(kept, 3 * 3 * PARTS as usize);
}
