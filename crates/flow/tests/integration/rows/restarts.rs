//! Joins by civil time of live sources with restarting clocks, against nested loops over all rows.
//!
//! A live clock extrapolates beyond the last sample with a small error, so a new run may begin before the time expected
//! of its first index.

use std::sync::Mutex;

use isochrony_flow::RunError;

use super::restarting_feeds::{Feed, LiveRow, MS, Restart, RunShape, Turns, a_feed, feed};
use super::*;

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
    live_join_of(Feed::plan, feeds, turns, how, tolerance)
}

fn live_join_of(
    plan: impl Fn(&Feed, Option<&Turns>) -> Plan,
    feeds: [&Feed; 2],
    turns: Option<&[bool]>,
    how: &str,
    tolerance: Option<i64>,
) -> Result<Vec<LivePair>, RunError> {
    let turns = turns.map(|random| in_turns(feeds, random));
    let [a, b] = feeds.map(|feed| plan(feed, turns.as_ref()));
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
        let near = near.filter(|b| a.meets(b, tolerance) && b.meets(a, tolerance));
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
    let mut place = i64::MIN;
    for row in left {
        place = place.max(row.place());
        let own: Vec<_> = pairs
            .iter()
            .filter(|pair| pair.0 == Some(row.start))
            .collect();
        if own.is_empty() && how != "inner" {
            all.push((place, (Some(row.start), None)));
        }
        all.extend(own.into_iter().map(|pair| (place, *pair)));
    }
    for row in right.iter().filter(|_| how == "outer") {
        if pairs.iter().all(|pair| pair.1 != Some(row.start)) {
            all.push((row.place(), (None, Some(row.start))));
        }
    }
    all.sort_by_key(|(place, _)| *place);
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

    /// Whatever had been read of the other plan by then.
    #[test]
    fn rows_before_what_their_feed_had_announced_meet_what_ends_after_that(
        a in a_feed(1, true),
        b in a_feed(2, true),
        turns in prop::collection::vec(any::<bool>(), 1..200),
        (how, tolerance) in a_join(),
    ) {
        let exact = |mut feed: Feed| {
            feed.events.iter_mut().for_each(|event| event.1 = 0);
            feed.announces = true;
            feed
        };
        let (a, b) = (exact(a), exact(b));
        let (left, right) = (a.rows(), b.rows());
        let goes_back = |rows: &[LiveRow]| rows.windows(2).any(|pair| pair[1].from < pair[0].from);
        let want = match goes_back(&left) || goes_back(&right) {
            true => Err("back_in_time"),
            false => Ok(naive_outer(how, &left, &right, tolerance)),
        };
        for turns in [None, Some(&turns[..])] {
            let got = live_join([&a, &b], turns, how, tolerance).map_err(|error| error.code());
            prop_assert_eq!(got, want.clone(), "{:?}", turns);
        }
    }

    /// Whose times lie between those of samples.
    #[test]
    fn rows_of_resampled_feeds_meet_the_same_rows_whenever_they_are_read(
        a in a_feed(1, true),
        b in a_feed(2, true),
        turns in prop::collection::vec(prop::collection::vec(any::<bool>(), 1..200), 2),
        (how, tolerance) in a_join(),
    ) {
        let exact = |mut feed: Feed| {
            feed.events.iter_mut().for_each(|event| event.1 = 0);
            feed.announces = true;
            feed
        };
        let plan = |feed: &Feed, turns: Option<&Turns>| {
            let resample = json!({"up": 2, "down": 3, "attenuation_db": 20.0, "passband": 0.3, "edges": "zeros"});
            let resample = resample.as_object().unwrap().clone();
            let catalog = Catalog::standard();
            let scan = feed.scan(turns).apply(catalog.get("resample").unwrap(), resample, &[]);
            let windows = scan.unwrap().rewindow_every(feed.window, feed.hop);
            windows.unwrap().stats([Stat::Min]).unwrap()
        };
        let (a, b) = (exact(a), exact(b));
        let join = |turns: &[bool]| {
            let joined = live_join_of(plan, [&a, &b], Some(turns), how, tolerance);
            joined.map_err(|error| error.code())
        };
        prop_assert_eq!(join(&turns[0]), join(&turns[1]));
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
