//! Sealing and unsealing preserve samples of every dtype, for us and for `zarrs`.

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

/// Compressible but not trivially.
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

/// Read by `zarrs`, gaps included.
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
fn rejects_unknown_codecs() {
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
    // zarrs rewrites the first, full shard with one changed sample: a new file with other offsets.
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
    store.unseal("s").expect("rewritten");
    store
        .writer("s")
        .expect("a writer")
        .append(&[1i16])
        .expect("it grows");
}

#[test]
fn a_compressed_chunk_that_claims_gigabytes_is_damage_and_allocates_nothing() {
    for codec in ["zstd:3", "blosc:lz4:5"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.iso");
        let store = Store::open(&path, Mode::Create).unwrap();
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = store.create("a", &options).unwrap();
        let samples: Vec<i16> = (0..100_000).map(|x| (x % 4001) as i16).collect();
        writer.append(&samples).unwrap();
        store.commit(true).unwrap();
        store.seal("a", codec.parse().unwrap()).unwrap();
        store.close().unwrap();
        let shard = path.join("a/data/c/0");
        let mut bytes = std::fs::read(&shard).unwrap();
        // The index at the end has each chunk's offset and length, and a checksum.
        let index = bytes.len() - 4 - 64 * 16;
        let offset = u64::from_le_bytes(bytes[index..index + 8].try_into().unwrap()) as usize;
        if codec.starts_with("zstd") {
            // Magic number, a single segment with eight bytes of size, 6 GiB.
            bytes[offset..offset + 5].copy_from_slice(&[0x28, 0xb5, 0x2f, 0xfd, 0xe0]);
            bytes[offset + 5..offset + 13].copy_from_slice(&(6u64 << 30).to_le_bytes());
        } else {
            bytes[offset + 4..offset + 8].copy_from_slice(&u32::MAX.to_le_bytes());
        }
        std::fs::write(&shard, bytes).unwrap();
        let store = Store::open(&path, Mode::Read).unwrap();
        let signal = store.signal("a").unwrap();
        let error = signal.select(0..10).unwrap().as_segment().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.code(), "undecodable", "{text}");
        assert!(text.contains("chunk 0: its frame claims"), "{text}");
        assert!(text.contains("bytes where a chunk has"), "{text}");
    }
}

#[test]
fn metadata_of_a_sealed_signal_that_ask_for_other_chunks_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let store = Store::open(&path, Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    store
        .create("a", &options)
        .unwrap()
        .append(&[1i16; 5000])
        .unwrap();
    store.commit(true).unwrap();
    store.seal("a", "zstd:3".parse().unwrap()).unwrap();
    store.close().unwrap();
    let described = path.join("a/data/zarr.json");
    let sound = std::fs::read_to_string(&described).unwrap();
    let json: serde_json::Value = serde_json::from_str(&sound).unwrap();
    let change = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut changed = json.clone();
        change(&mut changed);
        changed.to_string()
    };
    let shards = "chunk_grid";
    let cases = [
        change(&|json| {
            json[shards]["configuration"]["chunk_shape"] = serde_json::json!([1u64 << 50])
        }),
        change(&|json| {
            json["codecs"][0]["configuration"]["chunk_shape"] = serde_json::json!([1u64 << 40]);
        }),
        change(&|json| json["data_type"] = "float64".into()),
        change(&|json| {
            let codecs = &mut json["codecs"][0]["configuration"]["codecs"];
            let again = codecs[1].clone();
            codecs.as_array_mut().unwrap().push(again);
        }),
        "[".repeat(100_000),
        "{".into(),
    ];
    for case in cases {
        std::fs::write(&described, &case).unwrap();
        let store = Store::open(&path, Mode::Read).unwrap();
        let read = store
            .signal("a")
            .unwrap()
            .select(0..10)
            .unwrap()
            .as_segment();
        assert_eq!(read.unwrap_err().code(), "undecodable", "{case:.200}");
    }
    std::fs::write(&described, sound).unwrap();
    let store = Store::open(&path, Mode::Read).unwrap();
    let read = store
        .signal("a")
        .unwrap()
        .select(0..10)
        .unwrap()
        .as_segment();
    assert_eq!(read.unwrap().to_vec::<i16>().unwrap(), [1; 10]);
}

#[test]
fn chunks_of_zeros_are_left_out_and_read_as_zeros() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let rate = isochrony_time::Rate::new(1, 1).unwrap();
    let options = isochrony_store::CreateOptions::new(isochrony_segment::DType::F64, rate);
    let writer = store.create("zeros", &options).unwrap();
    writer.append(&[0.0f64; 10]).unwrap();
    store.commit(true).unwrap();
    store.seal("zeros", Codec::default()).unwrap();
    let signal = store.signal("zeros").unwrap();
    let selection = signal.select(0..10).unwrap();
    let segment = selection.segments().next().unwrap().unwrap();
    assert_eq!(segment.to_vec::<f64>().unwrap(), [0.0; 10]);
}

#[test]
fn an_index_that_names_another_chunks_bytes_is_an_error_and_never_other_samples() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.iso");
    let store = open(&path, Mode::Create);
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).expect("a rate"));
    let writer = store.create("x", &options).expect("new");
    // One shard of 64 chunks of 32,768 samples.
    let samples: Vec<i16> = (0..64 * 32_768).map(|x| (x / 32_768 + 1) as i16).collect();
    writer.append(&samples).expect("appended");
    store.commit(true).expect("committed");
    store.seal("x", Codec::default()).expect("sealed");
    store.close().expect("closed");
    let shard = path.join("x/data/c/0");
    let mut bytes = std::fs::read(&shard).expect("read");
    let index = bytes.len() - 4 - 64 * 16;
    let (first, second) = bytes[index..index + 32].split_at_mut(16);
    first.swap_with_slice(second);
    std::fs::write(&shard, &bytes).expect("written");
    for mode in [Mode::Read, Mode::ReadWrite] {
        let store = open(&path, mode);
        let signal = store.signal("x").expect("the signal");
        let selection = signal.select(0..10).expect("ten");
        let error = selection.as_segment().expect_err("refused");
        assert_eq!(error.code(), "undecodable");
        assert!(error.to_string().contains("checksum"), "{error}");
    }
}
