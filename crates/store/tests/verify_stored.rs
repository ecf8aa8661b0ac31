//! Damage of every kind is named, and what can be mended is.

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
/// Samples of one inner chunk and of one shard, at this rate and type.
const CHUNK: i64 = 32_768;
const SHARD: i64 = CHUNK * 256;

struct Case {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

/// A closed store of one signal: a shard and a half of samples with a gap of 1,000 in the first chunk.
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

    /// Repairs and gives what is found afterwards.
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

#[test]
fn a_sound_store_is_clean() {
    let case = case();
    let report = case.verify();
    assert_eq!(report.findings, []);
    assert_eq!(report.signals, 1);
    assert_eq!(report.bytes, (SHARD * 3) as u64);
}

#[test]
fn names_flipped_bits_and_never_hides_them() {
    let case = case();
    flip(&case.file("data/c/0"), 65_536 + 3 * 65_536 + 17);
    let finding = case.only();
    assert_eq!(finding.code, "flipped_bits");
    assert_eq!(finding.range, Some(3 * CHUNK..4 * CHUNK));
    assert_eq!(finding.path, case.file("data/c/0"));
    let at = |text| civil::parse(text).expect("a time");
    assert_eq!(
        finding.civil,
        Some((at("2020-01-01T00:16:23.04Z"), at("2020-01-01T00:21:50.72Z")))
    );
    assert!(!finding.repairable);
    let before = case.samples();
    assert_eq!(case.repair().findings.len(), 1);
    assert_eq!(case.samples(), before);
}

#[test]
fn bits_inside_gaps_do_not_matter() {
    let case = case();
    flip(&case.file("data/c/0"), 65_536 + 2 * 5500);
    assert_eq!(case.verify().findings, []);
}

#[test]
fn a_truncated_shard_loses_its_end_and_says_so() {
    let case = case();
    let path = case.file("data/c/1");
    let length = fs::metadata(&path).expect("there").len();
    fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("opens")
        .set_len(length - 65_536)
        .expect("cut");
    let finding = case.only();
    assert_eq!(finding.code, "truncated_shard");
    let lost = SHARD * 3 / 2 - CHUNK..SHARD * 3 / 2;
    assert_eq!(finding.range, Some(lost.clone()));
    assert!(finding.repairable);
    assert_eq!(case.repair().findings, []);
    // As long as other readers of the array expect, with a hole.
    assert_eq!(fs::metadata(&path).expect("there").len(), length);
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let signal = store.signal("n/s").expect("the signal");
    assert_eq!(
        signal.gaps().iter().last().map(|gap| gap.range()),
        Some(lost.clone())
    );
    let event = signal
        .events()
        .find(|event| event.kind == "samples_lost")
        .expect("an event");
    assert_eq!((event.start, event.end), (lost.start, lost.end));
    // And it goes on.
    let writer = store.writer("n/s").expect("a writer");
    writer.append(&[7i16; 100]).expect("appended");
    store.close_committed();
    assert_eq!(case.verify().findings, []);
    assert_eq!(case.samples().last(), Some(&7));
}

#[test]
fn a_shard_cut_within_its_head_gets_index_and_length_again() {
    for left in [0, 10, 5000] {
        let case = case();
        let path = case.file("data/c/1");
        let before = case.samples().len() as i64;
        let whole = fs::read(&path).expect("there");
        fs::write(&path, &whole[..left]).expect("cut");
        let finding = case.only();
        assert_eq!(finding.code, "truncated_shard");
        assert_eq!(finding.range, Some(SHARD..SHARD * 3 / 2));
        assert_eq!(case.repair().findings, [], "{left}");
        let mended = fs::read(&path).expect("there");
        assert_eq!(mended.len(), whole.len());
        assert_eq!(mended[..65_536], whole[..65_536]);
        assert!(mended[65_536..].iter().all(|byte| *byte == 0));
        assert_eq!(case.samples().len() as i64, before - SHARD / 2);
    }
}

#[test]
fn a_missing_shard_becomes_a_gap() {
    let case = case();
    fs::remove_file(case.file("data/c/0")).expect("removed");
    let finding = case.only();
    assert_eq!(
        (finding.code, finding.range.clone()),
        ("missing_shard", Some(0..SHARD))
    );
    assert_eq!(case.repair().findings, []);
    assert_eq!(case.samples().len() as i64, SHARD / 2);
}

#[test]
fn a_damaged_index_is_restored_where_checksums_prove_the_samples() {
    let case = case();
    let before = case.samples();
    flip(&case.file("data/c/0"), 40);
    assert_eq!(case.only().code, "damaged_index");
    assert_eq!(case.repair().findings, []);
    assert_eq!(case.samples(), before);
    // Not where they do not.
    flip(&case.file("data/c/0"), 40);
    flip(&case.file("data/c/0"), 65_536 + 70_000);
    assert_eq!(case.only().code, "damaged_index");
    assert_eq!(case.repair().findings.len(), 1);
}

#[test]
fn foreign_writes_are_named_and_rewritten_where_nothing_changed() {
    use zarrs::array::{Array, ArraySubset};
    let case = case();
    let before = case.samples();
    let rewrite = |value: i16| {
        let store = std::sync::Arc::new(
            zarrs::filesystem::FilesystemStore::new(&case.path).expect("a folder"),
        );
        let array = Array::open(store, "/n/s/data").expect("an array");
        let one = ArraySubset::new_with_start_shape(vec![10], vec![1]).expect("one sample");
        array.store_array_subset(&one, &[value]).expect("stored");
    };
    rewrite(10);
    assert_eq!(case.only().code, "foreign_write");
    assert_eq!(case.samples(), before);
    assert_eq!(case.repair().findings, []);
    assert_eq!(case.samples(), before);
    rewrite(11);
    let codes: Vec<_> = case
        .verify()
        .findings
        .iter()
        .map(|finding| finding.code)
        .collect();
    assert_eq!(codes, ["foreign_write", "flipped_bits"]);
    let after = case.repair();
    assert_eq!(
        after.findings.iter().map(|f| f.code).collect::<Vec<_>>(),
        ["foreign_write", "flipped_bits"]
    );
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
fn an_impossible_gap_table_is_named() {
    let case = case();
    let path = case.file("gaps/c/0/0");
    let length = fs::metadata(&path).expect("there").len();
    // The rows begin behind index and header: any flipped bit is caught by the checksum of the rows.
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
fn missing_checksums_are_recorded_but_wrong_ones_stay() {
    let case = case();
    fs::remove_file(case.file("crc/c/0")).expect("removed");
    let finding = case.only();
    assert_eq!(
        (finding.code, finding.range.clone()),
        ("missing_checksum", Some(0..SHARD * 3 / 2))
    );
    assert_eq!(case.repair().findings, []);
    flip(&case.file("crc/c/0"), 65_536 + 4 * 7);
    assert_eq!(case.only().code, "flipped_bits");
}

#[test]
fn sealed_damage_is_found_by_decoding() {
    let case = case();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    store.seal("n/s", Codec::default()).expect("sealed");
    store.close().expect("closed");
    assert_eq!(case.verify().findings, []);
    let path = case.file("data/c/0");
    flip(&path, 1000);
    let finding = case.verify().findings[0].clone();
    assert!(
        matches!(finding.code, "unreadable_chunk" | "flipped_bits"),
        "{finding:?}"
    );
    fs::remove_file(&path).expect("removed");
    assert_eq!(case.verify().findings[0].code, "missing_shard");
}

#[test]
fn orphans_and_newer_versions_are_named() {
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
fn what_is_not_a_store_is_an_error_not_a_report() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = verify(folder.path(), &VerifyOptions::default()).expect_err("no store");
    assert_eq!(error.code(), "not_a_store");
}

#[test]
fn looks_only_at_the_signals_asked_for() {
    let case = case();
    flip(&case.file("data/c/0"), 65_536 + 17);
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

/// A closed store of one signal of five samples.
fn short() -> Case {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).expect("created");
    let options = CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate"));
    let writer = store.create("n/s", &options).expect("a signal");
    writer.append(&[1i16, 2, 3, 4, 5]).expect("appended");
    store.close_committed();
    Case {
        _folder: folder,
        path,
    }
}

impl Case {
    /// Appends and leaves the store open, with a commit but no checkpoint.
    fn append(&self, samples: &[i16]) -> Store {
        let store = Store::open(&self.path, Mode::ReadWrite).expect("opens");
        let writer = store.writer("n/s").expect("the signal");
        writer.append(samples).expect("appended");
        store.commit(false).expect("committed");
        store
    }

    fn counts(&self) -> (u64, u64) {
        let report = self.verify();
        assert_eq!(report.findings, []);
        (report.bytes, report.unchecked)
    }
}

#[test]
fn names_a_flipped_bit_of_a_signal_of_five_samples() {
    let case = short();
    assert_eq!(case.counts(), (10, 0));
    flip(&case.file("data/c/0"), 65_536 + 9);
    let finding = case.only();
    assert_eq!(finding.code, "flipped_bits");
    assert_eq!(finding.range, Some(0..5));
    assert!(!finding.repairable);
    assert_eq!(case.repair().findings.len(), 1);
}

#[test]
fn names_a_flipped_bit_behind_the_last_full_chunk() {
    let case = case();
    case.append(&[7; 5]).close_committed();
    let end = SHARD * 3 / 2 + 5;
    assert_eq!(case.counts(), (2 * end as u64, 0));
    flip(&case.file("data/c/1"), 65_536 + SHARD as u64 + 9);
    let finding = case.only();
    assert_eq!(finding.code, "flipped_bits");
    assert_eq!(finding.range, Some(end - 5..end));
}

#[test]
fn samples_appended_since_the_last_checkpoint_are_unchecked_and_said_so() {
    let case = short();
    let store = case.append(&[6, 7]);
    assert_eq!(case.counts(), (10, 2));
    assert_eq!(store.verify(&DEEP).expect("verified").unchecked, 2);
    // What was summed before still is checked; the rest cannot be.
    flip(&case.file("data/c/0"), 65_536 + 12);
    assert_eq!(case.counts(), (10, 2));
    flip(&case.file("data/c/0"), 65_536 + 3);
    assert_eq!(case.only().range, Some(0..5));
    store.close().expect("closed");
}

#[test]
fn a_bit_that_flipped_before_more_was_appended_is_still_named() {
    let case = short();
    flip(&case.file("data/c/0"), 65_536 + 3);
    case.append(&[6, 7]).close_committed();
    assert_eq!(case.only().range, Some(0..7));
    // The chunk becomes a full one.
    let rest: Vec<i16> = (7..CHUNK).map(|i| i as i16).collect();
    case.append(&rest).close_committed();
    assert_eq!(case.only().range, Some(0..CHUNK));
}

#[test]
fn marking_filling_and_sealing_keep_the_end_checked() {
    let case = short();
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    let writer = store.writer("n/s").expect("the signal");
    writer.mark_invalid(1..3).expect("marked");
    store.commit(true).expect("committed");
    // The sum of the last checkpoint is not of these samples any more.
    assert_eq!(case.counts(), (0, 3));
    store.close().expect("closed");
    assert_eq!(case.counts(), (10, 0));
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    store.seal("n/s", Codec::default()).expect("sealed");
    store.close().expect("closed");
    assert_eq!(case.counts(), (10, 0));
    let store = Store::open(&case.path, Mode::ReadWrite).expect("opens");
    store.unseal("n/s").expect("unsealed");
    store.close().expect("closed");
    assert_eq!(case.counts(), (10, 0));
    flip(&case.file("data/c/0"), 65_536 + 2);
    assert_eq!(case.counts(), (10, 0));
    flip(&case.file("data/c/0"), 65_536);
    assert_eq!(case.only().code, "flipped_bits");
}

#[test]
fn a_foreign_write_behind_the_last_full_chunk_is_not_taken_for_ours() {
    use zarrs::array::Array;
    let case = short();
    let rewrite = |value: i16| {
        let store = zarrs::filesystem::FilesystemStore::new(&case.path).expect("a folder");
        let array = Array::open(std::sync::Arc::new(store), "/n/s/data").expect("an array");
        let mut samples = vec![0i16; SHARD as usize];
        samples[..5].copy_from_slice(&[1, 2, value, 4, 5]);
        array.store_chunk(&[0], samples).expect("stored");
    };
    let codes = |report: Report| -> Vec<_> { report.findings.iter().map(|f| f.code).collect() };
    rewrite(3);
    assert_eq!(codes(case.verify()), ["foreign_write"]);
    assert_eq!(codes(case.repair()), [""; 0]);
    assert_eq!(case.counts(), (10, 0));
    rewrite(4);
    assert_eq!(codes(case.verify()), ["foreign_write", "flipped_bits"]);
    assert_eq!(codes(case.repair()), ["foreign_write", "flipped_bits"]);
}

#[test]
fn a_lost_table_is_named_and_no_sample_is_judged_without_it() {
    for lost in [
        "gaps/c",
        "gaps",
        "runs/c",
        "runs",
        "timebase/points/c",
        "timebase",
    ] {
        let case = case();
        fs::remove_dir_all(case.file(lost)).expect("removed");
        let report = case.verify();
        let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
        assert!(
            codes.contains(&"missing_table")
                || codes == ["impossible_table"]
                || codes == ["damaged_file"],
            "{lost}: {report:#?}"
        );
        assert!(!codes.contains(&"missing_checksum"), "{lost}: {report:#?}");
        assert!(
            report.findings.iter().all(|finding| !finding.repairable),
            "{lost}: {report:#?}"
        );
        let first = lost.split('/').next().expect("a name");
        let what = &report.findings[0].what;
        assert!(what.contains(first), "{what}");
    }
}
