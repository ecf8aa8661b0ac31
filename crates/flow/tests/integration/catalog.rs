use std::path::Path;

use isochrony_flow::operators::{Iir, Rewindow, StaLta, Xcorr};
use isochrony_flow::{
    Catalog, Inputs, Length, OperatorBuilder, OperatorType, Param, Plan, ResultTolerance, Segments,
    Unit, json, operator,
};
use isochrony_segment::{SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};

fn declared(folder: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            declared(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text
            .lines()
            .filter(|line| line.starts_with("    pub struct ") && line.contains("(Inputs::"));
        names.extend(lines.map(|line| line.split('"').nth(1).unwrap().to_owned()));
    }
}

#[test]
fn every_declared_operator_is_registered() {
    let mut names = Vec::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/operators");
    declared(&source, &mut names);
    names.sort();
    let catalog = Catalog::standard();
    let mut known: Vec<&str> = catalog.iter().map(|one| one.name).collect();
    known.sort_unstable();
    assert!(known.len() > 50);
    assert_eq!(names, known);
}

#[test]
fn defaults_are_legal() {
    for declaration in Catalog::standard().iter() {
        for param in declaration.params {
            let default = param.default.map(|default| default());
            if let Some(default) = default.filter(|default| !default.is_null()) {
                let checked = param.check(declaration.name, &default);
                assert!(checked.is_ok(), "{checked:?}");
            }
        }
    }
}

#[test]
fn parameters_refuse_other_kinds_choices_and_values_out_of_range() {
    let number = Param::new("at", "", "numbers").range((0.0, 1.0));
    let count = Param::new("clusters", "", "integers").range((0.0, f64::MAX));
    let any = Param::new("on", "", "number").range((f64::MIN, f64::MAX));
    let below = Param::new("gain", "", "number").range((f64::MIN, 3.0));
    let share = Param::new("share", "", "number").above(0.0).below(0.5);
    let share = share.unit(Unit::Decibels);
    let hop = Param::new("hop", "", "integer").at_least(1.0);
    let hop = hop.unit(Unit::Of("cells"));
    let text = Param::new("kind", "", "text").choices(&["a", "b"]);
    let cases = [
        (number, json!([0.0, 0.5, 1.0]), ""),
        (
            number,
            json!([0.5, 2.0]),
            "at=[0.5,2.0] must be a number or a list of numbers from 0 to 1;",
        ),
        (number, json!(-1), "at=-1 must be"),
        (number, json!("0.5"), "at=\"0.5\" must be"),
        (count, json!([0, 3]), ""),
        (
            count,
            json!([0, -3]),
            "clusters=[0,-3] must be a list of whole numbers from 0;",
        ),
        (
            share,
            json!(0.0),
            "share=0.0 must be a finite number above 0 and below 0.5 dB;",
        ),
        (
            share,
            json!(0.5),
            "share=0.5 must be a finite number above 0 and below 0.5 dB;",
        ),
        (share, json!(0.499), ""),
        (hop, json!(0), "hop=0 must be an integer from 1, in cells;"),
        (count, json!([0.5]), "clusters=[0.5] must be"),
        (any, json!(-1e200), ""),
        (any, json!(null), "on=null must be a finite number;"),
        (below, json!(4), "gain=4 must be a finite number at most 3;"),
        (text, json!("b"), ""),
        (text, json!("c"), "kind=\"c\" must be one of a, b;"),
    ];
    for (param, value, part) in cases {
        match param.check("any", &value) {
            Ok(()) => assert_eq!(part, "", "{value} is accepted"),
            Err(error) => {
                let error = error.to_string();
                assert!(!part.is_empty() && error.contains(part), "{error}");
            }
        }
    }
}

fn scan() -> Plan {
    let stream = Stream::new("noise", TimebaseId(0), Rate::new(100, 1).unwrap()).intern();
    let noise = SigSeg::from_slice(&[0.5f64; 40], 0, stream).unwrap();
    Plan::scan(Segments::new([noise]).unwrap())
}

#[test]
fn builders_set_parameters_and_leave_defaults() {
    let (declaration, params) = StaLta::builder().sta(0.1).lta(0.3).into_parts();
    assert_eq!(declaration.name, "stalta");
    assert_eq!(json!(params), json!({"sta": 0.1, "lta": 0.3}));
    let plan = scan()
        .add(Iir::builder().band("bandpass").cutoff_hz(vec![5.0, 20.0]))
        .unwrap();
    assert_eq!(
        plan.to_string(),
        "scan(noise) -> iir(band=\"bandpass\", cutoff_hz=[5.0,20.0])"
    );
}

