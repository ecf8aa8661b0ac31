//! Invalid and missing tables.

use isochrony_store::StoreError;

use super::*;

#[test]
fn an_impossible_gap_table_is_named() {
    let case = case();
    let path = case.file("gaps/c/0/0");
    let length = fs::metadata(&path).expect("there").len();
    // Rows follow index and header: their checksum catches any flipped bit.
    let at = (0..length).rev().find(|at| {
        let mut byte = [0];
        fs::File::open(&path)
            .expect("opens")
            .read_exact_at(&mut byte, *at)
            .expect("read");
        byte[0] != 0
    });
    flip(&path, at.expect("a row"));
    let report = case.verify();
    assert!(!report.is_clean());
    let finding = &report.findings[0];
    assert!(
        matches!(finding.code, "impossible_table" | "damaged_file"),
        "{finding:?}"
    );
    assert_eq!(finding.signal.as_deref(), Some("n/s"));
    assert!(!finding.repairable);
    assert!(finding.mend.contains("copy"), "{finding:?}");
}

const LOST: [&str; 9] = [
    "gaps/c",
    "gaps",
    "runs/c",
    "runs",
    "timebase/points/c",
    "timebase/points",
    "timebase/fit/c",
    "timebase",
    "events/text/c",
];

fn told() -> Case {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer
        .add_event("seen", 0..10, &serde_json::Map::new())
        .expect("an event");
    store.close_committed();
    case
}

fn is_missing<T>(result: Result<T, StoreError>, lost: &str) {
    let error = result.err().expect(lost);
    assert_eq!(error.code(), "missing_table", "{lost}: {error}");
    let first = lost.split('/').next().expect("a name");
    let text = error.to_string();
    for part in [first, "n/s", "isochrony verify", "copy"] {
        assert!(text.contains(part), "{lost}: {text}");
    }
}

#[test]
fn reports_a_lost_table_and_verifies_no_samples_without_it() {
    for lost in LOST {
        let case = told();
        fs::remove_dir_all(case.file(lost)).expect("removed");
        let report = case.verify();
        let [finding] = report.findings.as_slice() else {
            panic!("{lost}: {report:#?}")
        };
        assert_eq!((finding.code, finding.repairable), ("missing_table", false));
        let first = lost.split('/').next().expect("a name");
        assert!(finding.what.contains(first), "{}", finding.what);
        assert_eq!(case.repair().findings.len(), 1);
    }
}

#[test]
fn a_signal_without_one_of_its_tables_is_neither_read_nor_written_and_nothing_is_lost() {
    for lost in LOST {
        let case = told();
        let (kept, gone) = (case.samples(), case.file(lost));
        let aside = case.path.with_extension("aside");
        fs::rename(&gone, &aside).expect("moved");
        let reading = Store::open(&case.path, Mode::Read).expect("opens");
        is_missing(reading.signal("n/s"), lost);
        let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
        is_missing(store.signal("n/s"), lost);
        let write = |store: &Store| store.writer("n/s")?.append(&[1i16]);
        is_missing(write(&store), lost);
        let options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
        let other = store.create("n/other", &options).expect("created");
        other.append(&[1i16, 2]).expect("appended");
        store.close_committed();
        // Nor does recovery with publication turn it into an empty table.
        fs::write(case.path.join(".isochrony/LOCK"), "{}").expect("written");
        let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
        is_missing(write(&store), lost);
        store.close().expect("closed");
        fs::rename(&aside, &gone).expect("moved back");
        assert_eq!(case.verify().findings, []);
        assert_eq!(case.samples(), kept);
    }
}

#[test]
fn tables_that_the_log_still_has_are_not_lost() {
    let case = told();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
    let writer = store.create("n/t", &options).expect("created");
    writer.append(&[1i16, 2]).expect("appended");
    writer.append_gap(3).expect("a gap");
    writer.append(&[6i16]).expect("appended");
    store.commit(true).expect("committed");
    // A power cut removed the published table but not its description.
    let gaps = case.path.join("n/t/gaps/c");
    fs::remove_dir_all(&gaps).expect("published");
    let read = || Store::open(&case.path, Mode::Read).expect("opens");
    assert_eq!(read().signal("n/t").expect("is read").gaps().len(), 1);
    let copy = case.path.with_extension("copy");
    copy_folder(&case.path, &copy);
    drop(store);
    let store = Store::open(&copy, Mode::ReadWrite).expect("recovers");
    assert_eq!(store.signal("n/t").expect("is read").gaps().len(), 1);
    store.close().expect("closed");
    assert_eq!(verify(&copy, &DEEP).expect("verified").findings, []);
}
