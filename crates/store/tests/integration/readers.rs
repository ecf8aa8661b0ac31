//! Concurrent readers of one signal, each on its own task, with shared read-ahead.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use isochrony_segment::DType;
use isochrony_store::{
    CreateOptions, Mode, Readers, Signal, SignalReader, Store, Strategy, Stretch,
};
use isochrony_time::Rate;
use tempfile::TempDir;

const SAMPLES: i64 = 1_200_000;
const TASK: i64 = 60_000;
const PIECE: i64 = 16_384;

fn sample(index: i64) -> i16 {
    (index.wrapping_mul(2_654_435_761) >> 13) as i16
}

fn made(folder: &TempDir) -> (Store, Signal) {
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    for (count, gap) in [(400_000, 200_000), (33_333, 7), (566_660, 0)] {
        let from = writer.signal().unwrap().end_index();
        let samples: Vec<i16> = (from..from + count).map(sample).collect();
        writer.append(&samples).unwrap();
        if gap > 0 {
            writer.append_gap(gap).unwrap();
        }
    }
    store.commit(true).unwrap();
    let signal = writer.signal().unwrap();
    assert_eq!(signal.end_index(), SAMPLES);
    (store, signal)
}

/// Parts of a task, slightly overlapping the next.
fn part(task: i64) -> Vec<Stretch> {
    let range = task * TASK..SAMPLES.min((task + 1) * TASK + 100);
    vec![Stretch { run: 0, range }]
}

fn tasks() -> std::vec::IntoIter<Vec<Stretch>> {
    (0..SAMPLES / TASK)
        .map(part)
        .collect::<Vec<_>>()
        .into_iter()
}

fn readers(signal: &Signal, strategy: Strategy, at_once: usize) -> Arc<Readers> {
    let all = [Stretch {
        run: 0,
        range: 0..SAMPLES,
    }];
    Readers::new(signal, &all, PIECE, strategy, at_once, Box::new(tasks())).unwrap()
}

fn stretches(signal: &Signal, task: i64) -> Vec<Range<i64>> {
    let selected = signal.select(part(task)[0].range.clone()).unwrap();
    selected.stretches().map(|one| one.range).collect()
}

fn read(signal: &Signal, reader: &mut SignalReader, task: i64, pieces: usize) {
    let mut left = pieces;
    for mut stretch in stretches(signal, task) {
        while !stretch.is_empty() && left > 0 {
            let piece = reader.next_piece(&stretch);
            let segment = reader.read(piece.clone()).unwrap();
            assert_eq!(segment.range(), piece);
            let found = segment.to_vec::<i16>().unwrap();
            assert!(found.into_iter().eq(piece.clone().map(sample)), "{piece:?}");
            (stretch.start, left) = (piece.end, left - 1);
        }
    }
}

#[test]
fn readers_of_tasks_in_turn_give_the_same_samples_by_every_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = made(&folder);
    for strategy in Strategy::ALL {
        for at_once in [1, 2, 5] {
            let readers = readers(&signal, strategy, at_once);
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..at_once {
                    scope.spawn(|| {
                        loop {
                            let task = next.fetch_add(1, Ordering::Relaxed) as i64;
                            if task >= SAMPLES / TASK {
                                return;
                            }
                            let mut reader = readers.begin(task as u64, &part(task));
                            read(&signal, &mut reader, task, usize::MAX);
                        }
                    });
                }
            });
        }
    }
}

#[test]
fn tasks_in_any_order_dropped_or_repeated_give_the_same_samples() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = made(&folder);
    for strategy in Strategy::ALL {
        let readers = readers(&signal, strategy, 2);
        let begin = |task: i64| readers.begin(task as u64, &part(task));
        // Dropped at once, dropped halfway, and repeated during the next.
        drop(begin(0));
        let (mut one, mut two) = (begin(0), begin(1));
        read(&signal, &mut one, 0, 2);
        drop(one);
        read(&signal, &mut two, 1, usize::MAX);
        let mut again = begin(0);
        read(&signal, &mut again, 0, usize::MAX);
        let mut both = [begin(3), begin(3)];
        both.iter_mut().for_each(|one| read(&signal, one, 3, 1));
        both.iter_mut().for_each(|one| read(&signal, one, 3, 0));
        // From the last back to one of the first, and one not foreseen.
        for task in (2..SAMPLES / TASK).rev() {
            read(&signal, &mut begin(task), task, usize::MAX);
        }
        let mut far = readers.begin(1 << 40, &part(4));
        read(&signal, &mut far, 4, usize::MAX);
        // An empty list is a task too.
        drop(readers.begin(1 << 41, &[]));
        read(&signal, &mut begin(5), 5, usize::MAX);
    }
}

#[test]
fn readers_can_be_dropped_with_requests_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let (_store, signal) = made(&folder);
    for strategy in Strategy::ALL {
        drop(readers(&signal, strategy, 3));
        let readers = readers(&signal, strategy, 3);
        let mut kept: Vec<_> = (0..3)
            .map(|task| readers.begin(task, &part(task as i64)))
            .collect();
        drop(readers);
        // Shared state lives as long as one reader.
        read(&signal, &mut kept[1], 1, 2);
        drop(kept.remove(0));
        read(&signal, &mut kept[1], 2, usize::MAX);
    }
}

#[test]
fn a_file_that_ends_early_is_an_error_of_the_task_that_needs_it_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (store, _) = made(&folder);
    let store = Store::open(store.path(), Mode::Read).unwrap();
    let signal = store.signal("p").unwrap();
    let shard = isochrony_store::layout::shard_file(&store.path().join("p").join("data"), 0);
    let file = std::fs::File::options().write(true).open(&shard).unwrap();
    // Leaves 200,000 samples.
    file.set_len(4096 + 400_000).unwrap();
    for strategy in Strategy::ALL.into_iter().filter(|one| one.copies()) {
        let readers = readers(&signal, strategy, 2);
        let mut whole = readers.begin(0, &part(0));
        let mut short = readers.begin(5, &part(5));
        let error = short.read(5 * TASK..5 * TASK + PIECE).unwrap_err();
        assert_eq!(error.code(), "missing_samples", "{strategy}: {error}");
        drop(short);
        read(&signal, &mut whole, 0, usize::MAX);
        read(&signal, &mut readers.begin(1, &part(1)), 1, usize::MAX);
    }
}
