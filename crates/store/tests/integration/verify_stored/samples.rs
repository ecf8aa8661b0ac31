//! Damage to samples: files, checksums and codecs.

use super::*;

#[test]
fn names_flipped_bits_and_never_hides_them() {
    let case = case();
    flip(&case.file("data/c/0"), HEAD + 3 * 65_536 + 17);
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
    flip(&case.file("data/c/0"), HEAD + 2 * 5500);
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
    // As array readers expect, with a hole.
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
    let writer = store.writer("n/s").expect("a writer");
    writer.append(&[7i16; 100]).expect("appended");
    store.close_committed();
    assert_eq!(case.verify().findings, []);
    assert_eq!(case.samples().last(), Some(&7));
}

#[test]
fn a_shard_cut_within_its_head_gets_index_and_length_again() {
    for left in [0, 10, 3000] {
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
        assert_eq!(mended[..HEAD as usize], whole[..HEAD as usize]);
        assert!(mended[HEAD as usize..].iter().all(|byte| *byte == 0));
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
    flip(&case.file("data/c/0"), 40);
    flip(&case.file("data/c/0"), HEAD + 70_000);
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
