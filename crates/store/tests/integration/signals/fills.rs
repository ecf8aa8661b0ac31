//! Reserved ranges, filled in any order from several threads.

use super::*;

#[test]
fn ranges_are_filled_in_any_order_and_seen_by_others_once_committed() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append_gap(6).unwrap();
    store.commit(true).unwrap();
    let reader = Store::open(store.path(), Mode::Read).unwrap();
    writer.fill(4, &[5i16, 6]).unwrap();
    writer.fill(0, &[1i16]).unwrap();
    assert_eq!(values(&writer, 0..6), [1, -1, -1, -1, 5, 6]);
    reader.refresh().unwrap();
    assert_eq!(reader.signal("x").unwrap().sample_count(), 0);
    store.commit(true).unwrap();
    reader.refresh().unwrap();
    let signal = reader.signal("x").unwrap();
    assert_eq!(
        signal.select(0..6).unwrap().counts(-1i16).unwrap(),
        [1, -1, -1, -1, 5, 6]
    );
    assert_eq!(signal.time_of(4).unwrap().value, at(4 * SECOND / 10));
}

#[test]
fn refuses_to_fill_what_is_there_or_what_is_nowhere() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append(&[1i16, 2]).unwrap();
    writer.append_gap(3).unwrap();
    let refused = writer.fill(1, &[9i16, 9]).unwrap_err();
    assert_eq!(refused.code(), "occupied");
    assert!(
        refused.to_string().contains(": 1 already holds"),
        "{refused}"
    );
    writer.fill(3, &[4i16]).unwrap();
    let refused = writer.fill(2, &[9i16, 9]).unwrap_err();
    assert!(
        refused.to_string().contains(": 3 already holds"),
        "{refused}"
    );
    assert_eq!(code(writer.fill(4, &[5i16, 6])), "out_of_bounds");
    assert_eq!(code(writer.fill(-1, &[5i16])), "out_of_bounds");
    assert_eq!(code(writer.fill(2, &[5i32])), "dtype_mismatch");
    assert_eq!(code(writer.fill_bytes(2, &[5])), "partial_sample");
    assert_eq!(values(&writer, 0..5), [1, 2, -1, 4, -1]);
}

#[test]
fn parallel_fills_equal_one_append() {
    const PART: usize = 40_000;
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(1000)).unwrap();
    writer.append_gap(8 * PART as i64).unwrap();
    let sample = |index: usize| (index * 7 % 30_011) as i16;
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let (writer, store) = (&writer, &store);
            scope.spawn(move || {
                for part in [worker, worker + 4] {
                    let samples: Vec<i16> = (part * PART..(part + 1) * PART).map(sample).collect();
                    writer.fill((part * PART) as i64, &samples).unwrap();
                    store.commit(false).unwrap();
                }
            });
        }
    });
    store.close().unwrap();
    let expected: Vec<i16> = (0..8 * PART).map(sample).collect();
    let again = Store::open(store.path(), Mode::Read).unwrap();
    let signal = again.signal("x").unwrap();
    assert_eq!(
        signal
            .select(0..8 * PART as i64)
            .unwrap()
            .counts(-1i16)
            .unwrap(),
        expected
    );
    let report =
        isochrony_store::verify(store.path(), &isochrony_store::VerifyOptions::default()).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn filled_again_after_it_was_marked_invalid_it_holds_the_new_samples_after_a_crash_too() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(10)).unwrap();
    writer.append_gap(4).unwrap();
    writer.fill(0, &[1i16, 2, 3, 4]).unwrap();
    store.commit(true).unwrap();
    writer.mark_invalid(1..3).unwrap();
    store.commit(true).unwrap();
    writer.fill(1, &[7i16, 8]).unwrap();
    store.commit(true).unwrap();
    // As after a kill: files unchanged, the lock free.
    let copy = tempfile::tempdir().unwrap();
    let path = copy.path().join("b.iso");
    copy_tree(store.path(), &path);
    let again = Store::open(&path, Mode::ReadWrite).unwrap();
    assert_eq!(values(&again.writer("x").unwrap(), 0..4), [1, 7, 8, 4]);
}

