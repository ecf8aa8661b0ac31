//! Files from elsewhere are distinguished from clock steps.

use std::path::Path;

use crate::common::{File, Recorder, SECOND, reasons, samples};
use isochrony_ingest::{RawOptions, Summary, import_raw};
use isochrony_store::{Mode, RunReason, Signal, Store};

const START: i128 = 1_267_401_600 * SECOND;
const MICRO: i128 = 1000;

fn import(store: &Store, source: &Path) -> Summary {
    import_raw(store, source, &RawOptions::preset("censam").unwrap(), None).unwrap()
}

fn count(signal: &Signal, kind: &str) -> usize {
    signal.events().filter(|event| event.kind == kind).count()
}

/// Equal stamps make equal names.
fn write_beside(source: &Path, recorder: &Recorder, file: &File) {
    let path = recorder.path("s", "p", file).replace("/2010/", "/2011/");
    let samples = file.samples.iter();
    let bytes: Vec<u8> = samples.flat_map(|sample| sample.to_le_bytes()).collect();
    crate::common::write(source, &path, &bytes);
}

#[test]
fn a_foreign_file_in_the_middle_is_an_overlap_and_a_problem() {
    for (off, foreign_files) in [(500_000_000, 1), (1_234_567_000, 3), (0, 1)] {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("src");
        let mut recorder = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
        recorder.record(12);
        recorder.write(&source, "s", "p");
        let mut foreign = Recorder::new(recorder.files[5].wall_ns + off, 2000.0, 3.0, 6000, MICRO);
        foreign.recorded = 1_000_000;
        foreign.record(foreign_files);
        for file in &foreign.files {
            write_beside(&source, &foreign, file);
        }
        let store = Store::open(folder.path().join("water.iso"), Mode::Append).unwrap();
        let summary = import(&store, &source);
        let signal = store.signal("s/p").unwrap();
        let expected = [recorder.samples(), foreign.samples()].concat();
        let mut got: Vec<i16> = samples(&signal);
        assert_eq!(got.len(), expected.len(), "{off}");
        if off == 0 {
            // Names decide between two files with one stamp.
            let mut expected = expected;
            got.sort_unstable();
            expected.sort_unstable();
            assert_eq!(got, expected);
        } else {
            assert_eq!(got, expected, "{off}");
        }
        assert_eq!(
            reasons(&signal),
            [RunReason::First, RunReason::Overlap],
            "{off}"
        );
        assert_eq!(
            (signal.gaps().len(), count(&signal, "clock_step")),
            (0, 0),
            "{off}"
        );
        assert!(count(&signal, "overlap") >= 1, "{off}");
        assert!(!summary.is_clean(), "{off}");
        assert!(
            summary
                .problems
                .list
                .iter()
                .all(|problem| problem.code == "overlap")
        );
        assert!(!summary.problems.list.is_empty());

        let already = recorder.files.len();
        recorder.record(3);
        for file in &recorder.files[already..] {
            recorder.write_file(&source, "s", "p", file);
        }
        let again = import(&store, &source);
        assert_eq!(
            (again.files, again.skipped),
            (3, 12 + foreign_files as u64),
            "{off}"
        );
        assert!(again.is_clean(), "{off}: {:?}", again.problems);
        let signal = store.signal("s/p").unwrap();
        assert_eq!(count(&signal, "clock_step"), 0, "{off}");
        assert_eq!(signal.sample_count(), (15 + foreign_files as i64) * 6000);
    }
}

#[test]
fn a_true_step_back_stays_a_step() {
    for step in [-4, -10, -20] {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("src");
        let mut recorder = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
        recorder.record(12).step(step * SECOND + 123_457).record(12);
        recorder.write(&source, "s", "p");
        let store = Store::open(folder.path().join("water.iso"), Mode::Append).unwrap();
        let summary = import(&store, &source);
        assert!(summary.is_clean(), "{step}: {:?}", summary.problems);
        let signal = store.signal("s/p").unwrap();
        assert_eq!(samples::<i16>(&signal), recorder.samples(), "{step}");
        assert_eq!(
            reasons(&signal),
            [RunReason::First, RunReason::BackwardStep],
            "{step}"
        );
        assert_eq!(
            (count(&signal, "clock_step"), count(&signal, "overlap")),
            (1, 0),
            "{step}"
        );
    }
}

#[test]
fn a_copy_after_a_gap_of_its_length_does_not_hide_the_gap() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START, 2000.0, 0.0, 6000, MICRO);
    recorder.record(3);
    recorder.outage(6000);
    recorder.record(1);
    recorder.write(&source, "s", "p");
    let file = recorder.files.last().unwrap();
    write_beside(&source, &recorder, file);
    let store = Store::open(folder.path().join("water.iso"), Mode::Append).unwrap();
    let summary = import(&store, &source);
    let codes: Vec<_> = summary
        .problems
        .list
        .iter()
        .map(|problem| problem.code)
        .collect();
    assert_eq!(codes, ["duplicate"]);
    let signal = store.signal("s/p").unwrap();
    assert_eq!(count(&signal, "stamp_outlier"), 0);
    let gaps: Vec<_> = signal
        .gaps()
        .iter()
        .map(|gap| (gap.start, gap.length))
        .collect();
    assert_eq!(gaps.len(), 1);
    assert!((gaps[0].1 - 6000).abs() <= 1, "{gaps:?}");
    assert_eq!(samples::<i16>(&signal), recorder.samples());
}
