//! Every kind of damage is reported, and repaired if possible.

mod attributes;
mod commits;
mod lost;
mod metadata;
mod replaced;
mod samples;
mod tables;
mod tail;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::{Codec, CreateOptions, Finding, Mode, Report, Store, VerifyOptions, verify};
use isochrony_time::{Rate, civil};

const DEEP: VerifyOptions = VerifyOptions {
    signals: None,
    deep: true,
};

const CHUNK: i64 = 32_768;
const SHARD: i64 = CHUNK * 128;
/// Bytes before a shard's samples.
const HEAD: u64 = 4096;

struct Case {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

/// A shard and a half, with a gap of 1,000 in the first chunk.
fn case() -> Case {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).expect("created");
    let mut options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
    options.start = Some(civil::parse("2020-01-01T00:00:00Z").expect("a time"));
    let writer = store.create("n/s", &options).expect("a signal");
    let samples: Vec<i16> = (0..SHARD * 3 / 2).map(|i| (i % 30_011) as i16).collect();
    writer.append(&samples[..5000]).expect("appended");
    writer.append_gap(1000).expect("a gap");
    writer.append(&samples[6000..]).expect("appended");
    store.close_committed();
    Case {
        _folder: folder,
        path,
    }
}

trait CloseCommitted {
    fn close_committed(&self);
}

impl CloseCommitted for Store {
    fn close_committed(&self) {
        self.commit(true).expect("committed");
        self.close().expect("closed");
    }
}

impl Case {
    fn file(&self, name: &str) -> PathBuf {
        self.path.join("n/s").join(name)
    }

    fn verify(&self) -> Report {
        verify(&self.path, &DEEP).expect("verified")
    }

    fn only(&self) -> Finding {
        let report = self.verify();
        let [finding] = report.findings.as_slice() else {
            panic!("{report:#?}")
        };
        finding.clone()
    }

    fn repair(&self) -> Report {
        let store = Store::open(&self.path, Mode::ReadWrite).expect("opens");
        let (_, after) = store.repair(&DEEP).expect("repaired");
        store.close().expect("closed");
        assert_eq!(self.verify().findings, after.findings);
        after
    }

    fn samples(&self) -> Vec<i16> {
        let store = Store::open(&self.path, Mode::Read).expect("opens");
        let signal = store.signal("n/s").expect("the signal");
        let selection = signal.select(0..signal.end_index()).expect("all");
        selection
            .segments()
            .flat_map(|segment| segment.expect("read").to_vec::<i16>().expect("i16"))
            .collect()
    }
}

fn flip(path: &Path, at: u64) {
    let file = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .expect("opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("read");
    file.write_all_at(&[byte[0] ^ 4], at).expect("written");
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("made");
    for entry in fs::read_dir(from).expect("listed") {
        let entry = entry.expect("an entry");
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(&from, &to).expect("copied");
        }
    }
}

#[test]
fn a_sound_store_is_clean() {
    let case = case();
    let report = case.verify();
    assert_eq!(report.findings, []);
    assert_eq!(report.signals, 1);
    assert_eq!(report.bytes, (SHARD * 3) as u64);
}

#[test]
fn foreign_metadata_is_named_and_rewritten() {
    let case = case();
    for (file, from, to) in [
        ("data/zarr.json", "\"fill_value\": 0", "\"fill_value\": 1"),
        ("zarr.json", "\"int16\"", "\"int32\""),
        ("crc/zarr.json", "\"uint32\"", "\"int32\""),
    ] {
        let path = case.file(file);
        let text = fs::read_to_string(&path).expect("read");
        assert!(text.contains(from), "{text}");
        fs::write(&path, text.replacen(from, to, 1)).expect("written");
        let finding = case.only();
        assert_eq!(
            (finding.code, finding.path.clone()),
            ("foreign_metadata", path.clone())
        );
        assert_eq!(case.repair().findings, []);
        assert_eq!(fs::read_to_string(&path).expect("read"), text);
    }
    fs::remove_file(case.file("data/zarr.json")).expect("removed");
    assert_eq!(case.only().code, "missing_metadata");
    assert_eq!(case.repair().findings, []);
}

#[test]
fn a_users_attributes_are_the_users() {
    let case = case();
    let path = case.file("zarr.json");
    let text = fs::read_to_string(&path).expect("read");
    fs::write(
        &path,
        text.replacen("\"attributes\": {", "\"attributes\": { \"mine\": 1,", 1),
    )
    .expect("written");
    assert_eq!(case.verify().findings, []);
}

#[test]
fn stale_views_are_built_anew() {
    let case = case();
    flip(
        &case.file("views/512/moments/c/0/0"),
        65_536 + 24 * 1000 + 8,
    );
    assert_eq!(case.only().code, "stale_views");
    assert_eq!(case.repair().findings, []);
    fs::remove_file(case.file("views/4096/extrema/c/0/0")).expect("removed");
    assert_eq!(case.only().code, "stale_views");
    assert_eq!(case.repair().findings, []);
}

#[test]
fn reports_orphans_and_newer_versions() {
    let case = case();
    let copy = case.path.join("n/copy");
    fs::create_dir_all(copy.join("crc")).expect("made");
    fs::copy(case.file("zarr.json"), copy.join("zarr.json")).expect("copied");
    assert_eq!(case.only().code, "orphan_signal");
    fs::remove_dir_all(&copy).expect("removed");

    let manifest = case.path.join(".isochrony/MANIFEST");
    let text = fs::read_to_string(&manifest).expect("read");
    let line = text
        .lines()
        .next()
        .expect("a line")
        .replace("\"format\":1", "\"format\":2");
    let line = format!("{line}\n");
    fs::write(
        &manifest,
        format!("{line}{:08x}\n", crc32c::crc32c(line.as_bytes())),
    )
    .expect("written");
    let finding = case.only();
    assert_eq!(finding.code, "newer_format");
    assert!(finding.mend.contains("update"), "{finding:?}");
    assert!(!finding.repairable);
}

#[test]
fn verifying_something_else_than_a_store_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = verify(folder.path(), &VerifyOptions::default()).expect_err("no store");
    assert_eq!(error.code(), "not_a_store");
}

#[test]
fn verifies_only_the_requested_signals() {
    let case = case();
    flip(&case.file("data/c/0"), HEAD + 17);
    let options = VerifyOptions {
        signals: Some("other/*".into()),
        deep: true,
    };
    let report = verify(&case.path, &options).expect("verified");
    assert_eq!((report.signals, report.findings.len()), (0, 0));
    let options = VerifyOptions {
        signals: Some("n/*".into()),
        deep: false,
    };
    assert!(
        verify(&case.path, &options).expect("verified").is_clean(),
        "reading all takes `deep`"
    );
}
