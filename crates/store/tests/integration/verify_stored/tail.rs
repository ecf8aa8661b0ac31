//! The last, partial chunk, whose checksum is stored elsewhere.

use super::*;

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
    flip(&case.file("data/c/0"), HEAD + 9);
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
    flip(&case.file("data/c/1"), HEAD + SHARD as u64 + 9);
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
    // Only samples with a checksum can be verified.
    flip(&case.file("data/c/0"), HEAD + 12);
    assert_eq!(case.counts(), (10, 2));
    flip(&case.file("data/c/0"), HEAD + 3);
    assert_eq!(case.only().range, Some(0..5));
    store.close().expect("closed");
}

#[test]
fn a_bit_that_flipped_before_more_was_appended_is_still_named() {
    let case = short();
    flip(&case.file("data/c/0"), HEAD + 3);
    case.append(&[6, 7]).close_committed();
    assert_eq!(case.only().range, Some(0..7));
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
    // The last checkpoint's checksum no longer applies.
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
    flip(&case.file("data/c/0"), HEAD + 2);
    assert_eq!(case.counts(), (10, 0));
    flip(&case.file("data/c/0"), HEAD);
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
