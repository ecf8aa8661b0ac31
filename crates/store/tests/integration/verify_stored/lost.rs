//! Lost shards and folders: further writes and recovery must not hide the loss.

use isochrony_store::{StoreError, repair};

use super::*;

const LAST: std::ops::Range<i64> = SHARD..SHARD * 3 / 2;

fn refused<T>(result: Result<T, StoreError>, path: &Path) {
    let error = result.err().expect("refused");
    assert_eq!(error.code(), "missing_samples", "{error}");
    let text = error.to_string();
    assert!(text.contains(&path.display().to_string()), "{text}");
    assert!(text.contains("isochrony verify --repair"), "{text}");
}

fn codes(report: &Report) -> Vec<&str> {
    report.findings.iter().map(|finding| finding.code).collect()
}

/// The second shard, or all after its first chunk.
fn lose(path: &Path, whole: bool) -> (&'static str, std::ops::Range<i64>) {
    if whole {
        fs::remove_file(path).expect("removed");
        ("missing_shard", LAST)
    } else {
        let file = fs::OpenOptions::new().write(true).open(path);
        let cut = file.expect("opens").set_len(HEAD + 2 * CHUNK as u64);
        cut.expect("cut");
        ("truncated_shard", SHARD + CHUNK..LAST.end)
    }
}

#[test]
fn appending_does_not_make_a_lost_shard_anew() {
    for whole in [true, false] {
        let case = case();
        let path = case.file("data/c/1");
        let (code, lost) = lose(&path, whole);
        let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
        let writer = store.writer("n/s").expect("the signal");
        refused(writer.append(&[7i16; 5]), &path);
        store.close().expect("closed");
        assert_eq!(case.only().range, Some(lost.clone()));
        assert_eq!(case.only().code, code);
        assert_eq!(case.repair().findings, []);
        let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
        let writer = store.writer("n/s").expect("the signal");
        writer.append(&[7i16; 5]).expect("goes on");
        store.close_committed();
        assert_eq!(case.verify().findings, []);
        assert_eq!(case.samples().len() as i64, lost.start - 1000 + 5);
    }
}

/// The writer was killed after a commit of five more samples.
fn killed() -> Case {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer.append(&[7i16; 5]).expect("appended");
    store.commit(false).expect("committed");
    let path = case.path.with_extension("killed");
    copy_folder(&case.path, &path);
    store.close().expect("closed");
    Case { path, ..case }
}

#[test]
fn recovery_does_not_make_a_lost_shard_anew_and_repair_keeps_what_the_log_has() {
    for whole in [true, false] {
        let case = killed();
        let path = case.file("data/c/1");
        let (code, lost) = lose(&path, whole);
        refused(Store::open(&case.path, Mode::ReadWrite), &path);
        let report = case.verify();
        assert_eq!(codes(&report), [code], "{report:#?}");
        let (before, after) = repair(&case.path, &DEEP).expect("repaired");
        assert!(codes(&before).contains(&code), "{before:#?}");
        assert_eq!(after.findings, []);
        assert_eq!(case.verify().findings, []);
        let samples = case.samples();
        assert_eq!(samples.len() as i64, lost.start - 1000 + 5);
        assert_eq!(samples[samples.len() - 5..], [7; 5]);
        let store = Store::open(&case.path, Mode::Read).expect("opens");
        let signal = store.signal("n/s").expect("the signal");
        let told: Vec<_> = (signal.events())
            .filter(|event| event.kind == "samples_lost")
            .map(|event| (event.start, event.end))
            .collect();
        assert_eq!(told, [(lost.start, lost.end)]);
    }
}

#[test]
fn reports_a_lost_folder_of_a_signal_in_the_log() {
    let case = killed();
    fs::remove_dir_all(case.path.join("n/s")).expect("removed");
    let report = case.verify();
    let [finding] = report.findings.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(finding.signal.as_deref(), Some("n/s"));
    assert_eq!(finding.code, "missing_folder", "{finding:?}");
    let error = Store::open(&case.path, Mode::ReadWrite)
        .err()
        .expect("refused");
    assert!(error.to_string().contains("n/s"), "{error}");
    assert_eq!(case.verify().findings.len(), 1);
}

/// A new signal of `count` samples; its writer was killed.
fn new_signal_lost(count: i64) -> Case {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
    let writer = store.create("n/new", &options).expect("created");
    let samples: Vec<i16> = (0..count).map(|i| (i % 30_011) as i16).collect();
    writer.append(&samples).expect("appended");
    store.commit(true).expect("committed");
    let path = case.path.with_extension("killed");
    copy_folder(&case.path, &path);
    store.close().expect("closed");
    fs::remove_dir_all(path.join("n/new")).expect("removed");
    Case { path, ..case }
}

#[test]
fn a_new_signals_lost_folder_is_made_anew_only_if_the_log_has_all_of_it() {
    let case = new_signal_lost(1000);
    let store = Store::open(&case.path, Mode::ReadWrite).expect("recovers");
    let signal = store.signal("n/new").expect("the signal");
    let segment = signal.select(0..1000).expect("all").segments().next();
    let samples = segment.expect("one").expect("read").to_vec::<i16>();
    assert_eq!(samples.expect("i16"), (0..1000).collect::<Vec<i16>>());
    drop(signal);
    store.close().expect("closed");
    assert_eq!(case.verify().findings, []);
    // Too many for a log record.
    let case = new_signal_lost(40_000);
    let error = Store::open(&case.path, Mode::ReadWrite)
        .err()
        .expect("refused");
    let folder = case.path.join("n/new").display().to_string();
    assert!(error.to_string().contains(&folder), "{error}");
    let report = case.verify();
    let [finding] = report.findings.as_slice() else {
        panic!("{report:#?}")
    };
    assert_eq!(finding.signal.as_deref(), Some("n/new"));
    assert_eq!(finding.path, case.path.join("n/new"));
}
