//! Operators are registered and declared completely, and built by typed builders.

use std::path::Path;

use isochrony_flow::operators::{Iir, StaLta, Xcorr};
use isochrony_flow::{Catalog, OperatorBuilder, Plan, ResultTolerance, Segments, json};
use isochrony_segment::{SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};

/// Names in the `operator!` declarations below a folder.
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
            if let (Some(low_high), Some(Some(value))) = (param.range, default.map(|d| d.as_f64()))
            {
                assert!(
                    (low_high.0..=low_high.1).contains(&value),
                    "{}",
                    declaration.name
                );
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
    let fir = catalog.get("fir").unwrap();
    assert_eq!(
        fir.alternatives[0],
        ("direct", ResultTolerance::BitIdentical)
    );
    assert_eq!(fir.to_json()["alternatives"][1][0], "fft");
}
