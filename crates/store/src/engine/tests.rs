//! The engine on a real disk.

use std::path::Path;

use isochrony_segment::DType;
use isochrony_time::Rate;

use super::*;
use crate::meta::ClockSettings;
use crate::meta::SignalMeta;

pub(crate) fn meta(dtype: DType, chunk_samples: u64, shard_chunks: u64) -> SignalMeta {
    SignalMeta {
        format: dtype.into(),
        rate: Rate::from_hz(2000).unwrap(),
        unit: "kPa".into(),
        calibration: Some((0.5, -1.0)),
        chunk_samples,
        shard_chunks,
        codec: String::new(),
        clock: ClockSettings {
            alpha: 0.1,
            gap_slip_ns: None,
            max_gap_ns: 1,
            initial_rate: None,
        },
        attributes: "{\"seed\":\"XX.A\"}".into(),
    }
}

fn create(engine: &Engine, name: &str, meta: SignalMeta) -> SignalId {
    let id = engine.new_id();
    let meta = Box::new(meta);
    engine
        .queue(Op::Create {
            id,
            name: name.into(),
            meta,
        })
        .unwrap();
    id
}

fn append(engine: &Engine, id: SignalId, bytes: &[u8]) {
    let state = engine.state(id).unwrap();
    let (start, size) = (state.end, state.meta.format.size());
    let end = start + (bytes.len() / size) as i64;
    engine.write_samples(id, start, bytes).unwrap();
    engine.queue(Op::Valid { id, start, end }).unwrap();
    engine.queue(Op::End { id, end }).unwrap();
}

fn gap(engine: &Engine, id: SignalId, length: i64) {
    let start = engine.state(id).unwrap().end;
    let end = start + length;
    engine.queue(Op::Gap { id, start, end }).unwrap();
    engine.queue(Op::End { id, end }).unwrap();
}

fn open(root: &Path, mode: OpenMode) -> Engine {
    Engine::open(root, mode).unwrap()
}

fn numbers(count: usize, from: usize) -> Vec<u8> {
    (from..from + count)
        .flat_map(|x| (x as i16).to_le_bytes())
        .collect()
}

#[test]
fn samples_gaps_and_names_survive_closing_and_dropping() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.iso");
    let engine = open(&root, OpenMode::CreateNew);
    let id = create(&engine, "stn/pressure", meta(DType::I16, 64, 4));
    append(&engine, id, &numbers(100, 0));
    gap(&engine, id, 500);
    append(&engine, id, &numbers(100, 1000));
    assert_eq!(engine.commit(true).unwrap(), 1);
    append(&engine, id, &numbers(50_000, 0));
    assert_eq!(engine.commit(false).unwrap(), 2);
    append(&engine, id, &numbers(10, 0));
    assert_eq!(engine.state(id).unwrap().end, 50_710);
    drop(engine);

    let engine = open(&root, OpenMode::Existing);
    assert_eq!(engine.find("stn/pressure"), Some(id));
    let state = engine.state(id).unwrap();
    assert_eq!((state.end, state.gaps.rows()), (50_700, vec![100, 500]));
    assert_eq!(engine.read(id, 0, 100).unwrap().bytes(), numbers(100, 0));
    assert_eq!(
        engine.read(id, 600, 100).unwrap().bytes(),
        numbers(100, 1000)
    );
    let reader = Reader::open(&root).unwrap();
    assert_eq!(reader.state(id).unwrap().end, 50_700);
    assert_eq!(reader.read(id, 768, 256).unwrap().bytes(), numbers(256, 68));
    append(&engine, id, &numbers(7, 3));
    engine.commit(false).unwrap();
    assert!(reader.refresh().unwrap());
    assert_eq!(reader.state(id).unwrap().end, 50_707);
    assert_eq!(reader.read(id, 50_700, 7).unwrap().bytes(), numbers(7, 3));
}

