//! An open handle and its segments do not change until a refresh.

use isochrony_store::{Mode, Store};

use super::{on_disk, options, read, samples};

#[test]
fn a_fill_of_samples_marked_invalid_changes_no_earlier_handle_and_no_segment() {
    for reopens in [false, true] {
        let (_folder, mut store) = on_disk();
        store
            .create("x", &options(1))
            .unwrap()
            .append(&samples(1, 500))
            .unwrap();
        store.commit(true).unwrap();
        let reader = Store::open(store.path(), Mode::Read).unwrap();
        let handle = reader.signal("x").unwrap();
        let unread = reader.signal("x").unwrap();
        let segment = handle.select(0..500).unwrap().as_segment().unwrap();

        let writer = store.writer("x").unwrap();
        writer.mark_invalid(100..200).unwrap();
        store.commit(true).unwrap();
        if reopens {
            store.close().unwrap();
            store = Store::open(store.path(), Mode::ReadWrite).unwrap();
        }
        let between = Store::open(store.path(), Mode::Read).unwrap();
        let between = between.signal("x").unwrap();
        let writer = store.writer("x").unwrap();
        writer.fill(100, &samples(2, 60)).unwrap();
        writer.fill(160, &samples(3, 40)).unwrap();
        store.commit(true).unwrap();

        assert_eq!(segment.to_vec::<i16>().unwrap(), samples(1, 500));
        assert_eq!(read(&handle).unwrap(), samples(1, 500));
        match read(&unread) {
            Ok(found) => assert_eq!(found, samples(1, 500)),
            Err(error) => assert_eq!(error.code(), "samples_replaced"),
        }
        match read(&between) {
            Ok(found) => assert_eq!(found[100..200], [-1; 100]),
            Err(error) => assert_eq!(error.code(), "samples_replaced"),
        }
        reader.refresh().unwrap();
        let new = read(&reader.signal("x").unwrap()).unwrap();
        let expected = [
            &samples(1, 100)[..],
            &samples(2, 60),
            &samples(3, 40),
            &samples(1, 500)[200..],
        ];
        assert_eq!(new, expected.concat());
    }
}

#[test]
fn a_handle_of_the_writer_shows_what_it_showed_after_a_fill_and_a_write() {
    let (_folder, store) = on_disk();
    let writer = store.create("x", &options(1)).unwrap();
    writer.append(&samples(1, 500)).unwrap();
    store.commit(true).unwrap();
    let before = writer.signal().unwrap();
    let segment = before.select(0..500).unwrap().as_segment().unwrap();
    writer.write(0, &samples(2, 10)).unwrap();
    writer.mark_invalid(100..200).unwrap();
    writer.fill(100, &samples(3, 100)).unwrap();
    // Pending: the old file is in place.
    assert_eq!(read(&before).unwrap(), samples(1, 500));
    store.commit(true).unwrap();
    assert_eq!(segment.to_vec::<i16>().unwrap(), samples(1, 500));
    match read(&before) {
        Ok(found) => assert_eq!(found, samples(1, 500)),
        Err(error) => assert_eq!(error.code(), "samples_replaced"),
    }
    let now = read(&writer.signal().unwrap()).unwrap();
    assert_eq!(now[..10], samples(2, 10));
    assert_eq!(now[100..200], samples(3, 100));
}

#[test]
fn a_gap_that_never_held_samples_is_filled_where_it_lies() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, store) = on_disk();
    let writer = store.create("x", &options(1)).unwrap();
    writer.append(&samples(1, 100)).unwrap();
    writer.append_gap(100).unwrap();
    store.commit(true).unwrap();
    let shard = store.path().join("x/data/c/0");
    let inode = || std::fs::metadata(&shard).unwrap().ino();
    let before = inode();
    writer.fill(100, &samples(2, 50)).unwrap();
    store.commit(true).unwrap();
    assert_eq!(inode(), before);
    writer.mark_invalid(0..10).unwrap();
    writer.fill(0, &samples(3, 10)).unwrap();
    store.commit(true).unwrap();
    let copied = inode();
    assert_ne!(copied, before);
    writer.fill(150, &samples(4, 50)).unwrap();
    store.commit(true).unwrap();
    assert_eq!(inode(), copied);
}

