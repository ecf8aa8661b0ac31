//! The engine against slow, obvious computations.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use isochrony_flow::{
    Bound, Gathered, Inputs, Item, Live, Next, OpError, Operator, Out, Plan, PlanError, Port,
    PortType, Ranges, RunError, RunOptions, Segments, operator,
};
use isochrony_segment::{SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

/// Sample `i` of the recording is `i mod 30011`.
fn value(index: i64) -> i16 {
    (index.rem_euclid(30_011)) as i16
}

fn segment(range: Range<i64>) -> SigSeg {
    let samples: Vec<i16> = range.clone().map(value).collect();
    SigSeg::from_slice(&samples, range.start, stream()).unwrap()
}

/// Gap-free stretches, each cut into segments that lie apart in memory.
fn recording(stretches: &[(Range<i64>, Vec<i64>)]) -> Segments {
    let pieces = stretches.iter().flat_map(|(range, cuts)| {
        let mut edges: Vec<i64> = cuts
            .iter()
            .map(|c| range.start + c.rem_euclid((range.end - range.start).max(1)))
            .collect();
        edges.extend([range.start, range.end]);
        edges.sort_unstable();
        edges.dedup();
        edges
            .windows(2)
            .map(|pair| segment(pair[0]..pair[1]))
            .collect::<Vec<_>>()
    });
    Segments::new(pieces).unwrap()
}

prop_compose! {
    fn stretches()(parts in prop::collection::vec((1i64..40, 1i64..300, prop::collection::vec(0i64..300, 0..4)), 1..5))
        -> Vec<(Range<i64>, Vec<i64>)>
    {
        let mut at = 0;
        parts.into_iter().map(|(gap, len, cuts)| {
            let start = at + gap;
            at = start + len;
            (start..at, cuts)
        }).collect()
    }
}

/// Starts of the windows that lie in one stretch and in `wanted`, counted from the stretch's first sample.
fn windows(
    stretches: &[(Range<i64>, Vec<i64>)],
    wanted: Range<i64>,
    window: i64,
    hop: i64,
) -> Vec<i64> {
    let mut starts = Vec::new();
    for (range, _) in stretches {
        let mut start = range.start;
        while start + window <= range.end {
            if start >= wanted.start && start + window <= wanted.end {
                starts.push(start);
            }
            start += hop;
        }
    }
    starts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_chunking_gives_the_stretches_own_windows(
        stretches in stretches(), window in 1i64..70, hop in 1i64..90, segment in 1u64..200,
        from in 0i64..400, len in 1i64..900, whole in any::<bool>(),
    ) {
        let wanted = if whole { i64::MIN..i64::MAX } else { from..from + len };
        let live = Live::new(recording(&stretches));
        let range = (!whole).then_some(wanted.clone());
        let plan = Plan::scan_part(live, range, segment).rewindow_every(window as u64, hop as u64).unwrap();
        let gathered = plan.collect().unwrap();
        let array = gathered.array().unwrap();
        let expected = windows(&stretches, wanted, window, hop);
        let samples: Vec<i16> = expected.iter().flat_map(|&s| (s..s + window).map(value)).collect();
        prop_assert_eq!(&array.shape, &[expected.len() as u64, window as u64]);
        prop_assert_eq!(array.to_vec::<i16>().unwrap(), samples);
        let starts: Vec<i64> = array.parts.iter()
            .flat_map(|&(start, count)| (0..count as i64).map(move |k| start + k * hop)).collect();
        prop_assert_eq!(starts, expected);
    }

    #[test]
    fn samples_go_through_any_chain_unchanged(stretches in stretches(), segment in 1u64..200, operators in 0usize..40) {
        let mut plan = Plan::scan_part(Live::new(recording(&stretches)), None, segment);
        for _ in 0..operators {
            plan = plan.passthrough().unwrap();
        }
        let (gathered, report) = plan.collect_with(&Default::default()).unwrap();
        let expected: Vec<i16> = stretches.iter().flat_map(|(r, _)| r.clone()).map(value).collect();
        prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), expected.clone());
        for operator in &report.operators {
            prop_assert_eq!(operator.samples, expected.len() as u64, "{}", operator.name);
        }
    }

    #[test]
    fn limit_passes_exactly_as_many_and_stops_its_upstream(
        stretches in stretches(), segment in 1u64..50, count in 0u64..500,
    ) {
        let plan = Plan::scan_part(Live::new(recording(&stretches)), None, segment);
        let (gathered, report) = plan.limit(count).unwrap().collect_with(&Default::default()).unwrap();
        let all: Vec<i16> = stretches.iter().flat_map(|(r, _)| r.clone()).map(value).collect();
        let expected = &all[..all.len().min(count as usize)];
        prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), expected);
        prop_assert!(report.operators[0].samples <= (count + segment).min(all.len() as u64));
    }

    #[test]
    fn zip_of_two_windowings_gives_both_at_the_same_indices(
        a in stretches(), b in stretches(), segment in 1u64..100,
    ) {
        let plan = |s: &[(Range<i64>, Vec<i64>)]| Plan::scan_part(Live::new(recording(s)), None, segment);
        let zipped = plan(&a).zip(&[plan(&b)]).unwrap();
        let both: Vec<i16> = (0..4000)
            .filter(|i| [&a, &b].iter().all(|s| s.iter().any(|(r, _)| r.contains(i)))).map(value).collect();
        for output in 0..2 {
            let gathered = zipped.output(output).unwrap().collect().unwrap();
            prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), both.clone());
        }
    }
}

