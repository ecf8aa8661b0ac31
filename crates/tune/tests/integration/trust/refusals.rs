//! Features that cannot be judged, and unreadable weights.

use isochrony_tune::trust::{LinkFeatures, Model, Reason, TrustClassifier};
use proptest::prelude::*;

use super::rows;

const WEIGHTS: &str = include_str!("../../../src/trust/weights.json");

fn features() -> LinkFeatures {
    let classifier = TrustClassifier::builtin().unwrap();
    let rows = rows::held_out().into_iter();
    let mut trusted = rows.filter(|row| classifier.verdict(&row.features).trusted.is_some());
    trusted.next().unwrap().features
}

fn why(features: &LinkFeatures) -> String {
    let verdict = TrustClassifier::builtin().unwrap().verdict(features);
    assert_eq!(
        (verdict.trusted, verdict.score),
        (None, f64::NEG_INFINITY),
        "{}",
        verdict.why
    );
    verdict.why.to_string()
}

#[test]
fn values_that_cannot_be_are_named() {
    type Change = fn(&mut LinkFeatures);
    let cases: [(Change, &str); 10] = [
        (
            |f| f.items = 0,
            "items=0 cannot be judged; it must be at least 1: measure the link for longer",
        ),
        (
            |f| f.capacity = 0,
            "capacity=0 cannot be judged; it must be at least 1",
        ),
        (
            |f| f.interarrival_s = f64::NAN,
            "interarrival_s=NaN cannot be judged; it must be finite and above 0",
        ),
        (|f| f.interarrival_s = 1e-320, "interarrival_s=0.00000"),
        (
            |f| f.service_s = -1.0,
            "service_s=-1 cannot be judged; it must be finite and above 0",
        ),
        (
            |f| f.interarrival_cv = f64::INFINITY,
            "interarrival_cv=inf cannot be judged; it must be finite and at least 0",
        ),
        (
            |f| f.service_cv = -0.1,
            "service_cv=-0.1 cannot be judged; it must be finite and at least 0",
        ),
        (
            |f| f.writer_wait_share = 1.5,
            "writer_wait_share=1.5 cannot be judged; it must be 0 to 1",
        ),
        (
            |f| f.reader_wait_share = f64::NAN,
            "reader_wait_share=NaN cannot be judged; it must be 0 to 1",
        ),
        (
            |f| f.occupancy = [0; 9],
            "occupancy=0 cannot be judged; it must be a count of at least one item sent",
        ),
    ];
    for (change, text) in cases {
        let mut features = features();
        change(&mut features);
        let found = why(&features);
        assert!(found.starts_with(text), "{found}");
    }
}