#[test]
fn a_handle_survives_seal_and_unseal_after_invalidation() {
    let (_folder, store) = on_disk();
    let writer = store.create("x", &options(1)).unwrap();
    writer.append(&samples(1, 5000)).unwrap();
    store.commit(true).unwrap();
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    let first = reader.signal("x").unwrap();
    writer.mark_invalid(10..20).unwrap();
    store.commit(true).unwrap();
    reader.refresh().unwrap();
    let mut expected = samples(1, 5000);
    expected[10..20].fill(-1);
    for _ in 0..2 {
        let second = reader.signal("x").unwrap();
        store.seal("x", "zstd:3".parse().unwrap()).unwrap();
        assert_eq!(read(&second).unwrap(), expected);
        store.unseal("x").unwrap();
        assert_eq!(read(&second).unwrap(), expected);
        assert_eq!(read(&first).unwrap_err().code(), "samples_replaced");
        // In place: no handle shows what was there.
        writer.fill(10, &samples(2, 5)).unwrap();
        store.commit(true).unwrap();
        assert_eq!(read(&second).unwrap(), expected);
        assert_eq!(read(&first).unwrap_err().code(), "samples_replaced");
        writer.mark_invalid(10..15).unwrap();
        store.commit(true).unwrap();
        assert_eq!(read(&second).unwrap(), expected);
        reader.refresh().unwrap();
    }
}

fn inode(store: &Store) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let shard = store.path().join("x/data/c/0");
    std::fs::metadata(shard).unwrap().ino()
}

#[test]
fn samples_marked_invalid_keep_no_append_and_no_other_gap_from_their_place() {
    for reopens in [false, true] {
        let (_folder, mut store) = on_disk();
        let writer = store.create("x", &options(1)).unwrap();
        writer.append(&samples(1, 500)).unwrap();
        writer.append_gap(100).unwrap();
        writer.append(&samples(1, 100)).unwrap();
        store.commit(true).unwrap();
        let reader = Store::open(store.path(), Mode::Read).unwrap();
        let before = reader.signal("x").unwrap();
        let first = inode(&store);
        writer.mark_invalid(10..20).unwrap();
        store.commit(true).unwrap();
        if reopens {
            drop(writer);
            store.close().unwrap();
            store = Store::open(store.path(), Mode::ReadWrite).unwrap();
        }
        let writer = store.writer("x").unwrap();
        for _ in 0..3 {
            writer.append(&samples(2, 10)).unwrap();
            store.commit(true).unwrap();
            assert_eq!(inode(&store), first, "appended in place");
        }
        // A reopened writer does not know where invalidated samples are in the shard.
        if !reopens {
            writer.fill(500, &samples(3, 50)).unwrap();
            store.commit(true).unwrap();
            assert_eq!(inode(&store), first, "filled in place");
        }
        let selection = before.select(0..500).unwrap();
        let shown = selection.as_segment().unwrap().to_vec::<i16>().unwrap();
        assert_eq!(shown, samples(1, 500));
        writer.fill(15, &samples(4, 1)).unwrap();
        store.commit(true).unwrap();
        assert_ne!(inode(&store), first);
        store.close().unwrap();
        let report =
            isochrony_store::verify(store.path(), &isochrony_store::VerifyOptions::default());
        assert!(report.unwrap().is_clean());
    }
}

#[test]
fn a_copy_of_a_shard_takes_no_space_for_gaps() {
    use std::os::unix::fs::MetadataExt;
    let (_folder, store) = on_disk();
    let writer = store.create("x", &options(1)).unwrap();
    writer.append(&samples(1, 500)).unwrap();
    writer.append_gap(5_000_000).unwrap();
    writer.append(&samples(1, 5)).unwrap();
    writer.mark_invalid(0..10).unwrap();
    store.commit(true).unwrap();
    let used = || {
        let shard = store.path().join("x/data/c/0");
        std::fs::metadata(shard).unwrap().blocks() * 512
    };
    let before = used();
    writer.fill(0, &samples(2, 10)).unwrap();
    store.commit(true).unwrap();
    assert!(used() <= before + (256 << 10), "{} of {before}", used());
}