#[test]
fn a_plan_prints_compares_and_counts() {
    let plan = || {
        Plan::scan(recording(&[(0..100, vec![]), (200..310, vec![])]))
            .rewindow(10)
            .unwrap()
            .count()
            .unwrap()
    };
    assert_eq!(
        plan().to_string(),
        "scan(stn/p) -> rewindow(window=10) -> count"
    );
    assert_eq!(plan().collect().unwrap(), Gathered::Count(21));
    assert!(plan().port() == isochrony_flow::PortType::Count);
}

#[test]
fn shared_parts_of_a_plan_run_once() {
    let scan = Plan::scan(recording(&[(0..100, vec![])]));
    let once = scan.passthrough().unwrap();
    let again = scan.passthrough().unwrap();
    let merged = once.merge(&[again]).unwrap();
    let (gathered, report) = merged.collect_with(&Default::default()).unwrap();
    assert_eq!(
        report
            .operators
            .iter()
            .filter(|o| o.name == "passthrough")
            .count(),
        1,
        "{report}"
    );
    assert_eq!(gathered.array().unwrap().shape, [200]);
}

#[test]
fn a_diamond_whose_one_branch_ends_early_does_not_hang() {
    let scan = Plan::scan_part(Live::new(recording(&[(0..1000, vec![])])), None, 10);
    let zipped = scan.limit(25).unwrap().zip(&[scan]).unwrap();
    let gathered = zipped.output(1).unwrap().collect().unwrap();
    assert_eq!(gathered.array().unwrap().shape, [25]);
}

#[test]
fn sources_that_are_far_apart_starve_nobody() {
    let late = recording(&[(1_000_000..1_000_010, vec![])]);
    let early = recording(&[(0..100_000, vec![])]);
    let plan = Plan::scan_part(Live::new(late), None, 10);
    let other = Plan::scan_part(Live::new(early), None, 10);
    let zipped = plan.zip(&[other]).unwrap().output(0).unwrap();
    // They are asked in order of time, so little waits.
    let mut options = RunOptions::default();
    options.memory = 10_000;
    let (gathered, _) = zipped.collect_with(&options).unwrap();
    assert_eq!(gathered.array().unwrap().shape, [0]);
}

operator! {
    /// Gives everything at the end.
    pub struct Hold = "hold" (Inputs::Exactly(1)) {}
    state {
        held: Vec<Item>,
    }
}

impl Operator for Hold {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        Ok(Bound::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.held.push(item.take());
        Ok(Next::Taken)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.held.iter_mut().try_for_each(|item| out.emit(0, item))
    }

    fn progress(&mut self, _: Port, _: i64) -> i64 {
        i64::MIN
    }
}

