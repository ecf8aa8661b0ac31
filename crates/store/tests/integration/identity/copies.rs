//! A folder copied file by file during writes is an inconsistent mixture: it fails to open or read, or gives committed
//! samples.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use isochrony_store::media::sim::Dice;
use isochrony_store::{Mode, Store};

use super::{made, on_disk, options, samples};

const NAMES: [&str; 3] = ["a", "b/c", "d"];
/// Lengths below and above a chunk and the limit of samples in the log.
const LENGTHS: [usize; 6] = [1, 500, 3000, 20_000, 40_000, 100_000];
/// Stores of which every version of the shards is combined with the last log.
const SHARD_ROUNDS: usize = 8;
const MAX_SAMPLES: usize = 400_000;

/// Copies in order of name, without files that vanish.
pub(super) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let Ok(entries) = fs::read_dir(from) else {
        return;
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => _ = fs::copy(&path, &target),
        }
    }
}

/// Number of fully correct signals. Readable samples must be of the signal's making, up to its end, and in no gap.
fn right_signals(path: &Path, mode: Mode) -> usize {
    let Ok(store) = Store::open(path, mode) else {
        return 0;
    };
    let names = store.names().unwrap();
    let signals = names.iter().filter_map(|name| store.signal(name).ok());
    let mut right = 0;
    for signal in signals {
        let mut expected = samples(made(&signal), signal.end_index() as usize);
        for gap in signal.gaps().iter() {
            expected[gap.start as usize..gap.end() as usize].fill(-1);
        }
        // Each readable part must be correct whatever is wrong with others.
        let mut failed = false;
        for start in (0..expected.len()).step_by(1000) {
            let part = start..(start + 1000).min(expected.len());
            let selected = signal.select(part.start as i64..part.end as i64).unwrap();
            match selected.counts(-1i16) {
                Ok(found) => {
                    let wrong = found.iter().zip(&expected[part.clone()]);
                    let wrong = wrong
                        .clone()
                        .position(|(found, expected)| found != expected);
                    assert_eq!(
                        wrong.map(|at| (part.start + at, found[at])),
                        None,
                        "{mode:?} {}: of {} samples",
                        signal.name(),
                        expected.len(),
                    );
                }
                Err(_) => failed = true,
            }
        }
        right += usize::from(!failed);
    }
    right
}

/// Shards older than the rest of the store lack what later commits wrote.
#[test]
fn shards_older_than_the_log_are_an_error_or_read_right() {
    let name = "signal";
    let mut dice = Dice(3);
    let (mut right, mut wrong) = (0, 0);
    for round in 0..SHARD_ROUNDS {
        let (folder, store) = on_disk();
        let writer = store.create(name, &options(1)).unwrap();
        writer.append(&samples(1, 2000)).unwrap();
        store.commit(true).unwrap();
        let shards = |of: &Path| of.join(name).join("data/c");
        let mut older = Vec::new();
        for step in 0..6 {
            let copied = folder.path().join(format!("shards-{step}"));
            copy(&shards(store.path()), &copied);
            older.push(copied);
            for _ in 0..1 + dice.below(3) {
                change_samples(&store, name, &mut dice);
            }
            store.commit(false).unwrap();
            if dice.chance(10) {
                store.checkpoint().unwrap();
            }
        }
        if round % 4 == 0 {
            store.close().unwrap();
        }
        let copied = folder.path().join("shards");
        copy(&shards(store.path()), &copied);
        older.push(copied);
        for shards_then in older {
            let mixed = folder.path().join("mixed.iso");
            copy(store.path(), &mixed);
            fs::remove_dir_all(shards(&mixed)).unwrap();
            copy(&shards_then, &shards(&mixed));
            let readable = check(&mixed, folder.path());
            right += readable;
            wrong += 3 - readable;
            fs::remove_dir_all(mixed).unwrap();
        }
    }
    assert!(right >= 3 * SHARD_ROUNDS, "{right}");
    assert!(wrong > SHARD_ROUNDS, "{wrong}");
}

fn check(path: &Path, folder: &Path) -> usize {
    let again = folder.join("again.iso");
    copy(path, &again);
    let read = right_signals(path, Mode::Read);
    let recovered = right_signals(&again, Mode::ReadWrite) + right_signals(&again, Mode::Read);
    fs::remove_dir_all(again).unwrap();
    read + recovered
}

fn some_range(dice: &mut Dice, end: usize, longest: usize) -> std::ops::Range<i64> {
    let start = dice.below(end as u64) as usize;
    let length = 1 + dice.below(longest.min(end - start) as u64) as usize;
    start as i64..(start + length) as i64
}

