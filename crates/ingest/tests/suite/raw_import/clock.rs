//! Clocks: drift, outages, steps, coarse stamps.

use super::*;

#[test]
fn drift_and_outages_give_true_rate_and_gaps_of_the_true_length() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut truth = Vec::new();
    for (station, ppm) in [("stn_10", 31.0), ("stn_11", -12.5)] {
        let mut recorder = Recorder::new(START, 2000.0, ppm, 6000, MICRO);
        recorder.record(60);
        let first = (recorder.recorded as i64, recorder.outage(41_234) as i64);
        recorder.record(50);
        let second = (
            recorder.recorded as i64 + first.1,
            recorder.outage(700) as i64,
        );
        recorder.record(40);
        recorder.write(&source, station, "pressure");
        truth.push((station, recorder, [first, second]));
    }
    let store = new_store(folder.path());
    let summary = import(&store, &source);
    assert!(summary.is_clean(), "{:?}", summary.problems);
    assert_eq!(summary.files, 300);
    assert_eq!(summary.bytes, 2 * 150 * 12_000);
    for ((station, recorder, expected), told) in truth.iter().zip(&summary.signals) {
        let signal = store.signal(&format!("{station}/pressure")).unwrap();
        assert_eq!(samples(&signal), recorder.samples(), "{station}");
        let found = gaps(&signal);
        assert_eq!(found.len(), 2, "{station}: {found:?}");
        let mut shift = 0;
        for (found, expected) in found.iter().zip(expected) {
            assert_eq!(found.0, expected.0 + shift, "{station}: position");
            assert!(
                (found.1 - expected.1).abs() <= 1,
                "{station}: {found:?} for {expected:?}"
            );
            shift += found.1 - expected.1;
        }
        let rate = told.rate.unwrap();
        assert!(
            (rate.hz / recorder.rate() - 1.0).abs() < 1e-6,
            "{station}: {rate:?} for {}",
            recorder.rate()
        );
        assert_eq!(
            (told.gaps, told.runs, told.files, told.samples),
            (2, 1, 150, 900_000)
        );
        assert_eq!(signal.state().points.len(), 150);
        // Provenance covers every sample.
        let covered: i64 = events(&signal, "import")
            .iter()
            .map(|event| event.end - event.start)
            .sum();
        assert_eq!(covered, signal.end_index());
    }
}

#[test]
fn a_backward_step_begins_a_run_and_keeps_every_sample() {
    for step in [-2, -45, -400] {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("src");
        let mut recorder = Recorder::new(START, 2000.0, 5.0, 60_000, MICRO);
        recorder.record(20).step(step * SECOND + 123_457).record(20);
        recorder.write(&source, "s", "p");
        let store = new_store(folder.path());
        let summary = import(&store, &source);
        assert!(summary.is_clean(), "{step}: {:?}", summary.problems);
        let signal = store.signal("s/p").unwrap();
        assert_eq!(samples(&signal), recorder.samples(), "{step}");
        let runs = signal.runs().unwrap();
        let found: Vec<_> = runs
            .iter()
            .map(|run| (run.start, run.end, run.reason))
            .collect();
        let half = 20 * 60_000;
        assert_eq!(
            found,
            [
                (0, half, RunReason::First),
                (half, 2 * half, RunReason::BackwardStep)
            ],
            "{step}"
        );
        assert_eq!(gaps(&signal), []);
        let steps = events(&signal, "clock_step");
        assert_eq!(steps.len(), 1);
        let fields: serde_json::Value = serde_json::from_str(&steps[0].fields).unwrap();
        let back = fields["back_ns"].as_i64().unwrap() as i128;
        assert!(
            (back + step * SECOND + 123_457).abs() < 20_000,
            "{step}: {back}"
        );
    }
}

#[test]
fn stamps_to_the_second_give_no_gap_and_no_step() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START + 123_456_789, 2000.0, -80.0, 60_000, SECOND);
    recorder.record(150);
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    let summary = import(&store, &source);
    let told = &summary.signals[0];
    assert_eq!((told.gaps, told.runs, told.samples), (0, 1, 150 * 60_000));
    let rate = told.rate.unwrap();
    assert!(
        (rate.hz - recorder.rate()).abs() / recorder.rate() * 1e6 <= rate.uncertainty_ppm,
        "{rate:?}"
    );
    let signal = store.signal("s/p").unwrap();
    for file in recorder.files.iter().step_by(17) {
        let time = signal.time_of(file.first as i64).unwrap();
        let error = (time.value.to_f64() - file.wall_ns as f64).abs();
        assert!(error < 1e9, "{error}");
    }
}
