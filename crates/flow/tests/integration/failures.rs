use std::ops::Range;

use isochrony_flow::{
    Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out, Plan, PlanError,
    Port, PortType, Recording, RunError, Segments, SharedRecording, Source, SourceEvent, json,
    operator,
};
use isochrony_segment::{SigSeg, Stream};
use isochrony_store::StoreError;
use isochrony_time::{Rate, TimebaseId};

operator! {
    /// Fails or panics at a sample.
    pub struct Fail = "fail" (Inputs::Exactly(1)) {
        /// Index of the sample.
        at: i64 = "integer" { unit: Samples, range: (0.0, 1e9) },
        /// "error" or "panic".
        how: String = "text" { choices: &["error", "panic"], default: || json!("error") },
    }
    state {}
}

impl Operator for Fail {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if item.range().is_some_and(|range| range.contains(&self.at)) {
            assert!(self.how == "error", "sample {} is cursed", self.at);
            return Err(OpErrorKind::Failed(format!("sample {} is bad", self.at).into()).into());
        }
        Ok(Next::Forward)
    }
}

fn segments() -> Segments {
    let stream = Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern();
    let samples: Vec<i16> = (0..1000).collect();
    Segments::new([SigSeg::from_slice(&samples, 0, stream).unwrap()]).unwrap()
}

fn scan() -> Plan {
    Plan::scan_part(SharedRecording::new(DatedRecording(segments())), None, 10)
}

struct DatedRecording(Segments);

struct DatedPass(Box<dyn Source>);

impl Recording for DatedRecording {
    fn port(&self) -> PortType {
        self.0.port()
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        Ok(Box::new(DatedPass(self.0.open(range, segment)?)))
    }
}

impl Source for DatedPass {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        self.0.pull()
    }

    fn time_of(&self, index: i64) -> Option<String> {
        Some(format!("2010-03-01T00:00:00.{index:03}Z"))
    }
}

#[test]
fn an_error_names_operator_range_and_civil_time() {
    let fail = json!({"at": 123}).as_object().unwrap().clone();
    let plan = scan()
        .passthrough()
        .unwrap()
        .then::<Fail>(fail)
        .unwrap()
        .passthrough()
        .unwrap();
    let error = plan.run().unwrap_err();
    assert_eq!(error.code(), "operator_failed");
    assert_eq!(
        error.to_string(),
        "fail (node 2, samples 120 to 130, 2010-03-01T00:00:00.120Z): sample 123 is bad"
    );
}

#[test]
fn a_panic_ends_the_run_and_not_the_process() {
    let fail = json!({"at": 5, "how": "panic"})
        .as_object()
        .unwrap()
        .clone();
    let error = scan()
        .then::<Fail>(fail)
        .unwrap()
        .count()
        .unwrap()
        .collect()
        .unwrap_err();
    assert_eq!(error.code(), "operator_panicked");
    assert!(error.to_string().contains("sample 5 is cursed"), "{error}");
    let RunError::Operator { node, range, .. } = error else {
        panic!("{error}")
    };
    assert_eq!((node, range), (1, Some(0..10)));
}

#[test]
fn every_refusal_says_what_where_and_how_to_mend() {
    let scan = scan();
    let windows = scan.rewindow(10).unwrap();
    let none = serde_json::Map::new;
    let with = |value: serde_json::Value| value.as_object().unwrap().clone();
    let cases: Vec<(PlanError, &str, &[&str])> = vec![
        (
            isochrony_flow::Catalog::standard().get("wash").unwrap_err(),
            "unknown_operator",
            &["wash", "rewindow"],
        ),
        (
            scan.zip(&[]).unwrap_err(),
            "inputs",
            &["zip", "2 or more", "1"],
        ),
        (
            windows.rewindow(3).unwrap_err(),
            "input_type",
            &["rewindow", "samples", "frames[int16, window 10]", "put"],
        ),
        (
            scan.zip(std::slice::from_ref(&windows)).unwrap_err(),
            "inputs_differ",
            &["zip", "input 1", "frames", "zip samples"],
        ),
        (
            scan.then::<Fail>(with(json!({"at": 1, "when": 2})))
                .unwrap_err(),
            "unknown_parameter",
            &["when", "at, how"],
        ),
        (
            scan.then::<Fail>(none()).unwrap_err(),
            "missing_parameter",
            &["fail", "at", "Index of the sample"],
        ),
        (
            scan.then::<Fail>(with(json!({"at": -1}))).unwrap_err(),
            "parameter",
            &["at=-1", "from 0 to 1e9 samples"],
        ),
        (
            scan.then::<Fail>(with(json!({"at": 1.5}))).unwrap_err(),
            "parameter",
            &["1.5", "an integer"],
        ),
        (
            scan.then::<Fail>(with(json!({"at": 1, "how": "x"})))
                .unwrap_err(),
            "parameter",
            &["error, panic"],
        ),
        (
            scan.rewindow(0).unwrap_err(),
            "parameter",
            &["window=0", "from 1"],
        ),
        (
            scan.rewindow(1 << 40).unwrap().power().unwrap_err(),
            "too_large",
            &[
                "power",
                "window=1099511627776",
                "70368744177664 bytes",
                "make window smaller",
            ],
        ),
        (
            Plan::scan(segments()).to_json().unwrap_err(),
            "not_saveable",
            &["memory", "store them"],
        ),
        (
            scan.to_json().unwrap_err(),
            "not_saveable",
            &["makes its samples in this process", "record them"],
        ),
        (
            PlanError::recording(
                "stn/mic",
                &StoreError::NoSuchSignal {
                    name: "stn/mic".into(),
                    hint: String::new(),
                },
            ),
            "no_recording",
            &["stn/mic", "no signal", "restore stn/mic"],
        ),
        (
            PlanError::recording(
                "stn/mic",
                &StoreError::MissingFolder {
                    signal: "stn/mic".into(),
                    path: "a.iso/stn/mic".into(),
                },
            ),
            "damaged_recording",
            &["stn/mic", "exists but cannot be opened", "copy it back"],
        ),
        (
            scan.output(3).unwrap_err(),
            "no_such_output",
            &["scan", "1 output(s)", "3"],
        ),
    ];
    for (error, code, parts) in cases {
        assert_eq!(error.code(), code, "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{error} lacks {part:?}");
        }
    }
}

