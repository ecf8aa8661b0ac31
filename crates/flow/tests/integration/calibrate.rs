use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanError, Segments, json, operators};
use isochrony_segment::{Calibration, DType, SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};
use serde_json::Value;

fn counts(scale: f64, offset: f64, unit: &str) -> Plan {
    let stream = Stream::new("p", TimebaseId(0), Rate::new(100, 1).unwrap());
    let stream = stream.with_calibration(Calibration::new(scale, offset, unit).unwrap());
    let samples = SigSeg::from_slice(&[0i16, 1, -2, 100], 7, stream.intern()).unwrap();
    Plan::scan(Segments::new([samples]).unwrap())
}

fn calibrate(plan: &Plan, value: Value) -> Result<Plan, PlanError> {
    plan.then::<operators::Calibrate>(value.as_object().unwrap().clone())
}

fn to_unit(plan: &Plan, unit: &str) -> Result<Plan, PlanError> {
    plan.then::<operators::ToUnit>(json!({"unit": unit}).as_object().unwrap().clone())
}

fn values(plan: &Plan) -> Vec<f64> {
    let doubles = plan.map(&Expr::input().astype(DType::F64)).unwrap();
    doubles
        .collect()
        .unwrap()
        .array()
        .unwrap()
        .to_vec()
        .unwrap()
}

#[test]
fn counts_stay_and_values_are_multiplied_and_moved() {
    let plan = calibrate(
        &counts(0.5, 1.0, "V"),
        json!({"gain": 4.0, "offset": -3.0, "unit": "kPa"}),
    )
    .unwrap();
    let collected = plan.collect().unwrap();
    assert_eq!(
        collected.array().unwrap().to_vec::<i16>().unwrap(),
        [0, 1, -2, 100]
    );
    assert_eq!(collected.array().unwrap().parts, [(7, 4)]);
    // 4 (c / 2 + 1) - 3 = 2 c + 1.
    assert_eq!(values(&plan), [1.0, 3.0, -3.0, 201.0]);
    assert_eq!(plan.port().stream().unwrap().calibration.unit(), "kPa");
    let plan = calibrate(&counts(1.0, 0.0, "V"), json!({"gain": 2.0})).unwrap();
    assert_eq!(plan.port().stream().unwrap().calibration.unit(), "V");
}

#[test]
fn values_are_converted_between_units_of_the_same() {
    let plan = to_unit(&counts(0.1, 20.0, "degC"), "K").unwrap();
    let want = [293.15, 293.25, 292.95, 303.15];
    assert!(
        values(&plan)
            .iter()
            .zip(want)
            .all(|(got, want)| (got - want).abs() < 2e-13)
    );
    let plan = to_unit(&to_unit(&counts(2.0, 0.0, "kPa"), "mH2O").unwrap(), "Pa").unwrap();
    assert!(
        values(&plan)
            .iter()
            .zip([0.0, 2000.0, -4000.0, 200_000.0])
            .all(|(got, want)| (got - want).abs() < 1e-9)
    );
}

#[test]
fn units_that_are_unknown_or_measure_something_else_are_refused_by_name() {
    for (from, to, parts) in [
        (
            "kPa",
            "m/s",
            ["unit=\"m/s\"", "the quantity that \"kPa\" measures"],
        ),
        ("kPa", "furlong", ["unit=\"furlong\"", "a known unit"]),
        ("", "Pa", ["\"\" is not", "calibrate(gain=, unit=)"]),
        (
            "counts",
            "V",
            ["unit=\"V\"", "the quantity that \"counts\" measures"],
        ),
    ] {
        let text = to_unit(&counts(1.0, 0.0, from), to)
            .unwrap_err()
            .to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let zero = calibrate(&counts(1.0, 0.0, "V"), json!({"gain": 0.0})).unwrap_err();
    assert!(
        zero.to_string().contains("calibrate: gain=0 must be"),
        "{zero}"
    );
    let windows = counts(1.0, 0.0, "V").rewindow(2).unwrap();
    assert_eq!(
        calibrate(&windows, json!({})).unwrap_err().code(),
        "input_type"
    );
}