#[test]
fn a_branch_that_holds_back_starves_the_fan_in_and_the_error_names_both_edges() {
    let scan = Plan::scan_part(Live::new(recording(&[(0..100_000, vec![])])), None, 100);
    let held = scan.then::<Hold>(serde_json::Map::new()).unwrap();
    let zipped = scan.zip(&[held]).unwrap().output(1).unwrap();
    assert_eq!(
        zipped.collect().unwrap().array().unwrap().shape,
        [100_000],
        "enough memory"
    );
    let mut options = RunOptions::default();
    options.memory = 50_000;
    let error = zipped.collect_with(&options).unwrap_err();
    assert_eq!(error.code(), "fan_in_starved");
    let text = error.to_string();
    for part in [
        "zip",
        "scan (node 0) -> zip input 0",
        "hold (node 1) -> zip input 1",
        "50000",
        "memory=",
    ] {
        assert!(text.contains(part), "{text} lacks {part:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sync_gives_the_samples_of_the_ranges_that_a_detector_names(
        stretches in stretches(), segment in 1u64..200, window in 1i64..30, every in 1i64..7,
    ) {
        let scan = Plan::scan_part(Live::new(recording(&stretches)), None, segment);
        let params = serde_json::json!({"every": every});
        let ranges = scan.rewindow(window as u64).unwrap().then::<Detect>(params.as_object().unwrap().clone()).unwrap();
        let synced = scan.sync(&[scan.passthrough().unwrap(), ranges.clone()]).unwrap();
        let starts = windows(&stretches, i64::MIN..i64::MAX, window, window);
        let named: Vec<Range<i64>> = starts.iter().filter(|s| **s % every == 0).map(|&s| s..s + window).collect();
        prop_assert_eq!(ranges.collect().unwrap(), Gathered::Ranges(named.clone()));
        let expected: Vec<i16> = named.into_iter().flatten().map(value).collect();
        for output in 0..2 {
            let gathered = synced.output(output).unwrap().collect().unwrap();
            prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), expected.clone());
        }
    }

    #[test]
    fn windows_behind_a_sync_are_counted_from_where_each_range_begins(
        stretches in stretches(), segment in 1u64..200, window in 1i64..30, every in 2i64..7, own in 1i64..12,
    ) {
        let scan = Plan::scan_part(Live::new(recording(&stretches)), None, segment);
        let params = serde_json::json!({"every": every});
        let ranges = scan.rewindow(window as u64).unwrap().then::<Detect>(params.as_object().unwrap().clone()).unwrap();
        let synced = scan.sync(&[ranges]).unwrap().output(0).unwrap().rewindow(own as u64).unwrap();
        let gathered = synced.collect().unwrap();
        let begins = gathered.array().unwrap().parts.iter().flat_map(|&(start, count)| {
            (0..count as i64).map(move |k| start + k * own)
        });
        let mut named: Vec<Range<i64>> = Vec::new();
        for start in windows(&stretches, i64::MIN..i64::MAX, window, window) {
            let apart = stretches.iter().any(|(stretch, _)| stretch.start == start);
            match named.last_mut() {
                _ if start % every != 0 => {}
                Some(last) if last.end == start && !apart => last.end += window,
                _ => named.push(start..start + window),
            }
        }
        let expected = named.into_iter().flat_map(|range| {
            (range.start..=range.end - own).step_by(own as usize).collect::<Vec<_>>()
        });
        prop_assert_eq!(begins.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn merge_gives_all_items_in_order_of_their_begin(a in stretches(), b in stretches(), segment in 1u64..100) {
        let plan = |s: &[(Range<i64>, Vec<i64>)]| Plan::scan_part(Live::new(recording(s)), None, segment);
        let merged = plan(&a).merge(&[plan(&b)]).unwrap().collect().unwrap();
        let array = merged.array().unwrap();
        let begins: Vec<i64> = array.parts.iter().map(|&(start, _)| start).collect();
        prop_assert!(begins.is_sorted(), "{begins:?}");
        let mut got = array.to_vec::<i16>().unwrap();
        let mut all: Vec<i16> = a.iter().chain(&b).flat_map(|(r, _)| r.clone()).map(value).collect();
        got.sort_unstable();
        all.sort_unstable();
        prop_assert_eq!(got, all);
    }
}

operator! {
    /// Names the windows that begin at a multiple.
    pub struct Detect = "detect" (Inputs::Exactly(1)) {
        /// Of this.
        every: i64 = "integer" { unit: "samples", range: (1.0, 1e6) },
    }
    state {}
}

impl Operator for Detect {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        let stream = inputs[0].stream_id().unwrap_or_else(stream);
        Ok(Bound::new([PortType::Ranges { stream }]).data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let Item::Frames(frames) = item else {
            return Ok(Next::Taken);
        };
        let starts = (0..frames.count())
            .map(|k| frames.window_start(k))
            .filter(|s| s % self.every == 0);
        let ranges: Vec<_> = starts.map(|s| s..s + frames.window() as i64).collect();
        let stream = frames.stream_id();
        if ranges.is_empty() {
            return Ok(Next::Taken);
        }
        *item = Item::Ranges(Ranges {
            stream,
            ranges: ranges.into_iter().collect(),
        });
        Ok(Next::Tail)
    }
}

#[test]
fn a_plan_of_a_hundred_thousand_operators_needs_no_deep_stack() {
    let mut plan = Plan::scan(recording(&[(0..10, vec![])]));
    for _ in 0..100_000 {
        plan = plan.passthrough().unwrap();
    }
    assert_eq!(
        plan.count().unwrap().collect().unwrap(),
        Gathered::Count(10)
    );
}

#[test]
fn interrupts_stop_between_items() {
    let flag = Arc::new(AtomicBool::new(true));
    let mut options = isochrony_flow::RunOptions::default();
    options.interrupt = Some(&flag);
    let error = Plan::scan(recording(&[(0..10, vec![])]))
        .collect_with(&options)
        .unwrap_err();
    assert!(
        matches!(error, RunError::Interrupted { items: 0 }),
        "{error}"
    );
}

#[test]
fn a_watch_looks_around_in_the_runs_own_thread_and_stops_it() {
    let (looks, own) = (Arc::new(AtomicU64::new(0)), std::thread::current().id());
    let counted = looks.clone();
    let watch = isochrony_flow::Watch::new(move || {
        assert_eq!(std::thread::current().id(), own);
        counted.fetch_add(1, Ordering::Relaxed) < 4
    });
    let mut options = RunOptions::default();
    options.watch = Some(&watch);
    // Half a minute, a millisecond an item, in both places where it is looked for: windows are emitted one by one.
    let slow = |item: &Item| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(item.samples() > 0);
        Ok(())
    };
    let items = Plan::scan_part(Live::new(recording(&[(0..30_000, vec![])])), None, 1);
    let windows = Plan::scan(recording(&[(0..60_000, vec![])]));
    let odd = isochrony_expr::Expr::input().min() % 2;
    let windows = windows.rewindow(1).unwrap().filter(&odd.gt(0)).unwrap();
    for plan in [items, windows] {
        looks.store(0, Ordering::Relaxed);
        let begun = std::time::Instant::now();
        let error = plan.each(slow).unwrap().run_with(&options).unwrap_err();
        assert!(matches!(error, RunError::Interrupted { .. }), "{error}");
        assert_eq!(looks.load(Ordering::Relaxed), 5);
        assert!(begun.elapsed() > std::time::Duration::from_millis(50));
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }
}

