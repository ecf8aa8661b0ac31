use std::ops::Range;

use isochrony_flow::operators::Rewindow;
use isochrony_flow::{Plan, PlanOutput, Segments, SharedRecording, json};
use isochrony_segment::{SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

mod fan_ins;
mod stops;

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn value(index: i64) -> i16 {
    (index.rem_euclid(30_011)) as i16
}

fn segment(range: Range<i64>) -> SigSeg {
    let samples: Vec<i16> = range.clone().map(value).collect();
    SigSeg::from_slice(&samples, range.start, stream()).unwrap()
}

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

/// Inside one stretch and `wanted`.
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
        let live = SharedRecording::new(recording(&stretches));
        let range = (!whole).then_some(wanted.clone());
        let own = json!({"window": window, "hop": hop, "anchor": "run"});
        let plan = Plan::scan_part(live, range, segment).then::<Rewindow>(own.as_object().unwrap().clone()).unwrap();
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
        let mut plan = Plan::scan_part(SharedRecording::new(recording(&stretches)), None, segment);
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
        let plan = Plan::scan_part(SharedRecording::new(recording(&stretches)), None, segment);
        let (gathered, report) = plan.limit(count).unwrap().collect_with(&Default::default()).unwrap();
        let all: Vec<i16> = stretches.iter().flat_map(|(r, _)| r.clone()).map(value).collect();
        let expected = &all[..all.len().min(count as usize)];
        prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), expected);
        prop_assert!(report.operators[0].samples <= (count + segment).min(all.len() as u64));
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
    assert_eq!(plan().collect().unwrap(), PlanOutput::Count(21));
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
fn a_plan_of_a_hundred_thousand_operators_needs_no_deep_stack() {
    let mut plan = Plan::scan(recording(&[(0..10, vec![])]));
    for _ in 0..100_000 {
        plan = plan.passthrough().unwrap();
    }
    assert_eq!(
        plan.count().unwrap().collect().unwrap(),
        PlanOutput::Count(10)
    );
}

#[test]
fn the_memory_of_a_whole_result_is_taken_once() {
    let live = SharedRecording::new(recording(&[(0..10_007, vec![5_000])]));
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
