//! Complex numbers stored as pairs of int16: every way of reading gives the appended samples.

use std::path::Path;
use std::sync::Arc;

use isochrony_segment::{Complex32, DType};
use isochrony_store::{
    Codec, CreateOptions, Fill, Mode, SampleFormat, Signal, SignalReader, Store, Strategy,
    VerifyOptions, backup, repair,
};
use isochrony_time::Rate;
use zarrs::array::{Array, ArrayBytes, ArraySubset};
use zarrs::filesystem::FilesystemStore;

const GAP: std::ops::Range<i64> = 300_000..300_100;
const END: i64 = 1_200_000;

fn pair(index: i64) -> [i16; 2] {
    let bits = index.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed());
    [(bits >> 48) as i16, (bits >> 20) as i16]
}

fn pairs(range: std::ops::Range<i64>) -> Vec<i16> {
    range.flat_map(pair).collect()
}

fn complex(index: i64) -> Complex32 {
    let [re, im] = pair(index);
    Complex32::new(re.into(), im.into())
}

fn made(path: &Path) -> Store {
    let store = Store::open(path, Mode::Create).unwrap();
    let options = CreateOptions::new(SampleFormat::ComplexInt16, Rate::from_hz(1000).unwrap());
    let writer = store.create("radio/iq", &options).unwrap();
    writer.append(&pairs(0..GAP.start)).unwrap();
    writer.append_gap(GAP.end - GAP.start).unwrap();
    writer
        .append_bytes(bytemuck::cast_slice(&pairs(GAP.end..END)))
        .unwrap();
    store.commit(true).unwrap();
    store
}

fn check(signal: &Signal) {
    assert_eq!(
        (signal.dtype(), signal.format()),
        (DType::C64, SampleFormat::ComplexInt16)
    );
    let selection = signal.select(0..signal.end_index()).unwrap();
    let mut seen = 0;
    for segment in selection.segments() {
        let segment = segment.unwrap();
        let mut at = segment.start();
        for buffer in segment.buffers() {
            for &sample in buffer.samples::<Complex32>().unwrap() {
                assert_eq!(sample, complex(at), "{at} of {}", signal.codec());
                (at, seen) = (at + 1, seen + 1);
            }
        }
    }
    assert_eq!(seen, END - (GAP.end - GAP.start));
    let all = signal.select(GAP.start - 5..GAP.end + 5).unwrap();
    let mut values = vec![Complex32::default(); 110];
    all.counts_into(Fill::Value(Complex32::new(-1.0, 0.0)), &mut values)
        .unwrap();
    for (value, index) in values.iter().zip(GAP.start - 5..) {
        let expected = if GAP.contains(&index) {
            Complex32::new(-1.0, 0.0)
        } else {
            complex(index)
        };
        assert_eq!(*value, expected);
    }
    for strategy in Strategy::ALL {
        let mut reader = SignalReader::new(signal, selection.parts(), 50_001, strategy).unwrap();
        let range = 200_000..250_001;
        let read = reader.read(range.clone()).unwrap();
        let buffers = read
            .buffers()
            .flat_map(|buffer| buffer.samples::<Complex32>().unwrap());
        assert!(buffers.copied().eq(range.map(complex)), "{strategy}");
    }
}

/// Read by `zarrs`, gaps included.
fn foreign(path: &Path) -> (Vec<u64>, Vec<i16>) {
    let store = Arc::new(FilesystemStore::new(path).unwrap());
    let array = Array::open(store, "/radio/iq/data").unwrap();
    let all = ArraySubset::new_with_shape(array.shape().to_vec());
    let bytes: ArrayBytes<'static> = array.retrieve_array_subset(&all).unwrap();
    let bytes = bytes.into_fixed().unwrap();
    let numbers = bytes
        .chunks_exact(2)
        .map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    (array.shape().to_vec(), numbers.collect())
}

fn check_foreign(path: &Path) {
    let (shape, numbers) = foreign(path);
    assert_eq!(shape, [END as u64, 2]);
    for (index, found) in numbers.chunks_exact(2).enumerate() {
        let expected = if GAP.contains(&(index as i64)) {
            [0, 0]
        } else {
            pair(index as i64)
        };
        assert_eq!(found, expected, "{index}");
    }
}

fn assert_sound(store: &Store) {
    let options = VerifyOptions {
        signals: None,
        deep: true,
    };
    assert_eq!(store.verify(&options).unwrap().findings, []);
}

#[test]
fn pairs_are_read_as_complex_numbers_stored_sealed_and_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let store = made(&path);
    check(&store.signal("radio/iq").unwrap());
    assert_sound(&store);
    check_foreign(&path);
    for codec in [Codec::default(), "blosc".parse().unwrap()] {
        store.seal("radio/iq", codec).unwrap();
        let sealed = store.signal("radio/iq").unwrap();
        assert!(sealed.is_sealed());
        check(&sealed);
        assert_sound(&store);
        check_foreign(&path);
        let copy = folder.path().join(format!("{}.iso", sealed.codec()));
        backup(&path, &copy, &mut |_| {}).unwrap();
        let copied = Store::open(&copy, Mode::Read).unwrap();
        check(&copied.signal("radio/iq").unwrap());
        assert_sound(&copied);
        store.unseal("radio/iq").unwrap();
    }
    let copy = folder.path().join("flat.iso");
    backup(&path, &copy, &mut |_| {}).unwrap();
    check_foreign(&copy);
    store.close().unwrap();
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    check(&store.signal("radio/iq").unwrap());
    assert_sound(&store);
}

#[test]
fn views_and_metadata_lost_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    made(&path).close().unwrap();
    let metadata = path.join("radio/iq/data/zarr.json");
    let before = std::fs::read(&metadata).unwrap();
    std::fs::remove_file(&metadata).unwrap();
    let findings = isochrony_store::verify(&path, &VerifyOptions::default())
        .unwrap()
        .findings;
    assert!(
        findings.iter().all(|finding| finding.repairable) && !findings.is_empty(),
        "{findings:?}"
    );
    repair(&path, &VerifyOptions::default()).unwrap();
    assert_eq!(std::fs::read(&metadata).unwrap(), before);
    check(
        &Store::open(&path, Mode::Read)
            .unwrap()
            .signal("radio/iq")
            .unwrap(),
    );
}

#[test]
fn rejects_other_types_for_pairs_of_int16_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder.path().join("a.iso"));
    let writer = store.writer("radio/iq").unwrap();
    let error = writer.append(&[Complex32::new(1.0, 2.0)]).unwrap_err();
    assert_eq!(error.code(), "dtype_mismatch");
    assert!(error.to_string().contains("complex_int16"), "{error}");
    let error = writer.append(&[1i16, 2, 3]).unwrap_err();
    assert_eq!(error.code(), "partial_sample");
    assert!(
        error.to_string().contains("6 bytes") && error.to_string().contains("last 2 bytes"),
        "{error}"
    );
    assert_eq!(writer.signal().unwrap().end_index(), END);
    writer.mark_invalid(10..20).unwrap();
    writer.fill(10, &pairs(10..20)).unwrap();
    store.commit(true).unwrap();
    check(&store.signal("radio/iq").unwrap());
    assert_sound(&store);
}
