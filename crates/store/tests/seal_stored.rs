//! Sealing and unsealing: the same samples come back, to us and to `zarrs`, for every dtype.

use std::path::Path;
use std::sync::Arc;

use isochrony_segment::DType;
use isochrony_store::{Codec, CreateOptions, Mode, Signal, Store};
use isochrony_time::Rate;
use zarrs::array::{Array, ArrayBytes, ArraySubset};
use zarrs::filesystem::FilesystemStore;

fn open(path: &Path, mode: Mode) -> Store {
    Store::open(path, mode).expect("the store opens")
}

/// Bytes that are valid samples of every type, compressible but not trivially.
fn bytes_of(dtype: DType, samples: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(samples * dtype.size());
    for i in 0..samples as u64 {
        let x = (i / 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match dtype {
            DType::Bool => bytes.push((x % 3 == 0) as u8),
            DType::F32 => bytes.extend((x as f32 / 7.0).to_ne_bytes()),
            DType::F64 => bytes.extend((x as f64 / 7.0).to_ne_bytes()),
            DType::C64 => bytes.extend([x as f32, -1.5].map(f32::to_ne_bytes).concat()),
            DType::C128 => bytes.extend([x as f64, -1.5].map(f64::to_ne_bytes).concat()),
            _ => bytes.extend(&x.to_ne_bytes()[..dtype.size()]),
        }
    }
    bytes
}

/// All samples of a signal, gaps left out.
fn samples_of(signal: &Signal) -> Vec<u8> {
    let selection = signal.select(0..signal.end_index()).expect("a selection");
    let mut bytes = Vec::new();
    for segment in selection.segments() {
        for buffer in segment.expect("a segment").buffers() {
            bytes.extend_from_slice(buffer.bytes());
        }
    }
    bytes
}

/// The whole array as `zarrs` reads it, gaps included.
fn foreign(path: &Path, signal: &str) -> Vec<u8> {
    let store = Arc::new(FilesystemStore::new(path).expect("a folder"));
    let array = Array::open(store, &format!("/{signal}/data")).expect("zarrs opens the array");
    let all = ArraySubset::new_with_shape(array.shape().to_vec());
    let bytes: ArrayBytes<'static> = array
        .retrieve_array_subset(&all)
        .expect("zarrs reads the array");
    bytes.into_fixed().expect("fixed size").into_owned()
}

#[test]
fn every_dtype_comes_back_sealed_and_unsealed_to_us_and_to_zarrs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = open(&path, Mode::Create);
    for dtype in DType::ALL {
        let name = format!("x/{dtype}");
        let size = dtype.size();
        // Several inner chunks and a rest, with a gap across a chunk's border.
        let (first, second) = (bytes_of(dtype, 150_000), bytes_of(dtype, 33_333));
        let writer = store
            .create(
                &name,
                &CreateOptions::new(dtype, Rate::new(2000, 1).expect("a rate")),
            )
            .expect("new");
        writer.append_bytes(&first).expect("appended");
        writer.append_gap(70_001).expect("a gap");
        writer.append_bytes(&second).expect("appended");
        store.commit(true).expect("committed");
        let expected = [first.clone(), second.clone()].concat();
        let with_gap = [first, vec![0; 70_001 * size], second].concat();
        let check = |what: &str| {
            assert!(
                samples_of(&store.signal(&name).expect("the signal")) == expected,
                "{dtype} {what}"
            );
            let reader = open(&path, Mode::Read);
            assert!(
                samples_of(&reader.signal(&name).expect("the signal")) == expected,
                "{dtype} {what}, reopened"
            );
            assert!(foreign(&path, &name) == with_gap, "{dtype} {what}, zarrs");
        };
        check("flat");
        let kept = store
            .signal(&name)
            .expect("the signal")
            .select(0..10)
            .expect("ten")
            .as_segment()
            .expect("segment");
        for codec in ["zstd:5", "blosc:lz4:5", "blosc:zstd:1"] {
            let codec: Codec = codec.parse().expect("a codec");
            let sealed = store.seal(&name, codec).expect("sealed");
            assert_eq!(sealed.raw_bytes, expected.len() as u64);
            assert!(sealed.ratio() > 1.0, "{dtype} {codec}: {sealed:?}");
            assert_eq!(
                store.signal(&name).expect("the signal").codec(),
                codec.name()
            );
            check(&codec.to_string());
            let error = writer.append_bytes(&vec![0; size]).expect_err("sealed");
            assert_eq!(error.code(), "sealed");
            assert!(error.to_string().contains("unseal"), "{error}");
            assert_eq!(writer.append_gap(5).expect_err("sealed").code(), "sealed");
            store.commit(true).expect("nothing was left pending");
        }
        store.unseal(&name).expect("unsealed");
        check("unsealed");
        writer.append_bytes(&vec![0; size]).expect("it grows again");
        // A segment from before shows what it did.
        assert_eq!(
            kept.buffers().next().expect("a buffer").bytes(),
            &expected[..10 * size]
        );
    }
}

