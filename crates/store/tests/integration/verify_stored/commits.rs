//! Published files prove an acknowledged commit that the redo log has lost.

use std::ops::Range;

use isochrony_store::{SignalWriter, repair};

use super::*;

/// The writer was killed after a commit of `change`, optionally published.
fn killed(publish: bool, change: impl FnOnce(&Store, &SignalWriter)) -> Case {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer.append(&[5i16; 10]).expect("appended");
    store.commit(true).expect("committed");
    change(&store, &writer);
    store.commit(publish).expect("committed");
    let path = case.path.with_extension("killed");
    copy_folder(&case.path, &path);
    store.close().expect("closed");
    Case { path, ..case }
}

/// A published commit with one bit of the last record flipped.
fn flipped(change: impl FnOnce(&Store, &SignalWriter)) -> Case {
    let case = killed(true, change);
    let log = case.log();
    flip(&log, case.last_record().end - 9);
    case
}

impl Case {
    fn log(&self) -> PathBuf {
        let entries = fs::read_dir(self.path.join(".isochrony")).expect("listed");
        let mut paths = entries.map(|entry| entry.expect("an entry").path());
        paths
            .find(|path| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("log."))
            })
            .expect("a log")
    }

    /// Layout: `docs/design/log_records.md`.
    fn last_record(&self) -> Range<u64> {
        let bytes = fs::read(self.log()).expect("read");
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
        let mut at = (20 + number(12) as usize).next_multiple_of(8);
        let mut last = 0..0;
        while number(at) != 0 {
            let end = (at + 16 + number(at) as usize).next_multiple_of(8);
            last = at as u64..end as u64;
            at = end;
        }
        last
    }

    fn without_acknowledgement(self) -> Self {
        let end = self.last_record().end;
        let log = self.log();
        let length = fs::metadata(&log).expect("there").len();
        let file = fs::OpenOptions::new().write(true).open(log).expect("opens");
        file.set_len(end).expect("cut");
        file.set_len(length).expect("extended");
        self
    }
}

type ChangeOf = fn(&Store, &SignalWriter);

/// Every kind that does not start a new log.
const CHANGES: [(&str, ChangeOf); 7] = [
    ("append", |_, writer| {
        _ = writer.append(&[6i16; 70]).expect("appended")
    }),
    ("gap", |_, writer| {
        _ = writer.append_gap(30).expect("appended")
    }),
    ("fill", |_, writer| {
        writer.fill(5200, &[7i16; 100]).expect("filled");
    }),
    ("mark", |_, writer| {
        writer.mark_invalid(100..200).expect("marked")
    }),
    ("event", |_, writer| {
        let fields = serde_json::Map::new();
        writer.add_event("burst", 10..20, &fields).expect("added");
    }),
    ("attributes", |_, writer| {
        let mut attributes = serde_json::Map::new();
        attributes.insert("site".into(), "A".into());
        writer.set_attributes(&attributes).expect("set");
    }),
    ("create", |store, _| {
        let options = CreateOptions::new(DType::F32, Rate::new(10, 1).expect("a rate"));
        let writer = store.create("n/new", &options).expect("created");
        writer.append(&[1f32; 20]).expect("appended");
    }),
];