#[test]
fn builders_take_further_inputs_and_miss_what_must_be_given() {
    let windows = scan().rewindow(10).unwrap();
    let both = windows.add_with(
        Xcorr::builder().max_lag(3u64),
        std::slice::from_ref(&windows),
    );
    assert!(both.is_ok());
    let error = scan().add(StaLta::builder().sta(0.1)).unwrap_err();
    assert_eq!(error.code(), "missing_parameter");
    let error = scan()
        .add(StaLta::builder().sta(-1.0).lta(1.0))
        .unwrap_err();
    assert_eq!(error.code(), "parameter");
}

#[test]
fn builders_take_lengths_and_plans_state_samples() {
    let length = |text: &str| text.parse::<Length>().unwrap();
    let windows = Rewindow::builder()
        .window(length("50ms"))
        .hop(length("2 samples"));
    let plan = scan().add(windows).unwrap();
    assert_eq!(plan.to_string(), "scan(noise) -> rewindow(window=5, hop=2)");
    let plan = scan()
        .add(
            StaLta::builder()
                .sta(length("100ms"))
                .lta(Length::Samples(30)),
        )
        .unwrap();
    let written = "scan(noise) -> stalta(sta=0.1, lta=\"30 samples\")";
    assert_eq!(plan.to_string(), written);
    let none = scan().add(Rewindow::builder().window(length("1ms")));
    let error = none.unwrap_err().to_string();
    assert!(error.contains("which is 0 samples at 100 Hz"), "{error}");
}

#[test]
fn declarations_are_read_in_sections() {
    let catalog = Catalog::standard();
    let stalta = catalog.get("stalta").unwrap();
    assert_eq!(stalta.family(), "detection");
    assert!(
        stalta
            .summary()
            .ends_with("(STA/LTA), for triggering on onsets.")
    );
    assert!(stalta.section("Example").starts_with(">>> import"));
    assert_eq!(stalta.section("Nothing"), "");
    assert_eq!(
        stalta.to_json()["module"],
        "isochrony_flow::operators::detection::stalta"
    );
    let fir = catalog.get("fir").unwrap();
    assert_eq!(
        fir.alternatives[0],
        ("direct", ResultTolerance::Tolerance(1e-14))
    );
    assert_eq!(fir.to_json()["alternatives"][1][0], "fft");
}

operator! {
    /// Does nothing.
    ///
    /// # Inputs
    /// Anything.
    ///
    /// # Example
    /// ```python
    /// >>> import isochrony as iso
    /// # Returns
    /// # a comment
    /// >>> iso.scan
    /// ```
    /// # Errors
    /// None.
    pub struct Idle = "idle" (Inputs::Exactly(1)) {}
    state {}
}

impl isochrony_flow::Operator for Idle {
    fn bind(
        &mut self,
        inputs: &[isochrony_flow::PortType],
    ) -> Result<isochrony_flow::OperatorProperties, isochrony_flow::PlanError> {
        Ok(isochrony_flow::OperatorProperties::new(
            inputs.iter().copied(),
        ))
    }

    fn process(
        &mut self,
        _: isochrony_flow::Port,
        _: &mut isochrony_flow::Item,
        _: &mut isochrony_flow::Out<'_>,
    ) -> Result<isochrony_flow::Next, isochrony_flow::OpError> {
        Ok(isochrony_flow::Next::Forward)
    }
}

#[test]
fn comments_of_an_example_end_no_section() {
    let example = Idle::DECLARATION.section("Example");
    let lines: Vec<&str> = example.lines().map(str::trim).collect();
    assert_eq!(
        lines,
        [
            ">>> import isochrony as iso",
            "# Returns",
            "# a comment",
            ">>> iso.scan"
        ]
    );
    assert_eq!(Idle::DECLARATION.section("Errors"), "None.");
    assert_eq!(Idle::DECLARATION.section("Returns"), "");
}

#[test]
fn every_heading_is_that_of_a_section() {
    for declaration in Catalog::standard().iter() {
        let mut is_code = false;
        for line in declaration.doc.lines().map(str::trim) {
            is_code ^= line.starts_with("```");
            if let Some(heading) = line.strip_prefix("# ").filter(|_| !is_code) {
                let section = declaration.section(heading);
                assert_ne!(section, "", "{}: {heading}", declaration.name);
            }
        }
    }
}
