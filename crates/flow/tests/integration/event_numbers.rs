//! Events that several branches add to one signal: numbered by their ends, however the plan is executed.

use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{
    EventSink, Plan, Recording, RunOptions, Segments, SharedRecording, SignalLocation,
    StoredRecording, operators::ToRanges,
};
use isochrony_segment::SigSeg;
use proptest::prelude::*;
use serde_json::json;

use crate::common::made::{Discontinuity, Made, history};
use crate::common::plans::{Step, named, plan};

/// Kind, range and fields, in the order of their numbers.
type Events = Vec<(String, Range<i64>, String)>;

const KINDS: [&str; 4] = ["loud", "range", "wide", "first"];

#[derive(Debug, Clone)]
struct Branches {
    windows: (u64, u64),
    wide: (u64, u64),
    least: i64,
    join: u64,
    /// Windows after which one branch ends.
    limit: Option<u64>,
    /// Before all of it, which then runs in stages.
    filter: bool,
}

impl Branches {
    fn plans(&self, source: &Plan, made: &Made) -> Vec<Plan> {
        let to = |kind: &str| EventSink::new(SignalLocation::new(&made.store, "stn/p"), kind);
        let source = match self.filter {
            true => {
                let low = json!({"band": "lowpass", "cutoff_hz": 10.0, "order": 2});
                named(source, &("iir", low)).unwrap()
            }
            false => source.clone(),
        };
        let windows = |(window, hop)| source.rewindow_every(window, hop).unwrap();
        let above = |least: i64| Expr::input().max().gt(least);
        let peak = Expr::input().max();
        let loud = windows(self.windows).filter(&above(self.least)).unwrap();
        let joined = json!({"join": self.join}).as_object().unwrap().clone();
        let ranges = loud.then::<ToRanges>(joined).unwrap();
        let wide = windows(self.wide).filter(&above(2 * self.least)).unwrap();
        let mut plans = vec![
            loud.sink(to("loud").computed("peak", peak)).unwrap(),
            ranges.sink(to("range")).unwrap(),
            wide.sink(to("wide").value("by", json!("test"))).unwrap(),
        ];
        if let Some(limit) = self.limit {
            let first = plan(windows(self.windows), &[Step::Limit(limit)]);
            plans.push(first.sink(to("first")).unwrap());
        }
        plans
    }
}

fn branches() -> impl Strategy<Value = Branches> {
    let windows = || (1u64..20, 1u64..25);
    let others = (
        0i64..280,
        0u64..30,
        prop::option::of(1u64..5),
        any::<bool>(),
    );
    (windows(), windows(), others).prop_map(|(windows, wide, (least, join, limit, filter))| {
        Branches {
            windows,
            wide,
            least,
            join,
            limit,
            filter,
        }
    })
}

fn events(
    history: &[(usize, Discontinuity)],
    branches: &Branches,
    source: impl Fn(&Made) -> SharedRecording,
    segment: u64,
    options: &RunOptions<'_>,
) -> Events {
    let made = Made::new(history);
    let source = Plan::scan_part(source(&made), None, segment);
    Plan::run_all(&branches.plans(&source, &made), options).unwrap();
    let signal = made.signal();
    let mut found: Vec<_> = signal.events().cloned().collect();
    found.sort_by_key(|event| event.id);
    assert!(!made.store.has_pending());
    let found = found.into_iter();
    found
        .map(|event| (event.kind, event.start..event.end, event.fields))
        .collect()
}

fn stored(made: &Made) -> SharedRecording {
    SharedRecording::new(made.stored())
}

/// The same samples and clock, as segments of their own.
fn in_memory(made: &Made) -> SharedRecording {
    let recording: StoredRecording = made.stored();
    let stream = recording.port().stream_id().unwrap();
    let stretches = made.stretches.iter();
    let segments = stretches.map(|(first, samples)| SigSeg::from_slice(samples, *first, stream));
    let segments = Segments::new(segments.map(Result::unwrap)).unwrap();
    SharedRecording::new(segments.with_clock_of(&made.signal()))
}