#[test]
fn broken_saved_plans_are_refused() {
    let catalog = isochrony_flow::Catalog::standard();
    let live = || {
        SharedRecording::new(
            Segments::new([SigSeg::from_slice(&[1i16], 0, stream()).unwrap()]).unwrap(),
        )
    };
    let broken = [
        json!(null),
        json!({"isochrony_plan": 2}),
        json!({"isochrony_plan": 1, "nodes": 3}),
        json!({"isochrony_plan": 1, "nodes": [{}], "output": [0, 0]}),
        json!({"isochrony_plan": 1, "nodes": [], "output": [0, 0]}),
        json!({"isochrony_plan": 1, "nodes": [{"op": "count", "inputs": [[0, 0]]}], "output": [0, 0]}),
        json!({"isochrony_plan": 1, "nodes": [{"op": "count", "inputs": []}], "output": [0, 0]}),
        json!({"isochrony_plan": 1, "nodes": [{"op": "scan", "range": "all"}], "output": [0, 0]}),
        json!({"isochrony_plan": 1, "nodes": [{"op": "scan", "of": 3}], "output": [0, 0]}),
        json!({"isochrony_plan": 1, "nodes": [{"op": "scan"}], "output": "last"}),
    ];
    for saved in broken {
        let error = Plan::from_json(&saved, &catalog, &|_| Ok(live())).unwrap_err();
        assert_eq!(error.code(), "unreadable_plan", "{saved}: {error}");
    }
}

#[test]
fn a_misspelt_name_in_a_saved_plan_is_located_and_the_right_one_proposed() {
    let catalog = isochrony_flow::Catalog::standard();
    let live = || {
        SharedRecording::new(
            Segments::new([SigSeg::from_slice(&[1i16], 0, stream()).unwrap()]).unwrap(),
        )
    };
    let refused = |node: serde_json::Value| {
        let nodes = json!([{"op": "scan"}, node]);
        let saved = json!({"isochrony_plan": 1, "nodes": nodes, "output": [1, 0]});
        let error = Plan::from_json(&saved, &catalog, &|_| Ok(live())).unwrap_err();
        (error.code(), error.to_string())
    };
    let inputs = json!([[0, 0]]);
    let (code, said) =
        refused(json!({"op": "rewindow", "params": {"windows": 10}, "inputs": inputs}));
    assert_eq!(code, "unknown_parameter");
    let start = "node 1 of the saved plan: rewindow has no parameter \"windows\" (did you mean window?); it takes window, ";
    assert!(said.starts_with(start), "{said}");
    let (code, said) = refused(json!({"op": "rewindow", "params": {}, "inputs": inputs}));
    assert_eq!(code, "missing_parameter");
    assert_eq!(
        said,
        "node 1 of the saved plan: rewindow needs window (Samples per window); give window="
    );
    let (code, said) = refused(json!({"op": "rewind", "inputs": inputs}));
    assert_eq!(code, "unknown_operator");
    assert_eq!(
        said,
        "node 1 of the saved plan: no operator is called \"rewind\"; did you mean \"rewindow\"? `isochrony operators` lists all"
    );
    let (_, said) = refused(json!({"op": "polish", "inputs": inputs}));
    assert!(said.contains("choose from calibrate, "), "{said}");
}

fn stream() -> isochrony_segment::StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}
