//! Joins by civil time of live sources with restarting clocks, against nested loops over all rows.
//!
//! A live clock extrapolates beyond the last sample with a small error, so a new run may begin before the time expected
//! of its first index.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Waker;

use isochrony_flow::{Break, RangeOrigin, RunError};
use isochrony_time::RunId;

use super::*;

const MS: i64 = 1_000_000;

static NEXT_TIMEBASE: AtomicU32 = AtomicU32::new(1_000);

#[derive(Debug, Clone, Copy)]
struct ClockRun {
    first: i64,
    zero: i64,
}

#[derive(Debug)]
struct LiveClock {
    period: i64,
    known: Mutex<(Vec<ClockRun>, i64)>,
}

fn time_in(runs: &[ClockRun], period: i64, index: i64) -> i64 {
    let after = runs.partition_point(|run| run.first <= index);
    let run = runs[after.saturating_sub(1)];
    run.zero + (index - run.first) * period
}

impl Clock for LiveClock {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let (runs, error) = &*known;
        for (out, &index) in out.iter_mut().zip(indices) {
            *out = match runs.is_empty() {
                true => i64::MIN,
                false => time_in(runs, self.period, index) + error,
            };
        }
        Ok(())
    }
}

#[derive(Debug, Clone)]
enum LiveEvent {
    Samples(Range<i64>),
    Start(i64, Option<Break>),
    Mark(i64),
    Run(ClockRun),
    End,
}

#[derive(Debug, Clone)]
struct Feed {
    id: u32,
    rate: i64,
    window: u64,
    hop: u64,
    runs: Vec<ClockRun>,
    ranges: Vec<(usize, Range<i64>)>,
    events: Vec<(LiveEvent, i64)>,
}

#[derive(Debug, Clone, Copy)]
struct Restart {
    /// Start of the next run minus the expected time of its first index, in ns.
    step: i64,
    /// Samples that the source gives up before.
    silent: i64,
}

#[derive(Debug, Clone)]
struct RunShape {
    /// Lengths of packets and of the silence after each.
    packets: Vec<(i64, i64)>,
    restart: Restart,
}

fn a_restart(back: bool) -> impl Strategy<Value = Restart> {
    let hundredths = |of: Range<i64>| of.prop_map(|step| step * 10 * MS + MS / 10);
    let forward = hundredths(0..500);
    let step = match back {
        // By less than the clock's error, by fractions of a sample, by samples, by windows.
        true => prop_oneof![
            forward,
            -9_000i64..9_000,
            hundredths(-9..0),
            hundredths(-300..0)
        ]
        .boxed(),
        false => prop_oneof![forward, 0i64..9_000].boxed(),
    };
    let silent = prop_oneof![Just(0), Just(0), 1i64..30];
    (step, silent).prop_map(|(step, silent)| Restart { step, silent })
}

fn a_feed(id: u32, back: bool) -> impl Strategy<Value = Feed> {
    let silent = prop_oneof![4 => Just(0), 1 => 1i64..30];
    let packets = prop::collection::vec((1i64..12, silent), 0..8);
    let shape =
        (packets, a_restart(back)).prop_map(|(packets, restart)| RunShape { packets, restart });
    let errors = prop::collection::vec(-5_000i64..5_000, 1..20);
    let shapes = prop::collection::vec(shape, 1..6);
    let rate = prop::sample::select(vec![10i64, 20]);
    (rate, 1u64..8, 1u64..8, 0i64..300, shapes, errors).prop_map(
        move |(rate, window, hop, zero, shapes, errors)| {
            feed(id, rate, (window, hop), zero, &shapes, &errors)
        },
    )
}

/// Times never coincide: multiples of 10 ms, and 3 ms more; each run adds 0.1 ms.
fn feed(
    id: u32,
    rate: i64,
    (window, hop): (u64, u64),
    zero: i64,
    shapes: &[RunShape],
    errors: &[i64],
) -> Feed {
    let period = 1_000 * MS / rate;
    let mut zero = zero * 10 * MS + if id == 1 { 0 } else { 3 * MS };
    let (mut runs, mut ranges, mut events) = (Vec::new(), Vec::new(), Vec::new());
    let mut next = 0;
    for (nth, shape) in shapes.iter().enumerate() {
        let run = ClockRun { first: next, zero };
        events.push(LiveEvent::Run(run));
        let why = (nth > 0).then(|| Break::ClockStep {
            old: RunId(nth as u32 - 1),
            new: RunId(nth as u32),
        });
        events.push(LiveEvent::Start(next, why));
        runs.push(run);
        let mut last: Option<Range<i64>> = None;
        for &(length, silent) in &shape.packets {
            let packet = next..next + length;
            next = packet.end;
            events.push(LiveEvent::Samples(packet.clone()));
            last = match last {
                Some(last) => Some(last.start..packet.end),
                None => Some(packet),
            };
            if silent > 0 {
                ranges.extend(last.take().map(|range| (nth, range)));
                next = fall_silent(next, silent, &mut events);
                events.push(LiveEvent::Start(next, Some(Break::Dropped(next - 1..next))));
            }
        }
        ranges.extend(last.map(|range| (nth, range)));
        if shape.restart.silent > 0 {
            next = fall_silent(next, shape.restart.silent, &mut events);
        }
        zero += (next - run.first) * period + shape.restart.step;
    }
    events.push(LiveEvent::End);
    let errors = errors.iter().copied().cycle();
    Feed {
        id,
        rate,
        window,
        hop,
        runs,
        ranges,
        events: events.into_iter().zip(errors).collect(),
    }
}