#[test]
fn the_log_acknowledges_commits_that_nothing_published_tells_of() {
    for (kind, change) in CHANGES {
        for publish in [false, true] {
            let case = killed(publish, change);
            flip(&case.log(), case.last_record().start + 20);
            let found = case.verify().findings;
            let lost: Vec<_> = found.iter().filter(|f| f.code == "lost_commit").collect();
            let signal = (kind != "create").then_some("n/s");
            assert!(!lost.is_empty(), "{kind}, {publish}: {found:#?}");
            assert!(
                lost.iter()
                    .all(|finding| finding.signal.as_deref() == signal),
                "{kind}, {publish}: {found:#?}"
            );
            let error = Store::open(&case.path, Mode::ReadWrite).err();
            assert_eq!(error.expect("refused").code(), "lost_commit", "{kind}");

            let (_, after) = repair(&case.path, &DEEP).expect("repaired");
            // An unnamed signal's folder stays.
            let left = |report: &Report| -> Vec<_> {
                report.findings.iter().map(|finding| finding.code).collect()
            };
            let expected: &[&str] = match kind {
                "create" => &["orphan_signal"],
                _ => &[],
            };
            assert_eq!(left(&after), expected, "{kind}, {publish}");
            let reasons: Vec<_> = after.lost.iter().map(|loss| &*loss.reason).collect();
            assert_eq!(reasons, ["lost_commit"], "{kind}, {publish}");
            assert_eq!(after.lost[0].signal, signal.unwrap_or_default(), "{kind}");
            // Of the lost commit, only gaps in the published table remain.
            let gaps = match (kind, publish) {
                ("fill", true) => 900,
                ("mark", true) => 1100,
                _ => 1000,
            };
            let store = Store::open(&case.path, Mode::Read).expect("opens");
            let names: Vec<_> = store.names().expect("listed");
            assert_eq!(names, ["n/s"], "{kind}, {publish}");
            let signal = store.signal("n/s").expect("the signal");
            let appended = signal.end_index() - (END + 10);
            assert_eq!(
                signal.gaps().missing_within(END + 10..END + 10 + appended),
                appended
            );
            assert_eq!(
                signal.gaps().missing_within(0..END + 10),
                gaps,
                "{kind}, {publish}"
            );
            assert_eq!(
                signal
                    .events()
                    .filter(|event| event.kind == "burst")
                    .count(),
                0
            );
            assert!(signal.attributes().is_empty(), "{kind}");
            drop(store);
            assert_eq!(left(&case.verify()), expected, "{kind}, {publish}");
            let (_, after) = repair(&case.path, &DEEP).expect("repaired");
            assert_eq!(
                (left(&after), after.lost),
                (expected.to_vec(), vec![]),
                "{kind}"
            );
        }
    }
}

#[test]
fn a_whole_record_is_no_lost_commit_with_or_without_its_acknowledgement() {
    for (kind, change) in CHANGES {
        let case = killed(false, change);
        assert_eq!(case.verify().findings, [], "{kind}");
        let case = case.without_acknowledgement();
        assert_eq!(case.verify().findings, [], "{kind}");
        let (before, after) = repair(&case.path, &DEEP).expect("opens");
        assert_eq!((before.findings, after.lost), (vec![], vec![]), "{kind}");
    }
}

#[test]
fn published_files_prove_a_commit_without_acknowledgement() {
    for (kind, change) in CHANGES
        .into_iter()
        .filter(|(kind, _)| matches!(*kind, "append" | "mark"))
    {
        let case = killed(true, change).without_acknowledgement();
        flip(&case.log(), case.last_record().start + 20);
        assert_eq!(case.only().code, "lost_commit", "{kind}");
    }
}

#[test]
fn several_damaged_records_are_lost_commits_of_any_signal() {
    let case = killed(false, |store, writer| {
        writer.set_attributes(&serde_json::Map::new()).expect("set");
        store.commit(false).expect("committed");
        writer.append(&[6i16; 70]).expect("appended");
    });
    let last = case.last_record();
    flip(&case.log(), last.start + 20);
    // The record before, where reading now ends.
    flip(&case.log(), last.start - 9);
    let finding = case.only();
    assert_eq!(
        (finding.code, finding.signal.as_deref()),
        ("lost_commit", Some("n/s"))
    );
    let (_, after) = repair(&case.path, &DEEP).expect("repaired");
    assert_eq!((after.findings.len(), after.lost.len()), (0, 1));
}

#[test]
fn a_loss_without_an_event_is_reported_by_the_next_repair() {
    let case = killed(false, CHANGES[6].1);
    flip(&case.log(), case.last_record().start + 20);
    let interrupted = case.path.with_extension("interrupted");
    let folder = case.path.join(".isochrony");
    let note = |lacks: bool| format!("{{\"events\":[],\"lacks_commit\":{lacks}}}");
    let (_, after) = repair(&case.path, &DEEP).expect("repaired");
    assert_eq!(after.lost.len(), 1);
    for lacks in [true, false] {
        let json = note(lacks);
        let text = format!("{json}\n{:08x}\n", crc32c::crc32c(json.as_bytes()));
        fs::write(folder.join("REPAIR"), text).expect("written");
        let _ = fs::remove_dir_all(&interrupted);
        copy_folder(&case.path, &interrupted);
        let (_, after) = repair(&interrupted, &DEEP).expect("repaired");
        assert_eq!(after.lost.len(), usize::from(lacks));
        assert!(!interrupted.join(".isochrony/REPAIR").exists());
    }
}

const END: i64 = SHARD * 3 / 2;

