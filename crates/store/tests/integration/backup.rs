//! Backups are consistent copies, even beside a writer; existing data is not copied again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use isochrony_runtime::Interrupt;
use isochrony_segment::DType;
use isochrony_store::{
    BackupReport, Codec, CreateOptions, Mode, Store, StoreError, VerifyOptions, backup, verify,
};
use isochrony_time::{Rate, civil};

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

fn options() -> CreateOptions {
    let mut options = CreateOptions::new(DType::I16, Rate::new(1000, 1).expect("a rate"));
    options.start = Some(civil::parse("2020-01-01T00:00:00Z").expect("a time"));
    options
}

fn ramp(count: i64, add: i64) -> Vec<i16> {
    (0..count)
        .map(|i| ((i * 7 + add) % 30_011) as i16)
        .collect()
}

fn store_at(path: &Path) -> Store {
    let store = Store::open(path, Mode::Create).expect("created");
    for (name, count) in [
        ("n/long", 3_000_000),
        ("n/short", 500),
        ("m/sealed", 200_000),
    ] {
        let writer = store.create(name, &options()).expect("a signal");
        writer.append(&ramp(count, 0)).expect("appended");
        writer.append_gap(1000).expect("a gap");
        writer.append(&ramp(count / 10, 3)).expect("appended");
        let mut fields = serde_json::Map::new();
        fields.insert("by".into(), "me".into());
        writer.add_event("note", 5..9, &fields).expect("noted");
    }
    store.commit(true).expect("committed");
    store.seal("m/sealed", Codec::default()).expect("sealed");
    let mut attributes = serde_json::Map::new();
    attributes.insert("place".into(), "harbour".into());
    store.set_attributes(&attributes).expect("set");
    store
}

fn copy(from: &Path, to: &Path) -> BackupReport {
    let mut last = (0, Some(0));
    let report = backup(from, to, &mut |progress| {
        last = (progress.done(), progress.total());
    });
    let report = report.expect("backed up");
    assert_eq!(Some(last.0), last.1, "the progress ends with all of it");
    assert_eq!(report.failed, []);
    assert_eq!(verify(to, &DEEP).expect("verified").findings, []);
    report
}

fn shown(path: &Path) -> BTreeMap<String, String> {
    let store = Store::open(path, Mode::Read).expect("opens");
    let mut all = BTreeMap::new();
    for name in store.names().expect("names") {
        let signal = store.signal(&name).expect("the signal");
        let mut sum = 0u32;
        let mut parts = Vec::new();
        for segment in signal
            .select(0..signal.end_index())
            .expect("all")
            .segments()
        {
            let segment = segment.expect("read");
            parts.push(segment.range());
            for sample in segment.to_vec::<i16>().expect("i16") {
                sum = crc32c::crc32c_append(sum, &sample.to_le_bytes());
            }
        }
        let events: Vec<_> = signal.events().map(|event| format!("{event:?}")).collect();
        let times = [0, 7, signal.end_index() - 1]
            .map(|index| signal.time_of(index).expect("a time").value);
        let state = signal.state();
        let text = format!(
            "{} {sum:08x} {parts:?} {events:?} {times:?} {:?} {:?}",
            signal.end_index(),
            state.meta,
            state.runs.iter().collect::<Vec<_>>()
        );
        all.insert(name, text);
    }
    let attributes = store.attributes().expect("attributes");
    all.insert(
        String::new(),
        format!("{attributes:?} {}", store.uuid().expect("uuid")),
    );
    all
}

#[test]
fn a_backup_shows_what_its_source_shows_and_copies_only_what_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, to) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let store = store_at(&path);
    let first = copy(&path, &to);
    assert_eq!(shown(&to), shown(&path));
    assert_eq!((first.signals, first.kept_bytes), (3, 0));
    let again = copy(&path, &to);
    assert_eq!(again.copied_bytes, 0);
    assert_eq!(again.kept_bytes, first.copied_bytes);

    let writer = store.writer("n/long").expect("the signal");
    writer.append(&ramp(1000, 9)).expect("appended");
    writer.mark_invalid(50_000..50_100).expect("marked");
    writer.write_bytes(70_000, &[9; 20]).expect("written over");
    store.rename("n/short", "n/other").expect("renamed");
    store.commit(true).expect("committed");
    store
        .create("n/short", &options())
        .expect("created")
        .append(&ramp(77, 1))
        .expect("appended");
    store.unseal("m/sealed").expect("unsealed");
    store
        .writer("m/sealed")
        .expect("the signal")
        .append(&ramp(10, 1))
        .expect("appended");
    store.commit(true).expect("committed");
    let next = copy(&path, &to);
    assert_eq!(shown(&to), shown(&path));
    assert!(next.copied_bytes < 300_000, "{next:?}");
    store.remove("n/other").expect("removed");
    store.seal("n/long", Codec::default()).expect("sealed");
    store.commit(true).expect("committed");
    let last = copy(&path, &to);
    assert_eq!(last.removed, 1);
    assert_eq!(shown(&to), shown(&path));
    store.close().expect("closed");
    assert_eq!(copy(&path, &to).copied_bytes, 0);
}

