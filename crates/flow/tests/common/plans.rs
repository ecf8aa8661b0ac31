//! Random plans.

use isochrony_expr::Expr;
use isochrony_flow::operators::{GroupBy, TrimPeak};
use isochrony_flow::{Catalog, Plan, PlanError, PortType, Stat};
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Debug, Clone)]
pub(crate) enum Step {
    Pass,
    Map(usize),
    Filter(usize),
    Between(i64, i64),
    Windows(u64, u64),
    Power,
    Fft,
    Stats,
    TrimPeak,
    Limit(u64),
    Groups(bool),
    TimedGroups(usize, bool),
    /// An operator with context: name and parameters.
    Around(usize),
    Settling(usize),
    Zip(usize),
    Merge(usize),
    Other(usize),
    MapBoth(usize),
    FilterBoth(usize),
    /// In one of three ways; by starts or overlap.
    Join(usize, usize, bool),
    From(usize),
}

pub(crate) fn maps(s: &Expr) -> Vec<Expr> {
    vec![
        s * 3,
        s.abs() + 1.5,
        s - s.mean(),
        s.max() - s.min(),
        (s * s).sum(),
        s / (s.std() + 1.0),
        s.abs().sqrt(),
        Expr::constant(7),
        s.gt(3),
    ]
}

pub(crate) fn filters(s: &Expr) -> Vec<Expr> {
    vec![
        s.std().gt(400),
        s.mean().lt(0.5),
        s.max().gt(900),
        s.abs().gt(1000).any(),
        s.std().ewm(0.5).gt(300),
    ]
}

/// Exact, given context.
pub(crate) fn around() -> Vec<(&'static str, Value)> {
    vec![
        (
            "fir",
            json!({"taps": [0.5, -1.0, 0.25], "method": "direct"}),
        ),
        (
            "fir",
            json!({"taps": [0.1, 0.3, 0.5, 1.0, 0.5, 0.3, 0.1], "method": "direct", "delay": "centred"}),
        ),
        (
            "resample",
            json!({"down": 10, "attenuation_db": 20.0, "passband": 0.3}),
        ),
        (
            "resample",
            json!({"up": 2, "down": 5, "attenuation_db": 20.0, "passband": 0.4, "edges": "steady"}),
        ),
        (
            "resample",
            json!({"up": 3, "down": 2, "attenuation_db": 20.0, "passband": 0.3, "edges": "zeros"}),
        ),
        (
            "stream_envelope",
            json!({"low_hz": 300.0, "attenuation_db": 30.0}),
        ),
        ("running_quantile", json!({"window": 0.008, "q": 0.4})),
        (
            "ca_cfar",
            json!({"pfa": 0.01, "training": 3, "guard": 1, "order": 0.7}),
        ),
    ]
}

pub(crate) fn settling() -> Vec<(&'static str, Value)> {
    vec![
        (
            "iir",
            json!({"band": "lowpass", "cutoff_hz": 300.0, "order": 2}),
        ),
        (
            "iir",
            json!({"band": "bandpass", "cutoff_hz": [200.0, 700.0], "order": 1, "initial": "steady"}),
        ),
        ("notch", json!({"hz": 400.0, "q": 1.0})),
        (
            "fir",
            json!({"taps": [0.1, 0.3, 0.5, 1.0, 0.5, 0.3, 0.1], "method": "fft", "delay": "centred"}),
        ),
        ("running_mean", json!({"window": 0.006})),
        ("running_rms", json!({"window": 0.02})),
        ("stalta", json!({"sta": 0.002, "lta": 0.006})),
        ("ca_cfar", json!({"pfa": 0.01, "training": 3, "guard": 1})),
    ]
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        Just(Step::Pass),
        (0..maps(&Expr::input()).len()).prop_map(Step::Map),
        (0..maps(&Expr::input()).len()).prop_map(Step::Map),
        (0..filters(&Expr::input()).len()).prop_map(Step::Filter),
        (0..filters(&Expr::input()).len()).prop_map(Step::Filter),
        (-20i64..900, 0i64..700).prop_map(|(a, len)| Step::Between(a, a + len)),
        (1u64..40, 1u64..50).prop_map(|(window, hop)| Step::Windows(window, hop)),
        Just(Step::Power),
        Just(Step::Fft),
        Just(Step::Stats),
        Just(Step::TrimPeak),
        (0u64..60).prop_map(Step::Limit),
        any::<bool>().prop_map(Step::Groups),
        (0..spans().len(), any::<bool>()).prop_map(|(k, keyed)| Step::TimedGroups(k, keyed)),
        (0..around().len()).prop_map(Step::Around),
        (0..around().len()).prop_map(Step::Around),
        (0..settling().len()).prop_map(Step::Settling),
        (0usize..6).prop_map(Step::Zip),
        (0usize..6).prop_map(Step::Merge),
        (1usize..6).prop_map(Step::Other),
        (1usize..6).prop_map(Step::MapBoth),
        (1usize..6).prop_map(Step::FilterBoth),
        (0usize..6, 0usize..3, any::<bool>())
            .prop_map(|(back, how, near)| Step::Join(back, how, near)),
        (0usize..6).prop_map(Step::From),
    ];
    prop::collection::vec(step, 1..10)
}

