//! A failure caused by an active writer keeps one signal out of a backup, never the others. The writer acts in the
//! backup's progress function: tests are deterministic.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{BackupReport, CreateOptions, Mode, Store, VerifyOptions, backup, verify};
use isochrony_time::Rate;

const LARGE: i64 = 400_000;

fn options() -> CreateOptions {
    CreateOptions::new(DType::I16, Rate::new(1000, 1).expect("a rate"))
}

fn ramp(count: i64, add: i64) -> Vec<i16> {
    (0..count)
        .map(|i| ((i * 7 + add) % 30_011) as i16)
        .collect()
}

struct Fixture {
    _folder: tempfile::TempDir,
    path: PathBuf,
    copy: PathBuf,
    store: Store,
}

/// Large signals `a` and `z`, a small one `m`.
fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("a.iso"), folder.path().join("b.iso"));
    let store = Store::open(&path, Mode::Create).expect("created");
    for (name, count) in [("a", LARGE), ("m", 100), ("z", LARGE)] {
        let writer = store.create(name, &options()).expect("a signal");
        writer.append(&ramp(count, 0)).expect("appended");
    }
    store.commit(true).expect("committed");
    Fixture {
        _folder: folder,
        path,
        copy,
        store,
    }
}

impl Fixture {
    fn append(&self, name: &str, count: i64) {
        let writer = self.store.writer(name).expect("the signal");
        writer.append(&ramp(count, 3)).expect("appended");
        self.store.commit(true).expect("committed");
    }

    fn overwrite(&self, name: &str, add: i64) {
        let mut options = options();
        options.overwrite = true;
        let writer = self.store.create(name, &options).expect("created");
        writer.append(&ramp(LARGE, add)).expect("appended");
        self.store.commit(true).expect("committed");
    }

    fn damage(&self, sample: i64) {
        let shard = fs::OpenOptions::new()
            .write(true)
            .open(self.path.join("a/data/c/0"));
        let at = 4096 + 2 * sample.unsigned_abs();
        let written = shard.expect("opens").write_all_at(&[0xAA; 8], at);
        written.expect("written");
    }

    /// Calls `during` between chunks with the number of calls. Also gives how often the copy began.
    fn backup(&self, mut during: impl FnMut(usize)) -> (BackupReport, usize) {
        let (mut calls, mut begun) = (0, 0);
        let report = backup(&self.path, &self.copy, &mut |progress| {
            begun += usize::from(progress.done() == 0);
            calls += 1;
            during(calls);
        });
        let report = report.expect("backed up");
        let verified = verify(
            &self.copy,
            &VerifyOptions {
                signals: None,
                deep: true,
            },
        );
        assert_eq!(verified.expect("verified").findings, []);
        (report, begun)
    }
}

fn samples(path: &Path, name: &str) -> Vec<i16> {
    let store = Store::open(path, Mode::Read).expect("opens");
    let signal = store.signal(name).expect("the signal");
    let all = signal.select(0..signal.end_index()).expect("all");
    let mut samples = Vec::new();
    for segment in all.segments() {
        samples.extend(segment.expect("read").to_vec::<i16>().expect("i16"));
    }
    samples
}

fn failed(report: &BackupReport) -> Vec<&str> {
    report
        .failed
        .iter()
        .map(|(name, _)| name.as_str())
        .collect()
}

#[test]
fn a_signal_that_is_overwritten_while_it_is_copied_is_copied_anew() {
    let fixture = fixture();
    let (report, _) = fixture.backup(|call| {
        // During the copy of `a`, before a file of `z` was opened.
        if call == 2 {
            fixture.overwrite("z", 11);
        }
    });
    assert_eq!(report.failed, []);
    for name in ["a", "m", "z"] {
        assert!(
            samples(&fixture.copy, name) == samples(&fixture.path, name),
            "{name}"
        );
    }
}

