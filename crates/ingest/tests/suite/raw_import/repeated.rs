//! Repeated imports: late files, known files.

use super::*;

#[test]
fn late_files_fill_their_gap_and_overlapping_files_become_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let mut recorder = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
    recorder.record(60);
    for (number, file) in recorder.files.iter().enumerate() {
        let root = if (30..33).contains(&number) {
            &second
        } else {
            &first
        };
        recorder.write_file(root, "s", "p", file);
    }
    let mut other = Recorder::new(
        recorder.files[40].wall_ns + 500_000_000,
        2000.0,
        3.0,
        6000,
        MICRO,
    );
    other.recorded = 1_000_000;
    other.record(1);
    other.write(&second, "s", "p");
    let store = new_store(folder.path());
    let summary = import(&store, &first);
    assert_eq!(gaps(&store.signal("s/p").unwrap()), [(30 * 6000, 3 * 6000)]);
    assert!(summary.is_clean());
    let summary = import(&store, &second);
    let signal = store.signal("s/p").unwrap();
    assert_eq!(gaps(&signal), []);
    assert_eq!(
        samples(&signal),
        [recorder.samples(), other.samples()].concat()
    );
    let runs: Vec<_> = signal
        .runs()
        .unwrap()
        .iter()
        .map(|run| run.reason)
        .collect();
    assert_eq!(runs, [RunReason::First, RunReason::Overlap]);
    assert_eq!(summary.problems.len(), 1);
    assert_eq!(summary.problems.list[0].code, "overlap");
    assert_eq!(events(&signal, "overlap").len(), 1);
    let moved = folder.path().join("moved");
    std::fs::rename(&second, &moved).unwrap();
    let again = import(&store, &moved);
    assert_eq!(
        (again.files, again.skipped, again.problems.len()),
        (0, 4, 0)
    );
}

#[test]
fn a_repeated_import_takes_only_new_and_grown_files() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    let mut recorder = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
    recorder.record(10).record_samples(2000);
    recorder.write(&source, "s", "p");
    let store = new_store(folder.path());
    assert_eq!(import(&store, &source).files, 11);
    let mut longer = Recorder::new(START, 2000.0, 3.0, 6000, MICRO);
    longer.record(30);
    longer.write(&source, "s", "p");
    let summary = import(&store, &source);
    assert_eq!(
        (summary.files, summary.skipped, summary.bytes),
        (20, 10, 2 * (4000 + 19 * 6000))
    );
    let signal = store.signal("s/p").unwrap();
    assert_eq!(samples(&signal), longer.samples());
    assert_eq!((gaps(&signal).len(), signal.state().runs.len()), (0, 1));
    let summary = import(&store, &source);
    assert_eq!((summary.files, summary.skipped, summary.bytes), (0, 30, 0));
}