pub(crate) fn named(
    plan: &Plan,
    (name, params): &(&'static str, Value),
) -> Result<Plan, PlanError> {
    let declaration = *Catalog::standard().get(name).unwrap();
    plan.apply(&declaration, params.as_object().unwrap().clone(), &[])
}

fn groups(rows: &Plan, keyed: bool) -> Result<Plan, PlanError> {
    let keys: &[&str] = if keyed { &["max"] } else { &[] };
    let exact = [
        ("rows", json!("count")),
        ("least", json!(["mean", "min"])),
        ("first", json!(["start", "first"])),
        ("last", json!(["mean", "last"])),
        ("starts", json!(["start", "sum"])),
    ];
    rows.group_by(keys, exact)
}

fn spans() -> Vec<Value> {
    vec![
        json!({"every": "61 samples"}),
        json!({"every": 0.01, "period": 0.025}),
        json!({"every": "90 samples", "period": "20 samples"}),
        json!({"session": 0.002}),
    ]
}

/// Sums are added in row order.
fn timed_groups(rows: &Plan, span: usize, keyed: bool) -> Result<Plan, PlanError> {
    let again =
        matches!(rows.port(), PortType::Rows { fields, .. } if fields.find("sum").is_some());
    let field = if again { "sum" } else { "mean" };
    let mut params = spans()[span].clone();
    params["keys"] = match keyed && !again {
        true => json!(["max"]),
        false => json!([]),
    };
    params["aggregates"] = json!({
        "n": "count",
        "sum": [field, "sum"],
        "spread": [field, "std"],
        "last": [field, "last"],
    });
    rows.then::<GroupBy>(params.as_object().unwrap().clone())
}

fn joined(rows: &Plan, others: &Plan, how: usize, near: bool) -> Result<Plan, PlanError> {
    let how = ["inner", "left", "outer"][how];
    let params = json!({"how": how, "tolerance": near.then_some(0.02)});
    let declaration = *Catalog::standard().get("join").unwrap();
    let params = params.as_object().unwrap().clone();
    rows.apply(&declaration, params, std::slice::from_ref(others))
}

pub(crate) fn plan(scan: Plan, steps: &[Step]) -> Plan {
    plans(scan, steps).pop().unwrap()
}

pub(crate) fn plans(scan: Plan, steps: &[Step]) -> Vec<Plan> {
    let s = Expr::input();
    let mut been = vec![scan];
    for step in steps {
        let now = been.last().unwrap().clone();
        let earlier = |back: &usize| been[been.len().saturating_sub(1 + back)].clone();
        let next = match step {
            Step::Pass => now.passthrough(),
            Step::Map(k) => now.map(&maps(&s)[*k]),
            Step::Filter(k) => now.filter(&filters(&s)[*k]),
            Step::Between(a, b) => now.between(*a..*b),
            Step::Windows(window, hop) => now.rewindow_every(*window, *hop),
            Step::Power => now.power(),
            Step::Fft => now.fft(),
            // Sums of all samples depend on the tasks.
            Step::Stats if matches!(now.port(), PortType::Samples { .. }) => {
                now.stats([Stat::Min, Stat::Max, Stat::Count])
            }
            Step::Stats => now.stats([Stat::Mean, Stat::Max]),
            Step::TrimPeak => now.then::<TrimPeak>(serde_json::Map::new()),
            Step::Limit(count) => now.limit(*count),
            Step::Groups(keyed) => groups(&now, *keyed),
            Step::TimedGroups(span, keyed) => timed_groups(&now, *span, *keyed),
            Step::Around(k) => named(&now, &around()[*k]),
            Step::Settling(k) => named(&now, &settling()[*k]),
            Step::Zip(back) => now.zip(&[earlier(back)]),
            Step::Merge(back) => now.merge(&[earlier(back)]),
            Step::Other(back) => now.zip(&[earlier(back)]).and_then(|both| both.output(1)),
            Step::MapBoth(back) => now.map_with(&(&s - Expr::input_at(1)), &[earlier(back)]),
            Step::FilterBoth(back) => {
                now.filter_with(&s.max().gt(Expr::input_at(1).mean()), &[earlier(back)])
            }
            Step::Join(back, how, near) => joined(&now, &earlier(back), *how, *near),
            Step::From(back) => Ok(earlier(back)),
        };
        been.extend(next);
    }
    been
}

pub(crate) fn prefix() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0usize..2).prop_map(Step::Map),
        (0..around().len()).prop_map(Step::Around),
        (1u64..40, 1u64..50).prop_map(|(window, hop)| Step::Windows(window, hop)),
    ];
    prop::collection::vec(step, 1..4)
}