#[test]
fn reports_a_signal_that_is_overwritten_all_the_time_and_keeps_its_backup() {
    let fixture = fixture();
    fixture.backup(|_| ());
    fixture.overwrite("a", 1);
    fixture.append("z", LARGE);
    let mut count = 1;
    let (report, begun) = fixture.backup(|call| {
        if call % 2 == 0 && count < 60 {
            count += 1;
            fixture.overwrite("a", count);
        }
    });
    assert_eq!(failed(&report), ["a"], "{report:?}");
    assert!(begun < 30, "{begun}");
    assert!(samples(&fixture.copy, "a") == ramp(LARGE, 0));
    assert!(samples(&fixture.copy, "z") == samples(&fixture.path, "z"));
    assert_eq!(fixture.backup(|_| ()).0.failed, []);
    assert!(samples(&fixture.copy, "a") == samples(&fixture.path, "a"));
}

#[test]
fn damage_of_one_signal_keeps_no_other_out_of_a_first_backup_beside_a_writer() {
    let fixture = fixture();
    fixture.damage(LARGE - 50_000);
    let (report, begun) = fixture.backup(|_| fixture.append("m", 10));
    assert_eq!(failed(&report), ["a"], "{report:?}");
    assert!(begun < 12, "{begun}");
    assert_eq!(report.signals, 2);
    assert!(samples(&fixture.copy, "z") == ramp(LARGE, 0));
    let copy = Store::open(&fixture.copy, Mode::Read).expect("opens");
    assert_eq!(copy.names().expect("names"), ["m", "z"]);
}

#[test]
fn damage_of_one_signal_keeps_no_other_out_of_an_update_beside_a_writer() {
    let fixture = fixture();
    fixture.backup(|_| ());
    for name in ["a", "z"] {
        fixture.append(name, LARGE);
    }
    fixture.damage(2 * LARGE - 50_000);
    let (report, begun) = fixture.backup(|_| fixture.append("m", 10));
    assert_eq!(failed(&report), ["a"], "{report:?}");
    assert!(begun < 12, "{begun}");
    assert!(samples(&fixture.copy, "a") == ramp(LARGE, 0));
    assert!(samples(&fixture.copy, "z") == samples(&fixture.path, "z"));
    let copied = report.copied_bytes;
    assert!(copied < 2 * LARGE.unsigned_abs() + 100_000, "{copied}");
}

#[test]
fn a_signal_that_cannot_be_compared_keeps_no_other_out_of_an_update() {
    let fixture = fixture();
    fixture.backup(|_| ());
    fixture.append("z", 1000);
    fixture.store.close().expect("closed");
    fs::remove_file(fixture.path.join("a/data/c/0")).expect("removed");
    let (report, _) = fixture.backup(|_| ());
    assert_eq!(failed(&report), ["a"], "{report:?}");
    assert!(samples(&fixture.copy, "a") == ramp(LARGE, 0));
    assert!(samples(&fixture.copy, "z") == samples(&fixture.path, "z"));
}

#[test]
fn a_link_instead_of_a_shard_affects_no_other_signal() {
    let fixture = fixture();
    fixture.store.close().expect("closed");
    let shard = fixture.path.join("a/data/c/0");
    fs::rename(&shard, fixture.path.join("moved")).expect("moved");
    std::os::unix::fs::symlink("../../../moved", &shard).expect("linked");
    let (report, _) = fixture.backup(|_| ());
    assert_eq!(failed(&report), ["a"], "{report:?}");
    assert!(report.failed[0].1.contains("symbolic link"), "{report:?}");
    assert!(samples(&fixture.copy, "z") == ramp(LARGE, 0));
}

#[test]
fn a_name_kept_by_a_failed_signal_affects_no_other() {
    let fixture = fixture();
    fixture.backup(|_| ());
    fixture.append("a", LARGE);
    fixture.damage(2 * LARGE - 50_000);
    fixture.store.rename("a", "b").expect("renamed");
    let writer = fixture.store.create("a", &options()).expect("created");
    writer.append(&ramp(50, 5)).expect("appended");
    fixture.append("z", 10);
    let (report, _) = fixture.backup(|_| ());
    assert_eq!(failed(&report), ["b", "a"], "{report:?}");
    assert!(samples(&fixture.copy, "a") == ramp(LARGE, 0));
    assert!(samples(&fixture.copy, "z") == samples(&fixture.path, "z"));
}