fn change_samples(store: &Store, name: &str, dice: &mut Dice) {
    let Ok(signal) = store.signal(name) else {
        return;
    };
    let end = signal.end_index() as usize;
    if !signal.codec().is_empty() || end == 0 {
        return;
    }
    let writer = store.writer(name).unwrap();
    let count = LENGTHS[dice.below(6) as usize];
    let right = |range: &std::ops::Range<i64>| {
        samples(made(&signal), range.end as usize)[range.start as usize..].to_vec()
    };
    let fill = |range: std::ops::Range<i64>| writer.fill(range.start, &right(&range)).unwrap();
    let gaps: Vec<_> = signal.gaps().iter().map(|gap| gap.range()).collect();
    match dice.below(10) {
        0..4 if end < MAX_SAMPLES => writer
            .append(&right(&(end as i64..(end + count) as i64)))
            .map(drop)
            .unwrap(),
        4 if end < MAX_SAMPLES => writer.append_gap(count as i64).map(drop).unwrap(),
        0..8 if !gaps.is_empty() => {
            let gap = gaps[dice.below(gaps.len() as u64) as usize].clone();
            let length = (gap.end - gap.start) as usize;
            let part = match dice.chance(30) {
                true => 0..gap.end - gap.start,
                false => some_range(dice, length, count),
            };
            fill(gap.start + part.start..gap.start + part.end);
        }
        _ => {
            let range = some_range(dice, end, count);
            writer.mark_invalid(range.clone()).unwrap();
            if dice.chance(40) {
                fill(range);
            }
        }
    }
}

fn one_change(store: &Store, dice: &mut Dice, making: i16) {
    let name = NAMES[dice.below(3) as usize];
    let publish = dice.chance(50);
    match dice.below(14) {
        0..10 => {
            for _ in 0..1 + dice.below(3) {
                change_samples(store, name, dice);
            }
            store.commit(publish).unwrap();
        }
        10 => {
            let writer = store.create(name, &options(making)).unwrap();
            writer.append(&samples(making, 2000)).unwrap();
            store.commit(publish).unwrap();
        }
        11 => {
            store.seal(name, "zstd:1".parse().unwrap()).unwrap();
            store.unseal(name).unwrap();
        }
        12 => {
            store.rename(name, "aside").unwrap();
            store.commit(true).unwrap();
            store.rename("aside", name).unwrap();
            store.commit(true).unwrap();
        }
        _ => store.checkpoint().unwrap(),
    }
}

fn store_at_work() -> (tempfile::TempDir, Store) {
    let (folder, store) = on_disk();
    for name in NAMES {
        let writer = store.create(name, &options(1)).unwrap();
        writer.append(&samples(1, 2000)).unwrap();
    }
    store.commit(true).unwrap();
    (folder, store)
}

#[test]
fn a_copy_taken_while_a_writer_works_is_an_error_or_reads_right() {
    let (folder, store) = store_at_work();
    let done = AtomicBool::new(false);
    let mut right = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice(11);
            let mut making = 1;
            while !done.load(Ordering::Relaxed) {
                making = making % 30 + 1;
                one_change(&store, &mut dice, making);
            }
        });
        // A panic here must also end the writer.
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..40 {
                let copied = folder.path().join("copy.iso");
                copy(store.path(), &copied);
                right += check(&copied, folder.path());
                fs::remove_dir_all(copied).unwrap();
            }
        }));
        done.store(true, Ordering::Relaxed);
        looked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    assert!(right > 0, "no copy had a signal that could be read");
}

/// Combines each top-level entry from one of two copies at random.
#[test]
fn a_mixture_of_two_copies_is_an_error_or_reads_right() {
    let mut dice = Dice(5);
    let mut right = 0;
    for round in 0..20 {
        let (folder, store) = store_at_work();
        let place = |name: &str| folder.path().join(name);
        let steps = |dice: &mut Dice, count: usize| {
            (0..count).for_each(|step| one_change(&store, dice, 2 + step as i16));
        };
        steps(&mut dice, 6);
        if round % 2 == 0 {
            store.checkpoint().unwrap();
        }
        copy(store.path(), &place("old.iso"));
        steps(&mut dice, 1 + round % 6);
        if round % 3 == 0 {
            store.checkpoint().unwrap();
        }
        if round % 5 == 0 {
            store.close().unwrap();
        }
        copy(store.path(), &place("new.iso"));
        let mixed = place("mixed.iso");
        copy(&place("new.iso"), &mixed);
        for name in NAMES.iter().copied().chain([".isochrony"]) {
            if dice.chance(40) {
                let old = place("old.iso").join(name);
                let _ = fs::remove_dir_all(mixed.join(name));
                copy(&old, &mixed.join(name));
            }
        }
        // Single files: samples without tables, tables without samples.
        for name in NAMES {
            for part in ["data", "gaps", "runs", "crc", "timebase"] {
                if dice.chance(10) {
                    let inside = Path::new(name).join(part);
                    let _ = fs::remove_dir_all(mixed.join(&inside));
                    copy(&place("old.iso").join(&inside), &mixed.join(&inside));
                }
            }
        }
        right += check(&mixed, folder.path());
    }
    assert!(right > 20, "{right}");
}