/// Asked for by `Stop`, which a declared operator has no place for.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
static BLOCKS: AtomicU64 = AtomicU64::new(0);

operator! {
    /// Asks the run to stop.
    pub struct Stop = "stop" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Stop {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        Ok(Bound::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        BLOCKS.fetch_add(1, Ordering::Relaxed);
        ASKED.get().unwrap().store(true, Ordering::Relaxed);
        Ok(Next::Taken)
    }
}

#[test]
fn interrupts_stop_within_an_item_of_windows_that_overlap_much() {
    // A hundred thousand windows of twenty thousand samples in one item: seconds of work for what follows.
    let flag = ASKED.get_or_init(|| Arc::new(AtomicBool::new(false)));
    let mut options = RunOptions::default();
    options.interrupt = Some(flag);
    let plan = Plan::scan(recording(&[(0..120_000, vec![])]))
        .rewindow_every(20_000, 1)
        .unwrap();
    let stopped = plan.then::<Stop>(serde_json::Map::new()).unwrap();
    let error = stopped.run_with(&options).unwrap_err();
    assert!(
        matches!(error, RunError::Interrupted { items: 1 }),
        "{error}"
    );
    assert_eq!(BLOCKS.load(Ordering::Relaxed), 1);
    assert_eq!(
        plan.count().unwrap().collect().unwrap(),
        Gathered::Count(100_001)
    );
}

#[test]
fn the_memory_of_a_whole_result_is_taken_once() {
    let live = Live::new(recording(&[(0..10_007, vec![5_000])]));
    let samples = Plan::scan_part(live, None, 1000);
    for plan in [
        samples.clone(),
        samples.rewindow(10).unwrap().passthrough().unwrap(),
    ] {
        let gathered = plan.collect().unwrap();
        let bytes = &gathered.array().unwrap().bytes;
        assert!(bytes.len() >= 20_000);
        assert_eq!(bytes.capacity(), bytes.len());
    }
}
