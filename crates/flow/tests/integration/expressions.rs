use isochrony_expr::Expr;
use isochrony_flow::{Catalog, Plan, PlanError, PlanOutput, Segments, SharedRecording};
use isochrony_segment::{Calibration, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

fn stream() -> Stream {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap())
}

fn recording(samples: &[i16], cuts: &[usize], stream: StreamId) -> Segments {
    let mut edges: Vec<usize> = cuts.iter().map(|c| c % samples.len()).collect();
    edges.extend([0, samples.len()]);
    edges.sort_unstable();
    edges.dedup();
    let parts = edges
        .windows(2)
        .map(|p| SigSeg::from_slice(&samples[p[0]..p[1]], p[0] as i64, stream).unwrap());
    Segments::new(parts).unwrap()
}

fn mean_and_std(window: &[i16]) -> (f64, f64) {
    let n = window.len() as f64;
    let mean = window.iter().map(|&x| f64::from(x)).sum::<f64>() / n;
    (
        mean,
        (window
            .iter()
            .map(|&x| (f64::from(x) - mean).powi(2))
            .sum::<f64>()
            / n)
            .sqrt(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn statfilter_keeps_the_windows_that_a_loop_keeps(
        samples in prop::collection::vec(-300i16..300, 8..900), cuts in prop::collection::vec(0usize..900, 0..6),
        window in 2usize..40, segment in 1u64..300, loud in 100.0f64..250.0,
    ) {
        let s = Expr::input();
        let plan = Plan::scan_part(SharedRecording::new(recording(&samples, &cuts, stream().intern())), None, segment)
            .rewindow(window as u64).unwrap()
            .filter(&s.std().gt(loud)).unwrap()
            .filter(&s.mean().lt(0)).unwrap();
        let mut near = false;
        let kept: Vec<&[i16]> = samples.chunks_exact(window).filter(|w| {
            let (mean, std) = mean_and_std(w);
            near |= (std - loud).abs() < 1e-9;
            std > loud && mean < 0.0
        }).collect();
        prop_assume!(!near);
        let gathered = plan.collect().unwrap();
        prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), kept.concat());
        prop_assert_eq!(plan.count().unwrap().collect().unwrap(), PlanOutput::Count(kept.len() as u64));
        let mut as_written = isochrony_flow::RunOptions::default();
        as_written.optimise = false;
        let (unoptimised, report) = plan.collect_with(&as_written).unwrap();
        prop_assert_eq!(unoptimised, gathered);
        prop_assert_eq!(report.operators.len(), 5);
    }

    #[test]
    fn maps_give_a_row_a_window_or_a_value_a_sample(
        samples in prop::collection::vec(-300i16..300, 8..500), cuts in prop::collection::vec(0usize..900, 0..6),
        window in 2usize..40, hop in 1usize..50, segment in 1u64..300,
    ) {
        let s = Expr::input();
        let scan = Plan::scan_part(SharedRecording::new(recording(&samples, &cuts, stream().intern())), None, segment);
        let windows = scan.rewindow_every(window as u64, hop as u64).unwrap();
        let ranges: Vec<&[i16]> = (0..).map(|k| k * hop).take_while(|at| at + window <= samples.len())
            .map(|at| &samples[at..at + window]).collect();
        let spread: Vec<i32> = ranges.iter().map(|w| i32::from(*w.iter().max().unwrap()) - i32::from(*w.iter().min().unwrap())).collect();
        let gathered = windows.map(&(s.max() - s.min())).unwrap().collect().unwrap();
        prop_assert_eq!(gathered.array().unwrap().to_vec::<i32>().unwrap(), spread);
        let doubled: Vec<i16> = ranges.concat().iter().map(|x| x * 2).collect();
        let gathered = windows.map(&(&s * 2).wrapping()).unwrap().collect().unwrap();
        prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), doubled);
        let tripled: Vec<i16> = samples.iter().map(|x| x * 3).collect();
        let gathered = scan.map(&(&s * 3).wrapping()).unwrap().collect().unwrap();
        prop_assert_eq!(gathered.array().unwrap().to_vec::<i16>().unwrap(), tripled);
    }
}

#[test]
fn expressions_see_values_in_the_signals_unit() {
    let calibrated = stream()
        .with_calibration(Calibration::new(0.5, 10.0, "kPa").unwrap())
        .intern();
    let plan = Plan::scan(recording(&[0, 2, 4, 6], &[], calibrated));
    let values = plan.map(&(Expr::input() + 0)).unwrap().collect().unwrap();
    assert_eq!(
        values.array().unwrap().to_vec::<f64>().unwrap(),
        [10.0, 11.0, 12.0, 13.0]
    );
}