#[test]
fn checksums_are_of_full_chunks_with_gaps_as_zero() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.iso");
    let engine = open(&root, OpenMode::CreateIfMissing);
    let id = create(&engine, "p", meta(DType::I16, 64, 4));
    append(&engine, id, &numbers(64 + 10, 5));
    gap(&engine, id, 64 * 5);
    append(&engine, id, &numbers(100, 9));
    engine.commit(true).unwrap();
    let zeros = |n: usize| vec![0u8; 2 * n];
    let expected = |chunk| match chunk {
        0 => Some(crc32c::crc32c(&numbers(64, 5))),
        1 => Some(crc32c::crc32c(&[numbers(10, 69), zeros(54)].concat())),
        6 => Some(crc32c::crc32c(&[zeros(10), numbers(54, 9)].concat())),
        _ => None,
    };
    for chunk in [0, 1, 6, 8] {
        assert_eq!(
            engine.chunk_crc(id, chunk).unwrap(),
            expected(chunk),
            "{chunk}"
        );
    }
    engine.close().unwrap();
    drop(engine);
    let engine = open(&root, OpenMode::Existing);
    for chunk in [0, 1, 6] {
        assert_eq!(
            engine.chunk_crc(id, chunk).unwrap(),
            expected(chunk),
            "{chunk}"
        );
    }
    engine.write_samples(id, 74, &numbers(54, 500)).unwrap();
    engine
        .queue(Op::Valid {
            id,
            start: 74,
            end: 128,
        })
        .unwrap();
    engine
        .queue(Op::Gap {
            id,
            start: 0,
            end: 3,
        })
        .unwrap();
    engine.commit(true).unwrap();
    let filled = [numbers(10, 69), numbers(54, 500)].concat();
    assert_eq!(
        engine.chunk_crc(id, 1).unwrap(),
        Some(crc32c::crc32c(&filled))
    );
    let cut = [zeros(3), numbers(61, 8)].concat();
    assert_eq!(engine.chunk_crc(id, 0).unwrap(), Some(crc32c::crc32c(&cut)));
}

#[test]
fn a_second_writer_is_refused_with_the_holders_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.iso");
    let engine = open(&root, OpenMode::CreateNew);
    let refused = Engine::open(&root, OpenMode::Existing).unwrap_err();
    assert_eq!(refused.code(), "locked");
    assert!(
        refused
            .to_string()
            .contains(&format!("process {}", std::process::id()))
    );
    engine.close().unwrap();
    open(&root, OpenMode::Existing);
    assert_eq!(
        Engine::open(&root, OpenMode::CreateNew).unwrap_err().code(),
        "store_exists"
    );
}

#[test]
fn signals_swap_names_within_one_commit() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.iso");
    let engine = open(&root, OpenMode::CreateNew);
    let a = create(&engine, "n/a", meta(DType::I16, 64, 4));
    let b = create(&engine, "n/b", meta(DType::I16, 64, 4));
    append(&engine, a, &numbers(5, 1));
    append(&engine, b, &numbers(5, 100));
    engine.commit(true).unwrap();
    for (id, to) in [(a, "x"), (b, "n/a"), (a, "n/b")] {
        engine.queue(Op::Rename { id, to: to.into() }).unwrap();
    }
    engine.commit(true).unwrap();
    assert_eq!(engine.read(a, 0, 5).unwrap().bytes(), numbers(5, 1));
    assert_eq!(
        engine.catalogue(),
        [(b, "n/a".to_owned()), (a, "n/b".to_owned())]
    );
    engine.queue(Op::Remove { id: b }).unwrap();
    engine.commit(true).unwrap();
    drop(engine);
    assert!(!root.join("n/a").exists() && root.join("n/b/data/zarr.json").exists());
    let engine = open(&root, OpenMode::Existing);
    assert_eq!(engine.catalogue(), [(a, "n/b".to_owned())]);
    assert_eq!(engine.read(a, 0, 5).unwrap().bytes(), numbers(5, 1));
    assert_eq!(engine.new_id(), SignalId(3));
}

#[test]
fn rollback_forgets_samples_signals_and_names() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("a.iso");
    let engine = open(&root, OpenMode::CreateNew);
    let a = create(&engine, "a", meta(DType::I16, 64, 4));
    append(&engine, a, &numbers(100, 0));
    engine.commit(true).unwrap();
    append(&engine, a, &numbers(100, 500));
    create(&engine, "b", meta(DType::I16, 64, 4));
    engine
        .queue(Op::Rename {
            id: a,
            to: "c".into(),
        })
        .unwrap();
    engine.rollback().unwrap();
    assert!(!engine.has_pending());
    assert_eq!(engine.catalogue(), [(a, "a".to_owned())]);
    assert_eq!(engine.state(a).unwrap().end, 100);
    append(&engine, a, &numbers(100, 100));
    engine.commit(true).unwrap();
    assert_eq!(engine.read(a, 0, 200).unwrap().bytes(), numbers(200, 0));
    let chunk = crc32c::crc32c(&numbers(64, 64));
    assert_eq!(engine.chunk_crc(a, 1).unwrap(), Some(chunk));
}