#[test]
fn values_outside_the_trained_range_are_not_trusted() {
    type Change = fn(&mut LinkFeatures);
    let cases: [(Change, &str); 5] = [
        (
            |f| f.service_s = 5.0 * f.interarrival_s,
            "utilization=5 is outside the trained range of 0.0",
        ),
        (|f| f.capacity = usize::MAX, "ln_capacity=44.3"),
        (|f| f.items = 3, "ln_items=1.09"),
        (|f| f.service_cv = 1e6, "ln_service_cv=13.8"),
        (
            |f| f.writer_wait_share = 1.0,
            "writer_wait_share=1 is outside the trained range of 0 to 0.",
        ),
    ];
    for (change, text) in cases {
        let mut features = features();
        change(&mut features);
        let found = why(&features);
        assert!(
            found.starts_with(text) && found.contains("trained range"),
            "{found}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn no_features_make_it_panic(
        counts in any::<(u64, usize, [u64; 9])>(),
        times in any::<(f64, f64, f64, f64)>(),
        shares in any::<(f64, f64, f64)>(),
        scale in 0..2u8,
    ) {
        // Half of the cases have possible shares and times.
        let fold = |x: f64| if scale == 0 { x } else { (x.abs() % 1.0).clamp(0.01, 0.9) };
        let (interarrival_s, interarrival_cv, service_s, service_cv) = times;
        let features = LinkFeatures {
            items: counts.0,
            capacity: if scale == 0 { counts.1 } else { counts.1 % 200 },
            interarrival_s: fold(interarrival_s),
            interarrival_cv: fold(interarrival_cv),
            service_s: fold(service_s),
            service_cv: fold(service_cv),
            writer_wait_share: fold(shares.0),
            reader_wait_share: fold(shares.1),
            reader_output_wait_share: fold(shares.2),
            occupancy: counts.2,
        };
        let verdict = TrustClassifier::builtin().unwrap().verdict(&features);
        prop_assert!(!verdict.score.is_nan());
        prop_assert_eq!(verdict.trusted.is_some(), verdict.score >= 0.0);
        let accepted = matches!(verdict.why, Reason::Accepted { .. });
        prop_assert_eq!(verdict.trusted.is_some(), accepted);
        for model in Model::ALL {
            if let Ok(prediction) = model.predict(&features, features.capacity % 1_000) {
                prop_assert!(prediction.throughput >= 0.0);
            }
        }
    }
}

#[test]
fn the_weights_of_the_crate_are_read() {
    let parsed = TrustClassifier::from_json(WEIGHTS).unwrap();
    assert_eq!(&parsed, TrustClassifier::builtin().unwrap());
    assert!(WEIGHTS.len() < 60_000);
}

#[test]
fn damaged_weights_say_what_is_wrong() {
    let again = "write them again with tools/train_trust.py";
    let cases = [
        (
            WEIGHTS.replacen("\"format\":1", "\"format\":2", 1),
            "weights_format",
            format!(
                "the weights of the trust classifier have format 2 and this version reads format 1; {again} of this version"
            ),
        ),
        (
            "{\"format\":9}".into(),
            "weights_format",
            format!(
                "the weights of the trust classifier have format 9 and this version reads format 1; {again} of this version"
            ),
        ),
        (
            "{}".into(),
            "weights_syntax",
            format!(
                "the weights of the trust classifier cannot be read: missing field `format` at line 1 column 2; {again}"
            ),
        ),
        (
            WEIGHTS.replacen("[\"flow\",\"mm1k\"", "[\"mm1k\",\"flow\"", 1),
            "weights_names",
            format!(
                "the weights of the trust classifier have the models mm1k, flow, md1k, two_moment instead of flow, mm1k, \
                 md1k, two_moment; {again} of this version"
            ),
        ),
    ];
    for (text, code, message) in cases {
        assert_ne!(text, WEIGHTS);
        let error = TrustClassifier::from_json(&text).unwrap_err();
        assert_eq!(error.code(), code);
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn weights_of_a_wrong_number_are_refused() {
    let mut file: serde_json::Value = serde_json::from_str(WEIGHTS).unwrap();
    let lists: [(&str, &str); 5] = [
        (
            "/support_vector_machine/landmarks/0",
            "19 values in support_vector_machine.landmarks where 20",
        ),
        (
            "/support_vector_machine/outputs/3/weights",
            "95 values in support_vector_machine.outputs where 96",
        ),
        (
            "/support_vector_machine/thresholds",
            "3 values in support_vector_machine.thresholds where 4",
        ),
        (
            "/network/layers/1/weights/2",
            "19 values in network.layers where 20",
        ),
        (
            "/network/layers/2/bias",
            "3 values in network.layers where 4",
        ),
    ];
    for (path, text) in lists {
        let list = file
            .pointer_mut(path)
            .and_then(|list| list.as_array_mut())
            .unwrap();
        let last = list.pop().unwrap();
        let error = TrustClassifier::from_json(&file.to_string()).unwrap_err();
        assert_eq!(error.code(), "weights_shape");
        assert!(error.to_string().contains(text), "{error}");
        let list = file.pointer_mut(path).and_then(|list| list.as_array_mut());
        list.unwrap().push(last);
    }
    *file.pointer_mut("/features/4/width").unwrap() = 0.0.into();
    let error = TrustClassifier::from_json(&file.to_string()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "width of the feature ln_service_cv=0 is refused; it must be above 0"
    );
}