/// The first index is lost, then progress follows.
fn fall_silent(next: i64, samples: i64, events: &mut Vec<LiveEvent>) -> i64 {
    events.push(LiveEvent::Start(
        next + 1,
        Some(Break::Dropped(next..next + 1)),
    ));
    for upto in [next + (samples + 1) / 2, next + samples] {
        events.push(LiveEvent::Mark(upto));
    }
    next + samples
}

type Turns = Arc<Mutex<Vec<u32>>>;

#[derive(Clone)]
struct LiveRecording {
    feed: Feed,
    stream: StreamId,
    clock: Arc<LiveClock>,
    /// Reversed. None: all is there from the start.
    turns: Option<Turns>,
}

impl Recording for LiveRecording {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: isochrony_segment::DType::I16,
            stream: self.stream,
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let mut events = self.feed.events.clone();
        events.reverse();
        Ok(Box::new(LiveSource {
            recording: self.clone(),
            events,
            waker: None,
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        Some(self.clock.clone())
    }
}

struct LiveSource {
    recording: LiveRecording,
    events: Vec<(LiveEvent, i64)>,
    waker: Option<Waker>,
}

impl Source for LiveSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(turns) = &self.recording.turns {
            let mut turns = turns.lock().unwrap();
            if turns
                .last()
                .is_some_and(|turn| *turn != self.recording.feed.id)
            {
                self.waker.iter().for_each(Waker::wake_by_ref);
                return Ok(SourceEvent::Idle);
            }
            turns.pop();
        }
        let Some((event, error)) = self.events.pop() else {
            return Ok(SourceEvent::End);
        };
        if self.recording.turns.is_some() {
            let mut known = self.recording.clock.known.lock().unwrap();
            known.1 = error;
            if let LiveEvent::Run(run) = event {
                known.0.push(run);
            }
        }
        Ok(match event {
            LiveEvent::Run(_) => {
                self.waker.iter().for_each(Waker::wake_by_ref);
                SourceEvent::Idle
            }
            LiveEvent::Samples(range) => {
                let values: Vec<i16> = range.clone().map(|index| index as i16).collect();
                let samples = SigSeg::from_slice(&values, range.start, self.recording.stream)?;
                SourceEvent::Item(samples.into())
            }
            LiveEvent::Start(index, why) => SourceEvent::RangeStart {
                origin: RangeOrigin::at(index),
                why,
            },
            LiveEvent::Mark(upto) => SourceEvent::ProgressMark(upto),
            LiveEvent::End => SourceEvent::End,
        })
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }
}

impl Feed {
    fn period(&self) -> i64 {
        1_000 * MS / self.rate
    }

    fn time(&self, index: i64) -> i64 {
        time_in(&self.runs, self.period(), index)
    }

    fn rows(&self) -> Vec<LiveRow> {
        let mut rows = Vec::new();
        for (run, range) in &self.ranges {
            let mut start = range.start;
            while start + self.window as i64 <= range.end {
                let from = self.time(start);
                rows.push(LiveRow {
                    start,
                    from,
                    to: self.time(start + self.window as i64 - 1) + self.period(),
                    is_late: (1..=*run).any(|run| {
                        let (before, first) = (self.runs[run - 1], self.runs[run].first);
                        // The clock is off by up to 5 us.
                        from < before.zero + (first - before.first) * self.period() + MS / 100
                    }),
                });
                start += self.hop as i64;
            }
        }
        rows
    }

    fn plan(&self, turns: Option<&Turns>) -> Plan {
        let windows = self.scan(turns).rewindow_every(self.window, self.hop);
        windows.unwrap().stats([Stat::Min]).unwrap()
    }

