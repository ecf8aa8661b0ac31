#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;
use std::sync::{Arc, Mutex};

use isochrony_flow::{
    Catalog, GeneratedRecording, Inputs, Item, Next, OpError, OpErrorKind, Operator,
    OperatorFactory, OperatorProperties, Out, Plan, PlanError, PlanOutput, Port, PortType,
    RunError, RunOptions, SEGMENT_SAMPLES, Segments, SharedFactory, SharedRecording, json,
    operator,
};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Fixed, Rate, TimebaseId};
use proptest::prelude::*;
use serde_json::{Map, Value};

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn segment(range: Range<i64>) -> SigSeg {
    let samples: Vec<i32> = range.clone().map(|i| i as i32).collect();
    SigSeg::from_slice(&samples, range.start, stream()).unwrap()
}

fn generated(ranges: Vec<Range<i64>>) -> GeneratedRecording {
    GeneratedRecording::new(DType::I32, stream(), move || {
        let mut left = ranges.clone().into_iter();
        Ok(Box::new(move || Ok(left.next().map(segment))))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn generated_samples_are_those_of_segments_in_memory(
        parts in prop::collection::vec((0i64..3, 1i64..40), 1..12), cut in 1u64..60, from in 0i64..90, len in 1i64..200,
        whole in any::<bool>(), window in 1u64..20, hop in 1u64..20,
    ) {
        let mut end = 0;
        let ranges: Vec<Range<i64>> = parts.iter().map(|(gap, len)| {
            let start = end + gap;
            end = start + len;
            start..end
        }).collect();
        let range = (!whole).then_some(from..from + len);
        let stored = Segments::new(ranges.iter().cloned().map(segment)).unwrap();
        let expected = Plan::scan_part(SharedRecording::new(stored), range.clone(), SEGMENT_SAMPLES);
        let made = Plan::scan_part(SharedRecording::new(generated(ranges)), range, cut);
        prop_assert_eq!(made.collect().unwrap(), expected.collect().unwrap());
        let windows = |plan: &Plan| plan.rewindow_every(window, hop).unwrap().collect().unwrap();
        prop_assert_eq!(windows(&made), windows(&expected));
        prop_assert_eq!(windows(&made), windows(&made));
    }
}

#[test]
fn indices_that_go_back_end_the_run_and_say_when() {
    let recording = generated(vec![0..10, 5..20]).starting(Fixed::from_int(0));
    let error = Plan::scan(recording).collect().unwrap_err();
    assert_eq!(error.code(), "operator_failed");
    for part in ["scan", "index 5", "up to 10", "in order of their indices"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[test]
fn each_sees_every_item_in_order_and_may_end_the_run() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&seen);
    let plan = Plan::scan_part(
        SharedRecording::new(generated(vec![0..10, 12..20])),
        None,
        4,
    );
    let shown = plan.each(move |item| {
        kept.lock().unwrap().push(item.range().unwrap());
        Ok(())
    });
    let count = shown.unwrap().count().unwrap().collect().unwrap();
    assert_eq!(count, PlanOutput::Count(18));
    assert_eq!(*seen.lock().unwrap(), [0..4, 4..8, 8..10, 12..16, 16..20]);
    let fails = plan.each(|item| match item.range() {
        Some(range) if range.start == 8 => Err("enough".into()),
        _ => Ok(()),
    });
    let error = fails.unwrap().run().unwrap_err();
    assert_eq!(error.to_string(), "each (node 1, samples 8 to 10): enough");
}

#[test]
fn plans_run_as_one_share_what_they_have_in_common() {
    let windows = Plan::scan(generated(vec![0..100, 110..150]))
        .rewindow(10)
        .unwrap();
    let count = windows.count().unwrap();
    let first = windows.limit(2).unwrap();
    let options = RunOptions::default();
    let (gathered, report) =
        Plan::collect_all(&[count.clone(), first.clone(), count.clone()], &options).unwrap();
    assert_eq!(gathered[0], PlanOutput::Count(14));
    assert_eq!(gathered[2], PlanOutput::Count(14));
    assert_eq!(gathered[1], first.collect().unwrap());
    let scans = report.operators.iter().filter(|one| one.name == "scan");
    assert_eq!(scans.count(), 1);
    let report = Plan::run_all(&[count, first], &options).unwrap();
    assert_eq!(report.operators.len(), 4);
}

operator! {
    /// Declares a count and has none.
    pub struct Silent = "silent" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Silent {
    fn bind(&mut self, _: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new([PortType::Count]))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Consumed)
    }
}

operator! {
    /// Declares samples but forwards its input.
    pub struct Liar = "liar" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Liar {
    fn bind(&mut self, _: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let (dtype, stream) = (DType::I32, stream());
        Ok(OperatorProperties::new([PortType::Samples {
            dtype,
            stream,
        }]))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}

#[test]
fn errors_of_a_run_say_what_where_and_how_to_mend() {
    let scan = Plan::scan(generated(vec![0..100, 100..200]));
    let error = scan
        .then::<Silent>(Map::new())
        .unwrap()
        .collect()
        .unwrap_err();
    assert_eq!(error.code(), "no_result");
    for part in ["silent (node 1)", "Operator::result", "count"] {
        assert!(error.to_string().contains(part), "{error}");
    }

    let liar = scan.rewindow(10).unwrap().then::<Liar>(Map::new()).unwrap();
    let error = liar.rewindow(5).unwrap().collect().unwrap_err();
    assert_eq!(error.code(), "wrong_item");
    for part in [
        "rewindow (node 3, samples 0 to 100)",
        "got frames",
        "type of the input is samples",
        "operator before",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }

    let mut options = RunOptions::default();
    options.memory = 100;
    let error = scan
        .rewindow(150)
        .unwrap()
        .collect_with(&options)
        .unwrap_err();
    assert_eq!(error.code(), "memory_cap");
    for part in [
        "rewindow",
        "1024 more bytes",
        "memory=100 bytes",
        "(0 in use)",
        "memory=",
    ] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

struct Plus(i64);

impl OperatorFactory for Plus {
    fn name(&self) -> &'static str {
        "plus"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Liar::default()))
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        Ok(json!({"n": self.0}).as_object().unwrap().clone())
    }
}

#[test]
fn saved_factory_operators_are_made_by_the_catalog() {
    let mut saved = Map::new();
    saved.insert("x".into(), json!(1));
    let live = || {
        let saved = json!({"store": "a", "signal": "b"});
        SharedRecording::new(generated(vec![0..9]).saved_as(saved.as_object().unwrap().clone()))
    };
    let plan = Plan::scan_part(live(), None, SEGMENT_SAMPLES)
        .apply_factory(SharedFactory::new(Plus(3)), &[])
        .unwrap();
    assert_eq!(plan.to_string(), "scan(stn/p) -> plus");
    let catalog = Catalog::standard().with_factory("plus", |saved, inputs| {
        assert_eq!(inputs.len(), 1);
        Ok(SharedFactory::new(Plus(saved["n"].as_i64().unwrap())))
    });
    let json = plan.to_json().unwrap();
    let again = Plan::from_json(&json, &catalog, &|_| Ok(live())).unwrap();
    assert_eq!(again, plan);
    let other = Plan::scan_part(live(), None, SEGMENT_SAMPLES)
        .apply_factory(SharedFactory::new(Plus(4)), &[])
        .unwrap();
    assert_ne!(other, plan);
    let error = Plan::from_json(&json, &Catalog::standard(), &|_| Ok(live())).unwrap_err();
    assert_eq!(error.code(), "unknown_operator");
    let error = plan.each(|_| Ok(())).unwrap().to_json().unwrap_err();
    assert_eq!(error.code(), "not_saveable");
    for part in ["each", "a function of this process", "expression"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let samples = SharedRecording::new(Segments::new([segment(0..10)]).unwrap());
    let sendable = Plan::scan_part(samples, None, SEGMENT_SAMPLES);
    assert!(sendable.to_sent().is_ok());
    let refused = [
        (sendable.each(|_| Ok(())).unwrap(), "each"),
        (plan, "scan(stn/p)"),
    ];
    for (plan, step) in refused {
        let Err(error) = plan.to_sent() else {
            panic!("a closure was sent")
        };
        assert_eq!(error.code(), "not_picklable");
        for part in [step, "of this process", "build the plan"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

#[test]
fn a_failed_operator_names_the_time_of_generated_samples() {
    let made = generated(vec![0..10_000]).starting(Fixed::from_int(1_267_401_600_000_000_000));
    let plan = Plan::scan_part(SharedRecording::new(made), None, 4000);
    let plan = plan.each(|item| match item.range() {
        Some(range) if range.start == 8000 => Err("late".into()),
        _ => Ok(()),
    });
    let error = plan.unwrap().run().unwrap_err();
    assert!(error.to_string().contains("2010-03-01T00:00:04"), "{error}");
    let RunError::Operator { error, .. } = error else {
        panic!("{error}")
    };
    assert!(matches!(error.kind(), OpErrorKind::Failed(_)));
}