#[test]
fn a_backup_beside_a_writer_is_one_of_its_commits() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, to) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let store = store_at(&path);
    for name in ["p/a", "p/b"] {
        store.create(name, &options()).expect("created");
    }
    store.commit(true).expect("committed");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let (a, b) = (
                store.writer("p/a").expect("a"),
                store.writer("p/b").expect("b"),
            );
            let mut round = 0;
            while !done.load(Ordering::Relaxed) {
                a.append(&ramp(700, round)).expect("appended");
                b.append(&ramp(700, round)).expect("appended");
                if round % 5 == 4 {
                    a.mark_invalid(round..round + 2).expect("marked");
                    b.mark_invalid(round..round + 2).expect("marked");
                }
                store.commit(round % 2 == 0).expect("committed");
                round += 1;
            }
            round
        });
        // Also ends the test if a check fails.
        let _stop = StopOnDrop(&done);
        for _ in 0..6 {
            copy(&path, &to);
            let backup = shown(&to);
            assert_eq!(backup["p/a"], backup["p/b"]);
        }
        done.store(true, Ordering::Relaxed);
        assert!(writer.join().expect("wrote") > 10);
    });
    store.close().expect("closed");
    copy(&path, &to);
    assert_eq!(shown(&to), shown(&path));
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn refused(from: &Path, to: &Path, word: &str) {
    let error = backup(from, to, &mut |_| ()).expect_err("refused");
    assert_eq!(error.code(), "not_a_backup", "{error}");
    assert!(error.to_string().contains(word), "{error}");
}

#[test]
fn nothing_but_a_backup_of_the_same_store_is_written_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    store_at(&at("a.iso")).close().expect("closed");
    store_at(&at("other.iso")).close().expect("closed");
    refused(&at("a.iso"), &at("other.iso"), "no backup");
    refused(&at("a.iso"), &at("a.iso"), "inside");
    refused(&at("a.iso"), &at("a.iso/x"), "inside");
    fs::create_dir(at("full")).expect("made");
    fs::write(at("full/mine"), "text").expect("written");
    refused(&at("a.iso"), &at("full"), "other files");
    fs::write(at("file"), "text").expect("written");
    refused(&at("a.iso"), &at("file"), "a file");
    copy(&at("a.iso"), &at("b.iso"));
    refused(&at("other.iso"), &at("b.iso"), "another store");
    let store = Store::open(at("b.iso"), Mode::ReadWrite).expect("opens");
    store
        .writer("n/long")
        .expect("the signal")
        .append(&[1i16])
        .expect("appended");
    store.commit(true).expect("committed");
    store.close().expect("closed");
    refused(&at("a.iso"), &at("b.iso"), "written to");
    assert_eq!(fs::read_to_string(at("full/mine")).expect("read"), "text");
}

#[test]
fn an_interrupted_backup_does_not_open_and_the_next_one_finishes_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, to) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    store_at(&path).close().expect("closed");
    let interrupt = Interrupt::default();
    let error = isochrony_store::interrupt::stoppable(&interrupt, || {
        backup(&path, &to, &mut |progress| {
            if progress.done() > progress.total().expect("known") * 9 / 10 {
                interrupt.request();
            }
        })
    });
    assert_eq!(error.expect_err("stopped").code(), "interrupted");
    for mode in [Mode::Read, Mode::ReadWrite] {
        let error = Store::open(&to, mode).err().expect("refused");
        assert_eq!(error.code(), "unfinished_backup", "{error}");
    }
    assert_eq!(
        verify(&to, &DEEP).expect("verified").findings[0].code,
        "unfinished_backup"
    );
    let report = copy(&path, &to);
    assert!(report.kept_bytes > 0, "{report:?}");
    assert_eq!(shown(&to), shown(&path));
}