#[test]
fn sealing_survives_reopening_and_random_reads_hit_chunks() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = open(&path, Mode::Create);
    let writer = store
        .create(
            "s",
            &CreateOptions::new(DType::I32, Rate::new(100, 1).expect("a rate")),
        )
        .expect("a signal");
    let samples: Vec<i32> = (0..3_000_000).map(|i| i / 5 - 7).collect();
    writer.append(&samples).expect("appended");
    store.seal("s", Codec::default()).expect("sealed");
    store.close().expect("closed");
    for mode in [Mode::Read, Mode::ReadWrite] {
        let store = open(&path, mode);
        let signal = store.signal("s").expect("the signal");
        let mut at = 12_345_i64;
        for _ in 0..200 {
            at = (at * 7_919 + 13) % 2_990_000;
            let segment = signal
                .select(at..at + 4096)
                .expect("a range")
                .as_segment()
                .expect("one segment");
            assert_eq!(
                segment.to_vec::<i32>().expect("i32"),
                &samples[at as usize..at as usize + 4096]
            );
        }
        // Views go on as before.
        let view = signal.view(0..3_000_000, 100).expect("a view");
        assert_eq!(
            view.columns.max.samples::<i32>().expect("i32")[99],
            samples[2_999_999]
        );
        let info = store.info(None).expect("info");
        assert_eq!(info.signals[0].codec, "zstd");
        assert!(
            info.signals[0].ratio().is_some_and(|ratio| ratio > 10.0),
            "{info:?}"
        );
        let deep = isochrony_store::VerifyOptions {
            deep: true,
            ..Default::default()
        };
        assert_eq!(store.verify(&deep).expect("verified").findings, []);
    }
}

#[test]
fn refuses_codecs_that_there_are_not() {
    for text in [
        "",
        "gzip",
        "zstd:0",
        "zstd:23",
        "zstd:x",
        "blosc:snappy",
        "blosc:lz4:10",
        "zstd:3:4",
    ] {
        let error = text.parse::<Codec>().expect_err(text);
        assert_eq!(error.code(), "invalid_codec");
        assert!(error.to_string().contains("zstd:LEVEL"));
    }
    for text in ["zstd:3", "blosc:lz4:5", "blosc:zstd:9"] {
        assert_eq!(text.parse::<Codec>().expect(text).to_string(), text);
    }
    assert_eq!("zstd".parse::<Codec>().expect("zstd"), Codec::default());
}

#[test]
fn shards_that_another_program_rewrote_are_read_by_decoding() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = open(&path, Mode::Create);
    let writer = store
        .create(
            "s",
            &CreateOptions::new(DType::I16, Rate::new(100, 1).expect("a rate")),
        )
        .expect("a signal");
    let samples: Vec<i16> = (0..9_000_000).map(|i| (i % 1000) as i16).collect();
    writer.append(&samples).expect("appended");
    store.commit(true).expect("committed");
    store.close().expect("closed");
    // zarrs rewrites the first shard, a full one, with one changed sample: a new file, other offsets.
    let foreign = Arc::new(FilesystemStore::new(&path).expect("a folder"));
    let array = Array::open(foreign, "/s/data").expect("an array");
    let changed = ArraySubset::new_with_start_shape(vec![5], vec![1]).expect("one sample");
    array
        .store_array_subset(&changed, &[-1i16])
        .expect("stored");
    let store = open(&path, Mode::ReadWrite);
    let mut expected = samples;
    expected[5] = -1;
    let signal = store.signal("s").expect("the signal");
    let segment = signal
        .select(0..9_000_000)
        .expect("all")
        .as_segment()
        .expect("one segment");
    assert!(segment.to_vec::<i16>().expect("i16") == expected);
    let writer = store.writer("s").expect("a writer");
    writer.mark_invalid(100..200).expect("marked");
    store.commit(true).expect("committed");
    assert_eq!(
        signal
            .view(0..9_000_000, 10)
            .expect("a view")
            .columns
            .count
            .iter()
            .sum::<u64>(),
        8_999_900
    );
    // Copying it makes a plain signal of it, with the change.
    store.unseal("s").expect("rewritten");
    store
        .writer("s")
        .expect("a writer")
        .append(&[1i16])
        .expect("it grows");
}