    fn scan(&self, turns: Option<&Turns>) -> Plan {
        let known = match turns {
            Some(_) => (Vec::new(), 0),
            None => (self.runs.clone(), 0),
        };
        let recording = LiveRecording {
            // Clocks are found by timebase, and tests run concurrently.
            stream: stream(
                "restarts",
                NEXT_TIMEBASE.fetch_add(1, Ordering::Relaxed),
                self.rate as u64,
            ),
            clock: Arc::new(LiveClock {
                period: self.period(),
                known: Mutex::new(known),
            }),
            feed: self.clone(),
            turns: turns.cloned(),
        };
        Plan::scan(recording)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct LiveRow {
    start: i64,
    from: i64,
    to: i64,
    is_late: bool,
}

type LivePair = (Option<i64>, Option<i64>);

fn in_turns(feeds: [&Feed; 2], random: &[bool]) -> Turns {
    let mut left = feeds.map(|feed| feed.events.len());
    let mut random = random.iter().cycle();
    let mut turns = Vec::new();
    while left != [0, 0] {
        let mut at = usize::from(*random.next().unwrap());
        if left[at] == 0 {
            at = 1 - at;
        }
        left[at] -= 1;
        turns.push(feeds[at].id);
    }
    turns.reverse();
    Arc::new(Mutex::new(turns))
}

fn live_join(
    feeds: [&Feed; 2],
    turns: Option<&[bool]>,
    how: &str,
    tolerance: Option<i64>,
) -> Result<Vec<LivePair>, RunError> {
    let turns = turns.map(|random| in_turns(feeds, random));
    let [a, b] = feeds.map(|feed| feed.plan(turns.as_ref()));
    let seconds = tolerance.map(|ns| ns as f64 / 1e9);
    let joined = loops::join(&a, &b, how, seconds).collect()?;
    let table = joined.rows().unwrap();
    let column = |name: &str| {
        let column = table.column_by_name(name).unwrap();
        let column = column.as_primitive::<Int64Type>();
        column.iter().collect::<Vec<_>>()
    };
    Ok(column("start")
        .into_iter()
        .zip(column("start_right"))
        .collect())
}

fn naive_pairs(
    left: &[LiveRow],
    right: &[LiveRow],
    tolerance: Option<i64>,
    nearest: bool,
) -> Vec<LivePair> {
    let mut pairs = Vec::new();
    for a in left {
        let away = |b: &&LiveRow| (a.from - b.from).abs();
        let near = right.iter().filter(|b| match tolerance {
            None => a.from < b.to && b.from < a.to,
            Some(tolerance) => away(b) <= tolerance,
        });
        let near: Vec<&LiveRow> = match tolerance.is_some() && nearest {
            true => near.min_by_key(away).into_iter().collect(),
            false => near.collect(),
        };
        pairs.extend(near.iter().map(|b| (Some(a.start), Some(b.start))));
    }
    pairs
}

fn naive_outer(
    how: &str,
    left: &[LiveRow],
    right: &[LiveRow],
    tolerance: Option<i64>,
) -> Vec<LivePair> {
    let pairs = naive_pairs(left, right, tolerance, true);
    let mut all = Vec::new();
    for row in left {
        let own: Vec<_> = pairs
            .iter()
            .filter(|pair| pair.0 == Some(row.start))
            .collect();
        if own.is_empty() && how != "inner" {
            all.push((row.from, (Some(row.start), None)));
        }
        all.extend(own.into_iter().map(|pair| (row.from, *pair)));
    }
    for row in right.iter().filter(|_| how == "outer") {
        if pairs.iter().all(|pair| pair.1 != Some(row.start)) {
            all.push((row.from, (None, Some(row.start))));
        }
    }
    all.sort_by_key(|(from, _)| *from);
    all.into_iter().map(|(_, pair)| pair).collect()
}

fn a_join() -> impl Strategy<Value = (&'static str, Option<i64>)> {
    let how = prop::sample::select(vec!["inner", "left", "outer"]);
    (
        how,
        prop::option::of((0i64..60).prop_map(|tens| (10 * tens + 5) * MS)),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_restart_that_goes_on_in_time_leaves_no_trace_in_a_join(
        a in a_feed(1, false),
        b in a_feed(2, false),
        turns in prop::collection::vec(any::<bool>(), 1..200),
        (how, tolerance) in a_join(),
    ) {
        let want = naive_outer(how, &a.rows(), &b.rows(), tolerance);
        let got = live_join([&a, &b], Some(&turns), how, tolerance);
        prop_assert_eq!(got.map_err(|error| error.to_string()), Ok(want));
    }

    #[test]
    fn windows_of_aligned_feeds_are_the_same_however_they_arrive(
        a in a_feed(1, false),
        b in a_feed(2, false),
        turns in prop::collection::vec(any::<bool>(), 1..200),
        method in prop::sample::select(vec!["linear", "cubic"]),
    ) {
        let exact = |mut feed: Feed| {
            feed.events.iter_mut().for_each(|event| event.1 = 0);
            feed
        };
        let (a, b) = (exact(a), exact(b));
        let windows = |turns: Option<&Turns>| {
            let align = Catalog::standard();
            let align = align.get("align").unwrap();
            let params = json!({"method": method});
            let params = params.as_object().unwrap().clone();
            let aligned = a.scan(turns).apply(align, params, &[b.scan(turns)]).unwrap();
            let windows = aligned.rewindow_every(b.window, b.hop).unwrap();
            let rows = table(&windows.stats([Stat::Min, Stat::Max]).unwrap());
            (ints(&rows, "start"), floats(&rows, "min"), floats(&rows, "max"))
        };
        let turns = in_turns([&a, &b], &turns);
        prop_assert_eq!(windows(Some(&turns)), windows(None));
    }

    #[test]
    fn a_restart_that_overlaps_ends_a_join_only_if_rows_go_back(
        a in a_feed(1, true),
        b in a_feed(2, true),
        turns in prop::collection::vec(any::<bool>(), 1..200),
        (how, tolerance) in a_join(),
    ) {
        let (left, right) = (a.rows(), b.rows());
        let goes_back = |rows: &[LiveRow]| rows.windows(2).any(|pair| pair[1].from < pair[0].from);
        let is_steady = !goes_back(&left) && !goes_back(&right);
        if is_steady {
            let at_once = live_join([&a, &b], None, how, tolerance);
            prop_assert_eq!(at_once.err().map(|error| error.to_string()), None);
        }
        let got = match live_join([&a, &b], Some(&turns), how, tolerance) {
            Ok(got) => got,
            Err(error) => {
                prop_assert_eq!(error.code(), "back_in_time");
                prop_assert!(!is_steady, "no row goes back: {}", error);
                return Ok(());
            }
        };
        if !left.iter().chain(&right).any(|row| row.is_late) {
            prop_assert_eq!(&got, &naive_outer(how, &left, &right, tolerance));
        }
        let possible = naive_pairs(&left, &right, tolerance, false);
        let found: Vec<LivePair> = got.iter().copied().filter(|(a, b)| a.is_some() && b.is_some()).collect();
        for (nth, pair) in found.iter().enumerate() {
            prop_assert!(possible.contains(pair), "{:?}", pair);
            prop_assert!(!found[..nth].contains(pair), "{:?} twice", pair);
        }
        let is_late = |rows: &[LiveRow], start: Option<i64>| rows.iter().any(|row| Some(row.start) == start && row.is_late);
        for pair in naive_pairs(&left, &right, tolerance, true) {
            let late = is_late(&left, pair.0) || is_late(&right, pair.1);
            let missed = !found.contains(&pair);
            prop_assert!(late || !missed, "{:?} is missing", pair);
        }
        for row in left.iter().filter(|_| how != "inner") {
            prop_assert!(got.iter().any(|pair| pair.0 == Some(row.start)), "left {} is missing", row.start);
        }
        for row in right.iter().filter(|_| how == "outer") {
            let times = got.iter().filter(|pair| **pair == (None, Some(row.start))).count();
            let is_paired = found.iter().any(|pair| pair.1 == Some(row.start));
            prop_assert_eq!(times, usize::from(!is_paired), "right {}", row.start);
        }
        let order: Vec<i64> = got.iter().filter_map(|pair| pair.0).collect();
        prop_assert!(order.is_sorted(), "{:?}", order);
    }
}

#[test]
fn rows_wait_for_a_run_that_begins_before_the_time_that_was_expected() {
    let run = |lengths: &[i64], step| RunShape {
        packets: lengths.iter().map(|&length| (length, 0)).collect(),
        restart: Restart { step, silent: 0 },
    };
    let a = feed(
        1,
        10,
        (4, 4),
        0,
        &[run(&[8], -150 * MS), run(&[8], 0)],
        &[0],
    );
    let b = feed(2, 10, (1, 1), 0, &[run(&[1; 18], 0)], &[0]);
    let parts = [(false, 3), (true, 2), (false, 2), (true, 19), (false, 2)];
    let turns: Vec<bool> = (parts.iter())
        .flat_map(|&(feed, events)| std::iter::repeat_n(feed, events))
        .collect();
    let want = naive_outer("inner", &a.rows(), &b.rows(), None);
    assert!(want.contains(&(Some(8), Some(6))), "{want:?}");
    assert_eq!(
        live_join([&a, &b], Some(&turns), "inner", None).unwrap(),
        want
    );
}