#[test]
fn a_backup_that_was_killed_behind_a_commit_is_sound_once_it_is_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let [path, to, killed] = ["a.iso", "b.iso", "killed.iso"].map(|name| folder.path().join(name));
    store_at(&path).close().expect("closed");
    let mut copied = false;
    let report = backup(&path, &to, &mut |progress| {
        // In the last signal, `n/short`: `n/long` is committed, and its views have no record yet.
        if !copied && progress.done() + 1000 >= progress.total().expect("known") {
            copied = true;
            let done = std::process::Command::new("cp")
                .arg("-a")
                .args([&to, &killed])
                .status();
            assert!(done.expect("copies").success());
        }
    });
    report.expect("backed up");
    assert!(copied);
    let report = copy(&path, &killed);
    assert!(report.kept_bytes >= 6_600_000, "{report:?}");
    assert_eq!(shown(&killed), shown(&path));
}

#[test]
fn an_interrupted_update_leaves_the_backup_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, to) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let store = store_at(&path);
    copy(&path, &to);
    let before = shown(&to);
    store
        .writer("n/long")
        .expect("the signal")
        .append(&ramp(2_000_000, 5))
        .expect("appended");
    store.commit(true).expect("committed");
    let interrupt = Interrupt::default();
    let error = isochrony_store::interrupt::stoppable(&interrupt, || {
        backup(&path, &to, &mut |progress| {
            if progress.done() > 500_000 {
                interrupt.request();
            }
        })
    });
    assert_eq!(error.expect_err("stopped").code(), "interrupted");
    assert_eq!(shown(&to), before);
    assert_eq!(verify(&to, &DEEP).expect("verified").findings, []);
    copy(&path, &to);
    assert_eq!(shown(&to), shown(&path));
    store.close().expect("closed");
}

#[test]
fn damage_of_the_source_does_not_reach_the_backup() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, to) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let store = store_at(&path);
    copy(&path, &to);
    let before = shown(&to);
    store
        .writer("n/long")
        .expect("the signal")
        .append(&ramp(100_000, 5))
        .expect("appended");
    store
        .writer("n/short")
        .expect("the signal")
        .append(&ramp(100, 5))
        .expect("appended");
    store.close_committed();
    let shard = path.join("n/long/data/c/0");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(shard)
        .expect("opens");
    let at = 4096 + 2 * (3_300_000 + 1000 + 50_000);
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xAA; 8], at).expect("written");
    let report = backup(&path, &to, &mut |_| ()).expect("backed up");
    let [(name, why)] = report.failed.as_slice() else {
        panic!("{report:?}")
    };
    assert_eq!(name, "n/long");
    assert!(why.contains("checksum"), "{why}");
    assert_eq!(verify(&to, &DEEP).expect("verified").findings, []);
    let after = shown(&to);
    assert_eq!(after["n/long"], before["n/long"]);
    assert_eq!(after["n/short"], shown(&path)["n/short"]);
}

#[test]
fn damage_of_the_last_chunk_does_not_reach_the_backup() {
    for (name, shard, sample) in [("n/short", 0, 490), ("n/long", 0, 3_300_900)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, to) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
        store_at(&path).close().expect("closed");
        copy(&path, &to);
        let before = shown(&to);
        let shard = path.join(name).join(format!("data/c/{shard}"));
        let mut bytes = fs::read(&shard).expect("read");
        bytes[4096 + 2 * sample] ^= 0x3f;
        fs::write(&shard, bytes).expect("written");
        let report = backup(&path, &to, &mut |_| ()).expect("backed up");
        let [(failed, why)] = report.failed.as_slice() else {
            panic!("{report:?}")
        };
        assert_eq!(failed, name);
        assert!(why.contains("checksum"), "{why}");
        assert_eq!(verify(&to, &DEEP).expect("verified").findings, []);
        assert_eq!(shown(&to), before);
    }
}

trait CloseCommitted {
    fn close_committed(&self);
}

impl CloseCommitted for Store {
    fn close_committed(&self) {
        self.commit(true).expect("committed");
        let closed: Result<(), StoreError> = self.close();
        closed.expect("closed");
    }
}
