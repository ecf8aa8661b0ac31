//! Accuracy on links with times of an untrained family.

use isochrony_tune::trust::{Model, TrustClassifier};

use super::rows::{self, Row};

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    true_positives: f64,
    false_positives: f64,
    positives: f64,
    negatives: f64,
}

impl Counts {
    fn of(decisions: impl Iterator<Item = (bool, bool)>) -> Self {
        let mut counts = Self::default();
        for (trusted, right) in decisions {
            let (trusted, right) = (f64::from(u8::from(trusted)), f64::from(u8::from(right)));
            counts.true_positives += trusted * right;
            counts.false_positives += trusted * (1.0 - right);
            counts.positives += right;
            counts.negatives += 1.0 - right;
        }
        counts
    }

    fn accuracy(&self) -> f64 {
        let correct = self.true_positives + self.negatives - self.false_positives;
        correct / (self.positives + self.negatives)
    }

    fn true_rate(&self) -> f64 {
        self.true_positives / self.positives
    }

    fn false_rate(&self) -> f64 {
        self.false_positives / self.negatives
    }
}

fn right(row: &Row, model: Model) -> bool {
    row.get(&format!("right_{}", model.name())) == 1.0
}

fn classified(rows: &[Row], model: Model) -> Counts {
    let classifier = TrustClassifier::builtin().unwrap();
    Counts::of(rows.iter().map(|row| {
        let scores = classifier.scores(&row.features);
        let trusted = scores.is_ok_and(|scores| {
            scores
                .iter()
                .any(|score| score.model == model && score.margin >= 0.0)
        });
        (trusted, right(row, model))
    }))
}

fn below_utilization(rows: &[Row], model: Model) -> impl Iterator<Item = Counts> {
    let limits: Vec<f64> = (0..=100)
        .map(|percent| f64::from(percent) / 100.0)
        .collect();
    limits.into_iter().map(move |limit| {
        Counts::of(rows.iter().map(|row| {
            let trusted = row.features.utilization() <= limit;
            (trusted, right(row, model))
        }))
    })
}

#[test]
fn at_most_one_in_twenty_wrong_models_is_trusted() {
    let rows = rows::held_out();
    assert_eq!(rows.len(), 500);
    for model in Model::ALL {
        let counts = classified(&rows, model);
        assert!(counts.negatives > 100.0, "{model}: {counts:?}");
        assert!(counts.false_rate() <= 0.05, "{model}: {counts:?}");
        // A classifier that trusts nothing has no false positives either.
        assert!(counts.true_rate() >= 0.4, "{model}: {counts:?}");
    }
}

#[test]
fn more_right_models_are_trusted_than_below_a_utilization_with_as_few_false_positives() {
    let rows = rows::held_out();
    for model in Model::ALL {
        let counts = classified(&rows, model);
        // Chosen on the rows it is judged by.
        let best = below_utilization(&rows, model)
            .filter(|rule| rule.false_rate() <= 0.05)
            .map(|rule| rule.true_rate())
            .fold(0.0, f64::max);
        assert!(
            counts.true_rate() > best + 0.1,
            "{model}: {counts:?}, below a utilization {best}"
        );
    }
}

#[test]
fn accuracy_is_above_the_majority_class_and_on_average_above_any_utilization_threshold() {
    let rows = rows::held_out();
    let (mut mean, mut threshold_mean) = (0.0, 0.0);
    for model in Model::ALL {
        let counts = classified(&rows, model);
        let majority = counts.positives.max(counts.negatives) / rows.len() as f64;
        assert!(
            counts.accuracy() > majority,
            "{model}: {counts:?}, majority {majority}"
        );
        let best = below_utilization(&rows, model)
            .map(|rule| rule.accuracy())
            .fold(0.0, f64::max);
        mean += counts.accuracy() / 4.0;
        threshold_mean += best / 4.0;
    }
    // Not per model: a threshold without a limit on false positives is more accurate for M/M/1/K.
    assert!(mean > threshold_mean, "{mean}, {threshold_mean}");
}

#[test]
fn verdicts_are_mostly_right() {
    let classifier = TrustClassifier::builtin().unwrap();
    let rows = rows::held_out();
    let given: Vec<bool> = rows
        .iter()
        .filter_map(|row| {
            let model = classifier.verdict(&row.features).trusted?;
            Some(right(row, model))
        })
        .collect();
    let wrong = given.iter().filter(|&&right| !right).count();
    assert!(given.len() > 150, "{}", given.len());
    assert!(
        wrong as f64 <= 0.08 * given.len() as f64,
        "{wrong} of {}",
        given.len()
    );
}
