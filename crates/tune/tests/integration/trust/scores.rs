//! Scores equal those of the training tool.

use isochrony_tune::trust::{Model, TrustClassifier};

use super::rows;

#[test]
fn scores_equal_those_of_the_training_tool() {
    let classifier = TrustClassifier::builtin().unwrap();
    let rows = rows::scored();
    assert_eq!(rows.len(), 200);
    for row in &rows {
        for score in classifier.scores(&row.features).unwrap() {
            for (kind, got) in [("svm", score.svm), ("network", score.network)] {
                let wanted = row.get(&format!("{kind}_{}", score.model.name()));
                assert!(
                    (got - wanted).abs() <= 1e-9 * wanted.abs().max(1.0),
                    "{kind} of {}: {got}, by the tool {wanted}, {:?}",
                    score.model,
                    row.features
                );
            }
        }
    }
}

#[test]
fn the_trusted_model_is_the_queueing_model_with_the_largest_margin() {
    let classifier = TrustClassifier::builtin().unwrap();
    let mut seen = [false; 5];
    for row in rows::held_out() {
        let verdict = classifier.verdict(&row.features);
        let Ok([flow, queueing @ ..]) = classifier.scores(&row.features) else {
            assert_eq!((verdict.trusted, verdict.score), (None, f64::NEG_INFINITY));
            continue;
        };
        let largest = queueing
            .iter()
            .map(|score| score.margin)
            .fold(f64::NEG_INFINITY, f64::max);
        match verdict.trusted {
            Some(Model::Flow) => assert!(largest < 0.0 && verdict.score == flow.margin),
            Some(model) => {
                let own = queueing.iter().find(|score| score.model == model).unwrap();
                assert!(own.margin == largest && largest >= 0.0 && verdict.score == largest);
            }
            None => assert!(largest < 0.0 && flow.margin < 0.0 && verdict.score < 0.0),
        }
        let place = verdict
            .trusted
            .map(|model| Model::ALL.iter().position(|m| *m == model));
        seen[place.flatten().unwrap_or(4)] = true;
    }
    assert_eq!(
        seen, [true; 5],
        "each model and none is a verdict of some row"
    );
}
