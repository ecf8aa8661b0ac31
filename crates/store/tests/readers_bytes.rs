//! Bytes read by the process, as the kernel counts: hence a single test.
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicUsize, Ordering};

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Readers, Signal, Store, Strategy, Stretch};
use isochrony_time::Rate;

const SAMPLES: i64 = 8 << 20;
const TASK: i64 = 1 << 18;
const PIECE: i64 = 1 << 16;
const OVERLAP: i64 = 1_000;

/// Bytes read by system calls; `None` if the kernel does not count.
fn read_so_far() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "))?;
    line.parse().ok()
}

fn part(task: i64) -> Vec<Stretch> {
    let range = task * TASK..SAMPLES.min((task + 1) * TASK + OVERLAP);
    vec![Stretch { run: 0, range }]
}

fn made(store: &Store) -> Signal {
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    let samples: Vec<i16> = (0..SAMPLES).map(|k| k as i16).collect();
    writer.append(&samples).unwrap();
    store.commit(true).unwrap();
    writer.signal().unwrap()
}

#[test]
fn no_byte_is_read_more_often_than_tasks_need_it() {
    if read_so_far().is_none() {
        eprintln!("this kernel does not count what a process reads: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let signal = made(&store);
    let tasks = SAMPLES / TASK;
    let all = [Stretch {
        run: 0,
        range: 0..SAMPLES,
    }];
    for strategy in [Strategy::Read, Strategy::Direct] {
        for at_once in [1, 2, 4] {
            let before = read_so_far().unwrap();
            let coming = Box::new((0..tasks).map(part));
            let readers = Readers::new(&signal, &all, PIECE, strategy, at_once, coming).unwrap();
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..at_once {
                    scope.spawn(|| {
                        loop {
                            let task = next.fetch_add(1, Ordering::Relaxed) as i64;
                            if task >= tasks {
                                return;
                            }
                            let mut reader = readers.begin(task as u64, &part(task));
                            let mut rest = part(task)[0].range.clone();
                            while !rest.is_empty() {
                                let piece = reader.next_piece(&rest);
                                let segment = reader.read(piece.clone()).unwrap();
                                assert_eq!(segment.len(), (piece.end - piece.start) as u64);
                                rest.start = piece.end;
                            }
                        }
                    });
                }
            });
            drop(readers);
            let read = read_so_far().unwrap() - before;
            let needed = 2 * (SAMPLES + (tasks - 1) * OVERLAP) as u64;
            assert!(read >= needed, "{strategy}: {read} of {needed} bytes");
            // Blocks at both ends of a piece, an index of shards, and reading the count.
            let pieces = (SAMPLES / PIECE) as u64;
            let most = needed + pieces * 2 * 4096 + (64 << 10);
            assert!(
                read <= most,
                "{strategy}, {at_once} readers: {read} of {needed} bytes"
            );
        }
    }
}
