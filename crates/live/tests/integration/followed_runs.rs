//! Followed signals whose clock starts anew.

use std::ops::Range;
use std::path::Path;
use std::thread::{scope, sleep, spawn};
use std::time::Duration;

use isochrony_flow::arrow::RecordBatch;
use isochrony_flow::{Catalog, Item, Plan, Recording, SharedRecording, SourceEvent, Stat, json};
use isochrony_live::{FollowOptions, FollowedSignal};
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, SignalWriter, Store};
use isochrony_time::{Fixed, Rate, Stamp};
use serde_json::Value;

const SECOND: i64 = 1_000_000_000;
/// 2026-01-01, in ns.
const START: i64 = 1_767_225_600 * SECOND;
const RATE: i64 = 100;

fn append(writer: &SignalWriter, seconds: i64, at_ns: i64) {
    let stamp = Stamp::new(Fixed::from_int(START + at_ns), Fixed::ZERO);
    let samples = vec![1i16; (seconds * RATE) as usize];
    writer.append_at(&samples, &stamp).unwrap();
}

fn create(path: &Path, name: &str) -> (Store, SignalWriter) {
    let store = Store::open(path, Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(RATE as u64).unwrap());
    let writer = store.create(name, &options).unwrap();
    (store, writer)
}

fn follow(path: &Path, name: &str, options: &FollowOptions) -> FollowedSignal {
    let store = Store::open(path, Mode::Read).unwrap();
    FollowedSignal::new(&store, store.signal(name).unwrap(), options).unwrap()
}

fn options(lateness: Option<Duration>) -> FollowOptions {
    let mut options = FollowOptions::default();
    options.lateness = lateness;
    options.while_written = true;
    options
}

fn windows(plan: &Plan) -> Plan {
    let windows = plan.rewindow(RATE as u64).unwrap();
    windows.stats([Stat::Min]).unwrap()
}

/// Seconds without samples, then with samples, and when the latter begin by their own stamp, in ms. Half a millisecond
/// keeps times of two signals apart.
type Part = (i64, i64, i64);

struct Restarts<'a> {
    parts: &'a [Part],
    /// How many parts each commit adds.
    commits: &'a [usize],
    lateness: Option<Duration>,
}

/// The first commit is there before the run.
fn joined(restarts: &Restarts<'_>, params: &Value) -> RecordBatch {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("restarts.iso");
    let (writing, writer) = create(&path, "restarts");
    let mut parts = restarts.parts.iter();
    let mut commit = |count: usize| {
        let mut samples = 0;
        for &(gap, seconds, at_ms) in parts.by_ref().take(count) {
            if gap > 0 {
                writer.append_gap(gap * RATE).unwrap();
            }
            append(&writer, seconds, at_ms * 1_000_000 + 500_000);
            samples += seconds * RATE;
        }
        writing.commit(true).unwrap();
        samples as u64
    };
    let mut found = commit(restarts.commits[0]);

    let other_path = folder.path().join("steady.iso");
    let (other, other_writer) = create(&other_path, "steady");
    append(&other_writer, 120, 0);
    other.commit(true).unwrap();
    other.close().unwrap();
    let other = follow(&other_path, "steady", &options(None));

    let followed = follow(&path, "restarts", &options(restarts.lateness));
    let scan = |followed: &FollowedSignal| {
        windows(&Plan::scan_shared(SharedRecording::new(followed.clone())))
    };
    let catalog = Catalog::standard();
    let join = catalog.get("join").unwrap();
    let params = params.as_object().unwrap().clone();
    let plan = scan(&followed)
        .apply(join, params, &[scan(&other)])
        .unwrap();
    let running = spawn(move || plan.collect().unwrap().rows().cloned().unwrap());
    for &count in &restarts.commits[1..] {
        while followed.counts().samples < found {
            sleep(Duration::from_millis(1));
        }
        // The join passes what it has.
        sleep(Duration::from_millis(200));
        found += commit(count);
    }
    writing.close().unwrap();
    running.join().unwrap()
}