#[test]
fn what_was_remembered_is_forgotten_at_a_gap() {
    let stream = stream().intern();
    let segments = [
        SigSeg::from_slice(&[1i16, 2, 3, 4], 0, stream),
        SigSeg::from_slice(&[5i16, 6], 10, stream),
    ];
    let recording = Segments::new(segments.map(Result::unwrap)).unwrap();
    let before = Expr::input().max().previous(-1);
    let plan = Plan::scan(recording)
        .rewindow(2)
        .unwrap()
        .map(&before)
        .unwrap();
    assert_eq!(
        plan.collect()
            .unwrap()
            .array()
            .unwrap()
            .to_vec::<i16>()
            .unwrap(),
        [-1, 2, -1]
    );
}

#[test]
fn filters_behind_one_another_become_one_unless_somebody_sees_what_lies_between() {
    let s = Expr::input();
    let windows = Plan::scan(recording(&[1, 2, 3, 4], &[], stream().intern()))
        .rewindow(2)
        .unwrap();
    let first = windows.filter(&s.std().gt(0)).unwrap();
    let second = first.filter(&s.mean().lt(2)).unwrap();
    assert_eq!(
        second
            .collect_with(&Default::default())
            .unwrap()
            .1
            .operators
            .len(),
        4
    );
    let text = second.explain();
    assert!(
        text.contains("filter(predicate=(s.std() > 0) & (s.mean() < 2))"),
        "{text}"
    );
    let both = first.merge(&[second]).unwrap();
    assert!(!both.explain().contains("rewrite"), "{}", both.explain());
    // A stateful filter must see exactly the windows that the first lets pass.
    let remembers = first.filter(&s.mean().previous(0).lt(2)).unwrap();
    assert!(
        !remembers.explain().contains("rewrite"),
        "{}",
        remembers.explain()
    );
}

#[test]
fn an_elementwise_mask_is_refused_with_a_mend() {
    let plan = Plan::scan(recording(&[1, 2, 3], &[], stream().intern()))
        .rewindow(2)
        .unwrap();
    let error = plan.filter(&Expr::input().gt(3)).unwrap_err();
    assert!(matches!(error, PlanError::Predicate { .. }), "{error}");
    assert!(error.to_string().contains(".any()"), "{error}");
    let error = plan.filter(&Expr::input().mean()).unwrap_err();
    assert!(error.to_string().contains("compare"), "{error}");
}

#[test]
fn plans_print_their_expressions_and_come_back_from_json() {
    struct SavedSegments(Segments);
    impl isochrony_flow::Recording for SavedSegments {
        fn port(&self) -> isochrony_flow::PortType {
            self.0.port()
        }
        fn open(
            &self,
            range: Option<std::ops::Range<i64>>,
            segment: u64,
        ) -> Result<Box<dyn isochrony_flow::Source>, isochrony_flow::OpError> {
            self.0.open(range, segment)
        }
        fn saved(&self) -> Option<serde_json::Map<String, serde_json::Value>> {
            serde_json::from_value(serde_json::json!({"store": "x.iso", "signal": "stn/p"})).ok()
        }
    }
    let stored = || {
        SharedRecording::new(SavedSegments(recording(
            &[1, 2, 3, -4, -5, -600],
            &[],
            stream().intern(),
        )))
    };
    let s = Expr::input();
    let plan = Plan::scan_part(stored(), Some(2..6), 100)
        .rewindow(2)
        .unwrap();
    let plan = plan
        .filter(&s.std().gt(10))
        .unwrap()
        .filter(&s.mean().lt(0))
        .unwrap()
        .count()
        .unwrap();
    assert_eq!(
        plan.to_string(),
        "scan(stn/p[2:6], segment=100) -> rewindow(window=2) -> filter(predicate=s.std() > 10) -> filter(predicate=s.mean() < 0) -> count"
    );
    let saved = plan.to_json().unwrap();
    let again = Plan::from_json(&saved, &Catalog::standard(), &|_| Ok(stored())).unwrap();
    assert_eq!(again, plan);
    assert_eq!(again.collect().unwrap(), plan.collect().unwrap());
    assert_eq!(again.collect().unwrap(), PlanOutput::Count(1));
    let unknown = Plan::from_json(&serde_json::json!({"isochrony_plan": 1, "nodes": [{"op": "scan"}, {"op": "wash", "inputs": [[0, 0]]}], "output": [1, 0]}),
        &Catalog::standard(), &|_| Ok(stored())).unwrap_err();
    assert_eq!(unknown.code(), "unknown_operator");
}
