use std::ops::Range;

use isochrony_flow::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, Plan, PlanError, PlanOutput,
    Port, PortType, Ranges, RunOptions, SharedRecording, operator,
};
use proptest::prelude::*;

use super::{recording, stream, stretches, value, windows};

#[test]
fn a_diamond_whose_one_branch_ends_early_does_not_hang() {
    let scan = Plan::scan_part(
        SharedRecording::new(recording(&[(0..1000, vec![])])),
        None,
        10,
    );
    let zipped = scan.limit(25).unwrap().zip(&[scan]).unwrap();
    let gathered = zipped.output(1).unwrap().collect().unwrap();
    assert_eq!(gathered.array().unwrap().shape, [25]);
}

#[test]
fn sources_that_are_far_apart_starve_nobody() {
    let late = recording(&[(1_000_000..1_000_010, vec![])]);
    let early = recording(&[(0..100_000, vec![])]);
    let plan = Plan::scan_part(SharedRecording::new(late), None, 10);
    let other = Plan::scan_part(SharedRecording::new(early), None, 10);
    let zipped = plan.zip(&[other]).unwrap().output(0).unwrap();
    // They are asked in order of time, so little waits.
    let mut options = RunOptions::default();
    options.memory = 10_000;
    let (gathered, _) = zipped.collect_with(&options).unwrap();
    assert_eq!(gathered.array().unwrap().shape, [0]);
}

operator! {
    /// Emits everything at the end.
    pub struct Hold = "hold" (Inputs::Exactly(1)) {}
    state {
        held: Vec<Item>,
    }
}

impl Operator for Hold {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.held.push(item.take());
        Ok(Next::Consumed)
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
    let scan = Plan::scan_part(
        SharedRecording::new(recording(&[(0..100_000, vec![])])),
        None,
        100,
    );
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
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn zip_of_two_windowings_gives_both_at_the_same_indices(
        a in stretches(), b in stretches(), segment in 1u64..100,
    ) {
        let plan = |s: &[(Range<i64>, Vec<i64>)]| Plan::scan_part(SharedRecording::new(recording(s)), None, segment);
        let zipped = plan(&a).zip(&[plan(&b)]).unwrap();
        let both: Vec<i16> = (0..4000)
            .filter(|i| [&a, &b].iter().all(|s| s.iter().any(|(r, _)| r.contains(i)))).map(value).collect();
        for output in 0..2 {
            let gathered = zipped.output(output).unwrap().collect().unwrap();
            prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), both.clone());
        }
    }

    #[test]
    fn sync_gives_the_samples_of_the_ranges_that_a_detector_names(
        stretches in stretches(), segment in 1u64..200, window in 1i64..30, every in 1i64..7,
    ) {
        let scan = Plan::scan_part(SharedRecording::new(recording(&stretches)), None, segment);
        let params = serde_json::json!({"every": every});
        let ranges = scan.rewindow(window as u64).unwrap().then::<Detect>(params.as_object().unwrap().clone()).unwrap();
        let synced = scan.sync(&[scan.passthrough().unwrap(), ranges.clone()]).unwrap();
        let starts = windows(&stretches, i64::MIN..i64::MAX, window, window);
        let named: Vec<Range<i64>> = starts.iter().filter(|s| **s % every == 0).map(|&s| s..s + window).collect();
        prop_assert_eq!(ranges.collect().unwrap(), PlanOutput::Ranges(named.clone()));
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
        let scan = Plan::scan_part(SharedRecording::new(recording(&stretches)), None, segment);
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
        let plan = |s: &[(Range<i64>, Vec<i64>)]| Plan::scan_part(SharedRecording::new(recording(s)), None, segment);
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
    /// Ranges of the windows that begin at a multiple.
    pub struct Detect = "detect" (Inputs::Exactly(1)) {
        /// Divisor.
        every: i64 = "integer" { unit: Samples, range: (1.0, 1e6) },
    }
    state {}
}

impl Operator for Detect {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let stream = inputs[0].stream_id().unwrap_or_else(stream);
        Ok(OperatorProperties::new([PortType::Ranges { stream }]).data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let Item::Frames(frames) = item else {
            return Ok(Next::Consumed);
        };
        let starts = (0..frames.count())
            .map(|k| frames.window_start(k))
            .filter(|s| s % self.every == 0);
        let ranges: Vec<_> = starts.map(|s| s..s + frames.window() as i64).collect();
        let stream = frames.stream_id();
        if ranges.is_empty() {
            return Ok(Next::Consumed);
        }
        *item = Item::Ranges(Ranges {
            stream,
            ranges: ranges.into_iter().collect(),
        });
        Ok(Next::Forward)
    }
}