fn join_params() -> [Value; 4] {
    [
        json!({"how": "inner"}),
        json!({"how": "left"}),
        json!({"how": "outer"}),
        json!({"how": "outer", "tolerance": 0.7}),
    ]
}

#[test]
fn what_meets_a_run_that_begins_before_its_silence_does_not_depend_on_when_it_is_found() {
    let parts = [(0, 10, 0), (60, 80, 9_500)];
    let lateness = Some(Duration::from_millis(1));
    for params in join_params() {
        let restarts = |commits| Restarts {
            parts: &parts,
            commits,
            lateness,
        };
        let early = joined(&restarts(&[2]), &params);
        let late = joined(&restarts(&[1, 1]), &params);
        assert_eq!(early, late, "{params}");
        if params == json!({"how": "inner"}) {
            // A row of the first run meets two of the other signal. In the second run those do that begin after the
            // 70 s that the first had reached, and the one before meets the latter of two.
            assert_eq!(early.num_rows(), 2 * 10 + 1 + 2 * 19);
        }
    }
}

#[test]
fn what_meets_runs_that_step_back_does_not_depend_on_how_they_are_committed() {
    // Back by half a window, by a whole one less than a sample, and forward.
    let parts = [
        (0, 5, 0),
        (0, 5, 5_000),
        (0, 7, 9_500),
        (0, 8, 15_505),
        (0, 4, 30_000),
    ];
    let commits = [&[5][..], &[1, 1, 1, 1, 1], &[1, 2, 2], &[2, 3], &[3, 1, 1]];
    for params in join_params() {
        let join = &|commits| {
            let restarts = Restarts {
                parts: &parts,
                commits,
                lateness: None,
            };
            joined(&restarts, &params)
        };
        let results = scope(|scope| {
            let joins = commits.map(|commits| scope.spawn(move || join(commits)));
            joins.map(|join| join.join().unwrap())
        });
        for (result, commits) in results.iter().zip(commits) {
            assert_eq!(*result, results[0], "{params}, {commits:?}");
        }
    }
}

fn next_item(source: &mut dyn isochrony_flow::Source) -> Range<i64> {
    loop {
        match source.pull().unwrap() {
            SourceEvent::Item(item) => return Item::range(&item).unwrap(),
            SourceEvent::End => panic!("it has ended"),
            _ => {}
        }
    }
}

#[test]
fn a_run_is_late_before_what_its_signal_had_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("restarts.iso");
    let (writing, writer) = create(&path, "restarts");
    append(&writer, 10, 0);
    writing.commit(true).unwrap();
    let followed = follow(&path, "restarts", &options(Some(Duration::from_millis(1))));
    let clock = followed.clock().unwrap();
    let mut source = followed.open(None, 1 << 16).unwrap();
    assert_eq!(next_item(&mut *source), 0..1000);
    loop {
        match source.pull().unwrap() {
            SourceEvent::ProgressMark(upto) if upto > 1002 => break,
            _ => sleep(Duration::from_millis(1)),
        }
    }
    append(&writer, 100, 9_500_000_000);
    writing.commit(true).unwrap();
    let first = next_item(&mut *source).start;
    assert!(first > 1002, "{first}");
    let expected = START + first * SECOND / RATE;
    assert_eq!(clock.announced_before(first), Some(expected));
    assert_eq!(clock.announced_before(first - 1), None);

    // Of another pass nothing was given up; of one that begins in the second run nothing was announced.
    drop(source);
    let mut source = followed.open(None, 1 << 16).unwrap();
    assert_eq!(next_item(&mut *source), 0..1000);
    assert_eq!(clock.announced_before(5000), Some(START + 10 * SECOND));
    drop(source);
    let mut source = followed.open(Some(1500..2000), 1 << 16).unwrap();
    assert_eq!(next_item(&mut *source), 1500..2000);
    assert_eq!(clock.announced_before(1600), None);
}