fn gaps() -> impl Strategy<Value = Vec<(usize, Discontinuity)>> {
    let stretch = (1usize..120, (1i64..40).prop_map(Discontinuity::Gap));
    prop::collection::vec(stretch, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn events_of_several_branches_are_numbered_by_their_ends(
        history in history(), branches in branches(), segments in (1u64..90, 1u64..90), task in 2u64..400,
        workers in 2usize..4, shuffle in prop::option::of(1u64..1000),
    ) {
        let mut options = RunOptions::default();
        let one = events(&history, &branches, stored, segments.0, &options);
        let place = |(kind, range, _): &(String, Range<i64>, String)| {
            (range.end, KINDS.iter().position(|one| one == kind).unwrap())
        };
        prop_assert!(one.is_sorted_by_key(place), "{one:?}");
        let other = events(&history, &branches, stored, segments.1, &options);
        prop_assert_eq!(&other, &one, "other segments");
        (options.workers, options.task) = (workers, task);
        options.stages.helpers_after_us = 0;
        options.stages.shuffle = shuffle;
        let many = events(&history, &branches, stored, segments.0, &options);
        prop_assert_eq!(&many, &one, "{} workers", workers);
    }

    #[test]
    fn events_of_segments_in_memory_are_numbered_as_those_of_what_is_stored(
        history in gaps(), branches in branches(), segments in (1u64..90, 1u64..90), workers in 1usize..4,
    ) {
        let mut options = RunOptions::default();
        let one = events(&history, &branches, stored, segments.0, &options);
        options.workers = workers;
        options.stages.helpers_after_us = 0;
        let memory = events(&history, &branches, in_memory, segments.1, &options);
        prop_assert_eq!(memory, one);
    }
}

/// Two recordings of other clocks: events are in the order of their civil times.
#[test]
fn events_of_two_recordings_are_numbered_in_the_order_of_their_times() {
    let history = [(100, Discontinuity::Gap(20)), (100, Discontinuity::Gap(1))];
    let run = |segment: u64, workers: usize| {
        let (made, other) = (Made::new(&history), Made::new(&history[..1]));
        let to = |kind: &str| EventSink::new(SignalLocation::new(&made.store, "stn/p"), kind);
        let windows = |of: &Made, window: u64| {
            let scan = Plan::scan_part(stored(of), None, segment);
            scan.rewindow(window).unwrap()
        };
        let here = windows(&made, 10).sink(to("here")).unwrap();
        let there = windows(&other, 15).sink(to("there")).unwrap();
        let mut options = RunOptions::default();
        options.workers = workers;
        Plan::run_all(&[here, there], &options).unwrap();
        let signal = made.signal();
        let mut found: Vec<_> = signal.events().cloned().collect();
        found.sort_by_key(|event| event.id);
        let found = found.into_iter();
        found
            .map(|event| (event.end, event.kind))
            .collect::<Vec<_>>()
    };
    let one = run(7, 1);
    assert_eq!(one.len(), 20 + 6);
    assert!(one.is_sorted(), "{one:?}");
    for (segment, workers) in [(1, 1), (64, 1), (7, 2), (1000, 3)] {
        assert_eq!(run(segment, workers), one, "{segment}, {workers} workers");
    }
}

/// A sink that has ended, or that gets nothing, holds no other up: what waits would have no end.
#[test]
fn a_branch_that_has_ended_does_not_hold_up_the_events_of_others() {
    let made = Made::new(&[(100_000, Discontinuity::Gap(1))]);
    let to = |kind: &str| EventSink::new(SignalLocation::new(&made.store, "stn/p"), kind);
    let windows = Plan::scan_part(stored(&made), None, 100)
        .rewindow(2)
        .unwrap();
    let others = Plan::scan_part(stored(&made), None, 100)
        .rewindow(7)
        .unwrap();
    let first = plan(others, &[Step::Limit(1)]).sink(to("first")).unwrap();
    let block = plan(windows.sink(to("block")).unwrap(), &[Step::Limit(1)]);
    let never = windows.filter(&Expr::input().max().gt(10_000)).unwrap();
    let all = windows.sink(to("all")).unwrap();
    let mut options = RunOptions::default();
    // Waiting events would take some 9 MB.
    options.memory = 1 << 20;
    let plans = [first, block, never.sink(to("never")).unwrap(), all];
    Plan::run_all(&plans, &options).unwrap();
    let signal = made.signal();
    let of = |kind: &str| signal.events().filter(|event| event.kind == kind).count();
    assert_eq!(["first", "never", "all"].map(of), [1, 0, 50_000]);
}

/// A sink that has ended takes part in a jump back, too.
#[test]
fn a_branch_that_has_ended_does_not_hold_up_events_of_ranges_that_go_back() {
    let made = Made::new(&[(100_000, Discontinuity::Gap(1))]);
    let to = |kind: &str| EventSink::new(SignalLocation::new(&made.store, "stn/p"), kind);
    let back = vec![50_000..100_000, 0..50_000];
    let source = SharedRecording::new(made.stored().ranges(back));
    let windows = Plan::scan_part(source, None, 100).rewindow(2).unwrap();
    let block = plan(windows.sink(to("block")).unwrap(), &[Step::Limit(1)]);
    let all = windows.sink(to("all")).unwrap();
    let mut options = RunOptions::default();
    // Waiting events of the second range would take some 4 MB.
    options.memory = 1 << 20;
    Plan::run_all(&[block, all], &options).unwrap();
    let signal = made.signal();
    let all = signal.events().filter(|event| event.kind == "all").count();
    assert_eq!(all, 50_000);
}

/// Events wait for a range that is open, and count against the memory.
#[test]
fn events_that_wait_for_an_open_range_count_against_the_memory() {
    let made = Made::new(&[(100_000, Discontinuity::Gap(1))]);
    let to = |kind: &str| EventSink::new(SignalLocation::new(&made.store, "stn/p"), kind);
    let windows = Plan::scan_part(stored(&made), None, 100)
        .rewindow(2)
        .unwrap();
    let joined = windows.then::<ToRanges>(serde_json::Map::new()).unwrap();
    let plans = [
        joined.sink(to("range")).unwrap(),
        windows.sink(to("all")).unwrap(),
    ];
    let mut options = RunOptions::default();
    options.memory = 1 << 20;
    let error = Plan::run_all(&plans, &options).unwrap_err();
    assert_eq!(error.code(), "memory_cap", "{error}");
    options.memory = 64 << 20;
    Plan::run_all(&plans, &options).unwrap();
    let signal = made.signal();
    let range = signal.events().find(|event| event.kind == "range").unwrap();
    assert_eq!((range.start, range.end), (0, 100_000));
    // It ends with the last window, whose sink comes later.
    let behind = signal.events().filter(|event| event.id > range.id);
    assert_eq!(behind.map(|event| event.end).collect::<Vec<_>>(), [100_000]);
}

/// A long text is a part of each event that waits.
#[test]
fn fields_of_events_that_wait_count_with_their_length() {
    let code = |text: &str| {
        let made = Made::new(&[(2_000, Discontinuity::Gap(1))]);
        let to = |kind: &str| EventSink::new(SignalLocation::new(&made.store, "stn/p"), kind);
        let windows = Plan::scan_part(stored(&made), None, 100)
            .rewindow(2)
            .unwrap();
        let joined = windows.then::<ToRanges>(serde_json::Map::new()).unwrap();
        let all = to("all").value("note", json!([text, {"text": text}]));
        let plans = [
            joined.sink(to("range")).unwrap(),
            windows.sink(all).unwrap(),
        ];
        let mut options = RunOptions::default();
        options.memory = 4 << 20;
        Plan::run_all(&plans, &options)
            .err()
            .map(|error| error.code())
    };
    assert_eq!(code("short"), None);
    assert_eq!(code(&"long".repeat(1_000)), Some("memory_cap"));
}