#[test]
fn samples_of_a_lost_commit_are_named_and_become_a_gap_with_an_event() {
    let case = flipped(|_, writer| _ = writer.append(&[6i16; 70]).expect("appended"));
    let lost = END + 10..END + 80;
    let finding = case.only();
    assert_eq!(
        (finding.code, finding.signal.as_deref()),
        ("lost_commit", Some("n/s"))
    );
    assert_eq!(finding.range, Some(lost.clone()));
    assert!(finding.civil.is_some() && finding.repairable, "{finding:?}");
    let error = Store::open(&case.path, Mode::ReadWrite)
        .err()
        .expect("refused");
    assert_eq!(error.code(), "lost_commit", "{error}");
    assert_eq!(case.only(), finding, "nothing was changed by trying");

    let (before, after) = repair(&case.path, &DEEP).expect("repaired");
    assert_eq!(before.findings, [finding]);
    assert_eq!(after.findings, []);
    let [loss] = after.lost.as_slice() else {
        panic!("{after:#?}")
    };
    assert_eq!(
        (loss.signal.as_str(), loss.range.clone(), loss.samples),
        ("n/s", lost.clone(), 70)
    );
    assert_eq!(loss.reason, "lost_commit");
    assert!(loss.civil.is_some());
    assert_eq!(case.verify().findings, []);
    let store = Store::open(&case.path, Mode::Read).expect("opens");
    let signal = store.signal("n/s").expect("the signal");
    assert_eq!(signal.end_index(), lost.end);
    assert_eq!(signal.gaps().missing_within(lost.clone()), 70);
    assert_eq!(signal.gaps().missing_within(END..lost.start), 0);
    let told: Vec<_> = signal
        .events()
        .filter(|event| event.kind == "samples_lost")
        .collect();
    assert_eq!(
        told.iter()
            .map(|event| event.start..event.end)
            .collect::<Vec<_>>(),
        std::slice::from_ref(&lost)
    );
    let (_, after) = repair(&case.path, &DEEP).expect("repaired");
    assert_eq!((after.findings, after.lost), (vec![], vec![]));
    // The clock continues after it.
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    store
        .writer("n/s")
        .expect("the signal")
        .append(&[8i16; 5])
        .expect("goes on");
    store.close_committed();
    assert_eq!(case.verify().findings, []);
}

#[test]
fn reports_a_lost_commit_without_samples() {
    let case = flipped(|_, writer| writer.mark_invalid(100..200).expect("marked"));
    let finding = case.only();
    assert_eq!((finding.code, finding.range), ("lost_commit", None));
    let error = Store::open(&case.path, Mode::ReadWrite)
        .err()
        .expect("refused");
    assert_eq!(error.code(), "lost_commit", "{error}");
    let (_, after) = repair(&case.path, &DEEP).expect("repaired");
    assert_eq!(after.findings, []);
    let [loss] = after.lost.as_slice() else {
        panic!("{after:#?}")
    };
    assert_eq!((loss.samples, loss.reason.as_str()), (0, "lost_commit"));
    assert_eq!(case.verify().findings, []);
}

#[test]
fn a_torn_record_of_which_nothing_was_published_is_no_damage() {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer.append(&[5i16; 10]).expect("appended");
    store.commit(true).expect("committed");
    let path = case.path.with_extension("killed");
    copy_folder(&case.path, &path);
    writer.append(&[6i16; 70]).expect("appended");
    store.commit(false).expect("committed");
    // The record is incomplete, as after a power cut.
    for entry in fs::read_dir(case.path.join(".isochrony")).expect("listed") {
        let from = entry.expect("an entry").path();
        if from
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("log."))
        {
            let mut bytes = fs::read(&from).expect("read");
            let last = bytes.iter().rposition(|byte| *byte != 0).expect("records");
            bytes[last - 60..].fill(0);
            fs::write(
                path.join(".isochrony")
                    .join(from.file_name().expect("a name")),
                bytes,
            )
            .expect("written");
        }
    }
    store.close().expect("closed");
    let case = Case { path, ..case };
    assert_eq!(case.verify().findings, []);
    let store = Store::open(&case.path, Mode::ReadWrite).expect("recovers");
    assert_eq!(
        store.signal("n/s").expect("the signal").end_index(),
        END + 10
    );
    store.close().expect("closed");
    assert_eq!(case.verify().findings, []);
}
