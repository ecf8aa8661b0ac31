//! A commit that was acknowledged and that the redo log lost: files that were published tell of it.

use isochrony_store::{SignalWriter, repair};

use super::*;

/// A copy of a store whose writer was killed after a commit made by `change`, of which a bit of the record flipped.
fn flipped(change: impl FnOnce(&Store, &SignalWriter)) -> Case {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer.append(&[5i16; 10]).expect("appended");
    store.commit(true).expect("committed");
    change(&store, &writer);
    store.commit(true).expect("committed");
    let path = case.path.with_extension("killed");
    copy_folder(&case.path, &path);
    store.close().expect("closed");
    let log = fs::read_dir(path.join(".isochrony"))
        .expect("listed")
        .map(|entry| entry.expect("an entry").path())
        .find(|path| {
            path.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("log."))
        })
        .expect("a log");
    let bytes = fs::read(&log).expect("read");
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("records");
    flip(&log, last as u64);
    Case { path, ..case }
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
    // A second repair has nothing to tell.
    let (_, after) = repair(&case.path, &DEEP).expect("repaired");
    assert_eq!((after.findings, after.lost), (vec![], vec![]));
    // The clock goes on behind it.
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
fn a_lost_commit_that_took_no_sample_is_told_too() {
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
    // The record is half there, as a power cut may leave it.
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