fn copy_tree(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), &target).unwrap();
        }
    }
}

#[test]
fn released_scratch_is_a_gap_whose_blocks_are_free() {
    use std::os::unix::fs::MetadataExt;
    const SAMPLES: i64 = 1 << 20;
    let (_folder, store) = new_store();
    let scratch = store.scratch(&options(1000)).unwrap();
    scratch.append_gap(SAMPLES).unwrap();
    scratch.fill(0, &vec![3i16; SAMPLES as usize]).unwrap();
    let blocks = || {
        let mut folders = vec![store.path().join(".isochrony/tmp")];
        let mut blocks = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => blocks += entry.metadata().unwrap().blocks() * 512,
                }
            }
        }
        blocks
    };
    let given_back = scratch.release(0..SAMPLES / 2).unwrap();
    let signal = scratch.signal().unwrap();
    assert_eq!(
        signal.gaps().first_within(0..SAMPLES).unwrap().range(),
        0..SAMPLES / 2
    );
    assert_eq!(values(&scratch, SAMPLES / 2..SAMPLES / 2 + 2), [3, 3]);
    if given_back > 0 {
        assert_eq!(given_back, SAMPLES as u64);
        assert!(
            blocks() < (SAMPLES as u64) * 3 / 2,
            "{} bytes are used",
            blocks()
        );
    }
}

#[test]
fn neighbours_that_share_a_block_give_it_back_when_the_last_is_released() {
    use std::os::unix::fs::MetadataExt;
    // 4000 bytes, less than a block; four exist at a time.
    const PART: i64 = 2000;
    const PARTS: i64 = 500;
    let (_folder, store) = new_store();
    let scratch = store.scratch(&options(1000)).unwrap();
    scratch.append_gap(PART * PARTS).unwrap();
    let on_disk = || {
        let mut folders = vec![scratch.folder().to_owned()];
        let mut bytes = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => bytes += entry.metadata().unwrap().blocks() * 512,
                }
            }
        }
        bytes
    };
    // Whole blocks first: some file systems free nothing.
    let all = 0..PART * PARTS;
    scratch
        .fill(0, &vec![3i16; (PART * PARTS) as usize])
        .unwrap();
    let can = scratch.release(all).unwrap() > 0;
    let before = on_disk();
    // Odd before even ones, and released in another order.
    let order: Vec<i64> = (0..PARTS).map(|at| at ^ 1).collect();
    let mut most = 0;
    for group in order.chunks(4) {
        for part in group {
            scratch
                .fill(part * PART, &vec![3i16; PART as usize])
                .unwrap();
        }
        most = most.max(on_disk());
        for part in group.iter().rev() {
            let released = part * PART..(part + 1) * PART;
            scratch.release(released).unwrap();
            for other in group.iter().take_while(|other| *other != part) {
                let samples = values(&scratch, other * PART..(other + 1) * PART);
                assert!(samples.iter().all(|sample| *sample == 3));
            }
        }
    }
    if can {
        let slack = 64 << 10;
        assert!(most < before + 4 * 2 * PART as u64 + slack, "{most} bytes");
        assert!(on_disk() < before + slack, "{} bytes", on_disk());
    }
}

#[test]
fn samples_are_read_ahead_but_not_gaps() {
    let (_folder, store) = new_store();
    let writer = store.create("x", &options(1000)).unwrap();
    writer.append(&vec![1i16; 5000]).unwrap();
    writer.append_gap(3000).unwrap();
    writer.append(&vec![1i16; 5000]).unwrap();
    store.commit(true).unwrap();
    let signal = writer.signal().unwrap();
    let asked = if cfg!(target_os = "linux") { 12_000 } else { 0 };
    assert_eq!(signal.prefetch(4000..99_000), asked);
    assert_eq!(signal.prefetch(5500..6000), 0);
}
