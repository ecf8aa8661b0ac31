//! Stores and names of signals, attributes, commits and readers.

use super::*;

#[test]
fn modes_refuse_what_they_must() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    assert_eq!(code(Store::open(&path, Mode::Read)), "not_a_store");
    assert_eq!(code(Store::open(&path, Mode::ReadWrite)), "not_a_store");
    drop(Store::open(&path, Mode::Append).unwrap());
    assert_eq!(code(Store::open(&path, Mode::Create)), "store_exists");
    let store = Store::open(&path, Mode::ReadWrite).unwrap();
    assert_eq!(code(Store::open(&path, Mode::ReadWrite)), "locked");
    store.create("x", &options(10)).unwrap();
    store.commit(true).unwrap();
    let reader = Store::open(&path, Mode::Read).unwrap();
    assert_eq!(code(reader.create("y", &options(10))), "read_only");
    assert_eq!(code(reader.writer("x")), "read_only");
    assert_eq!(code(reader.commit(true)), "read_only");
    reader.close().unwrap();
    assert_eq!(code(reader.names()), "closed");
    assert!(reader.is_closed());
}

#[test]
fn names_are_listed_found_renamed_and_removed() {
    let (_folder, store) = new_store();
    for name in ["stn_2/pressure", "stn_1/pressure", "stn_1/flow"] {
        store.create(name, &options(10)).unwrap();
    }
    store.commit(true).unwrap();
    assert_eq!(
        store.names().unwrap(),
        ["stn_1/flow", "stn_1/pressure", "stn_2/pressure"]
    );
    assert_eq!(
        store.find("stn_*/pressure").unwrap(),
        ["stn_1/pressure", "stn_2/pressure"]
    );
    assert_eq!(store.find("**/flow").unwrap(), ["stn_1/flow"]);
    let error = store.signal("stn_1/presure").unwrap_err().to_string();
    assert!(error.contains("stn_1/pressure"), "{error}");

    assert_eq!(
        code(store.create("stn_1/flow", &options(10))),
        "signal_exists"
    );
    assert_eq!(
        code(store.create("stn_1/flow/deep", &options(10))),
        "signal_inside_signal"
    );
    assert_eq!(
        code(store.create("stn_1", &options(10))),
        "signal_inside_signal"
    );
    assert_eq!(code(store.create("../up", &options(10))), "invalid_name");
    assert_eq!(
        code(store.rename("stn_1/flow", "stn_2/pressure")),
        "signal_exists"
    );
    let writer = store.writer("stn_1/flow").unwrap();
    store.rename("stn_1/flow", "other/flow").unwrap();
    assert_eq!(writer.signal().unwrap().name(), "other/flow");
    writer.append(&[1i16]).unwrap();
    store.remove("stn_2/pressure").unwrap();
    store.commit(true).unwrap();
    assert_eq!(store.names().unwrap(), ["other/flow", "stn_1/pressure"]);
}

#[test]
fn overwriting_replaces_a_signal_whose_views_stay_valid() {
    let (_folder, store) = new_store();
    let old = store.create("x", &options(10)).unwrap();
    old.append(&[1i16, 2, 3]).unwrap();
    store.commit(true).unwrap();
    let segment = store
        .signal("x")
        .unwrap()
        .select(0..3)
        .unwrap()
        .as_segment()
        .unwrap();
    let mut anew = options(10);
    anew.overwrite = true;
    let new = store.create("x", &anew).unwrap();
    new.append(&[9i16]).unwrap();
    store.commit(true).unwrap();
    assert_eq!(values(&new, 0..1), [9]);
    assert_eq!(segment.to_vec::<i16>().unwrap(), [1, 2, 3]);
    assert_eq!(code(old.append(&[1i16])), "signal_removed");
}

#[test]
fn attributes_of_signals_and_store_survive() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    let mine = Map::from_iter([("seed".to_owned(), json!({"network": "IV", "gain": 1.5}))]);
    writer.set_attributes(&mine).unwrap();
    store.set_attributes(&mine).unwrap();
    let ours = Map::from_iter([("isochrony".to_owned(), json!(1))]);
    assert_eq!(code(writer.set_attributes(&ours)), "invalid_attributes");
    assert_eq!(code(store.set_attributes(&ours)), "invalid_attributes");
    store.commit(true).unwrap();
    let path = store.path().to_path_buf();
    store.close().unwrap();
    drop((writer, store));
    let store = Store::open(path, Mode::ReadWrite).unwrap();
    assert_eq!(store.signal("x").unwrap().attributes(), mine);
    assert_eq!(store.attributes().unwrap(), mine);
}

#[test]
fn a_reader_follows_what_is_committed_and_no_more() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 2]).unwrap();
    store.commit(false).unwrap();
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let mut signal = reader.signal("x").unwrap();
    assert_eq!(signal.end_index(), 2);
    writer.append(&[3i16]).unwrap();
    assert!(!signal.refresh().unwrap());
    store.commit(false).unwrap();
    let before = signal.clone();
    assert!(signal.refresh().unwrap());
    assert_eq!((before.end_index(), signal.end_index()), (2, 3));
    assert_eq!(
        signal.select(0..3).unwrap().counts(0i16).unwrap(),
        [1, 2, 3]
    );
    assert_eq!(
        civil::format(signal.time_of(2).unwrap().value),
        "2010-03-01T00:00:00.200Z"
    );
}

#[test]
fn a_commit_never_holds_half_an_append() {
    let (_folder, store) = new_store();
    let names = ["a", "b", "c"];
    let writers = names.map(|name| store.create(name, &options(100)).unwrap());
    store.commit(false).unwrap();
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let block = [1i16; 10];
    let blocks = 60i64;
    std::thread::scope(|scope| {
        for writer in &writers {
            let block = &block;
            scope.spawn(move || {
                for k in 0..blocks {
                    let stamp = exact((k * 10 + k / 2 * 30) * SECOND / 100);
                    writer.append_at(block, &stamp).unwrap();
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..40 {
                store.commit(false).unwrap();
            }
        });
        for _ in 0..200 {
            reader.refresh().unwrap();
            for name in names {
                let signal = reader.signal(name).unwrap();
                let state = signal.state();
                assert_eq!(signal.sample_count() % 10, 0);
                assert_eq!(state.points.len() as i64 * 10, signal.sample_count());
                assert_eq!(
                    state.runs.last().map(|run| run.end),
                    Some(signal.end_index())
                );
                assert_eq!(signal.gaps().len(), (state.points.len().max(1) - 1) / 2);
                let all = signal
                    .select(0..signal.end_index())
                    .unwrap()
                    .counts(1i16)
                    .unwrap();
                assert!(
                    all.iter().all(|&value| value == 1),
                    "no torn or missing sample"
                );
            }
        }
    });
    store.commit(false).unwrap();
    reader.refresh().unwrap();
    assert!(
        names
            .iter()
            .all(|name| reader.signal(name).unwrap().sample_count() == blocks * 10)
    );
}
