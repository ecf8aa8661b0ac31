//! A shard that is older than the log beside it hurts nobody but its own signal.

use std::fs;

use isochrony_store::{Mode, Store, repair, verify};

use super::copies::copy;
use super::{on_disk, options, read, samples};

const DEEP: isochrony_store::VerifyOptions = isochrony_store::VerifyOptions {
    signals: None,
    deep: true,
};

#[test]
fn the_other_signals_go_on() {
    let (folder, store) = on_disk();
    let x = store.create("x", &options(1)).unwrap();
    x.append(&samples(1, 1000)).unwrap();
    x.append_gap(100).unwrap();
    store.create("y", &options(2)).unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    let (shard, old) = (store.path().join("x/data/c/0"), folder.path().join("old"));
    fs::copy(&shard, &old).unwrap();
    x.fill(1000, &samples(1, 100)).unwrap();
    store.commit(true).unwrap();
    store.close().unwrap();
    fs::copy(&old, &shard).unwrap();

    let store = Store::open(store.path(), Mode::ReadWrite).unwrap();
    let (x, y) = (store.writer("x").unwrap(), store.writer("y").unwrap());
    assert_eq!(
        read(&x.signal().unwrap()).unwrap_err().code(),
        "wrong_shard"
    );
    x.append_gap(10).unwrap();
    y.append(&samples(2, 500)).unwrap();
    store.commit(true).unwrap();
    assert_eq!(read(&store.signal("y").unwrap()).unwrap(), samples(2, 500));
    store.close().unwrap();
    let report = verify(store.path(), &DEEP).unwrap();
    assert!(!report.is_clean());
    repair(store.path(), &DEEP).unwrap();
}

#[test]
fn samples_in_the_log_are_proven_also_where_the_last_are_zeros() {
    let (folder, store) = on_disk();
    let x = store.create("x", &options(1)).unwrap();
    x.append(&samples(1, 1000)).unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    let old = folder.path().join("old");
    fs::copy(store.path().join("x/data/c/0"), &old).unwrap();
    for sample in [5i16, 3, 0] {
        x.append(&[sample]).unwrap();
        store.commit(true).unwrap();
    }
    let copied = folder.path().join("copied.iso");
    copy(store.path(), &copied);
    fs::copy(&old, copied.join("x/data/c/0")).unwrap();
    let reader = Store::open(&copied, Mode::Read).unwrap();
    let signal = reader.signal("x").unwrap();
    if let Ok(have) = read(&signal) {
        assert_eq!(have[1000..], [5, 3, 0]);
    }
}

#[test]
fn a_gap_that_a_repair_makes_in_the_last_chunk_leaves_a_sound_store() {
    let (folder, store) = on_disk();
    let x = store.create("x", &options(1)).unwrap();
    x.append(&samples(1, 20_000)).unwrap();
    store.commit(true).unwrap();
    store.checkpoint().unwrap();
    x.append(&samples(1, 5)).unwrap();
    store.commit(true).unwrap();
    let killed = folder.path().join("killed.iso");
    copy(store.path(), &killed);
    let shard = fs::OpenOptions::new()
        .write(true)
        .open(killed.join("x/data/c/0"))
        .unwrap();
    shard.set_len(4096 + 2 * 18_000).unwrap();
    drop(shard);
    let (_, after) = repair(&killed, &DEEP).unwrap();
    assert!(!after.lost.is_empty(), "{after:#?}");
    let report = verify(&killed, &DEEP).unwrap();
    assert_eq!(report.findings, []);
    let reader = Store::open(&killed, Mode::Read).unwrap();
    let have = read(&reader.signal("x").unwrap()).unwrap();
    assert_eq!(have[..17_000], samples(1, 17_000));
    assert_eq!(have[20_000..], samples(1, 5));
}
