//! Scan Summarize of a recording larger than the memory, by each strategy.
//!
//! The recording's zeros are holes, punched as they are written. Scans go through the page cache, which must evict as
//! much; the disk itself plays no part.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use isochrony::flow::RunOptions;
use isochrony::prelude::*;
use isochrony_store::machine::Machine;
use isochrony_store::{Strategy, layout};

use super::bare::BARE;
use super::{Failure, PAYLOAD, WINDOW, forget, rows, shards};
use crate::measure::Results;

const MEMORY: u64 = 64 << 20;

/// Besides: stacks of threads, result tables, buffers of the strategy.
const FIXED: u64 = 16_000_000;

pub fn run(dir: &Path, quick: bool, results: &mut Results) -> Result<(), Failure> {
    let memory = Machine::here().memory_bytes;
    let bytes = match quick {
        true => 256 << 20,
        false => (memory + memory / 10).next_multiple_of(BLOCK),
    };
    let path = dir.join("larger.iso");
    let files = sparse(&path, bytes)?;
    let mut table = Vec::new();
    let windows = bytes / 2 / WINDOW as u64;
    let bare = |table: &mut Vec<Measured>| -> Result<(), Failure> {
        forget(&files)?;
        let found = measured("bare pread of 512 KiB", || {
            let rows = BARE[0].1(&files, WINDOW)?;
            assert_eq!(rows.len() as u64, windows);
            assert!(rows.iter().all(|row| *row == (0, 0, 0.0)));
            Ok(())
        })?;
        table.push(found);
        Ok(())
    };
    bare(&mut table)?;
    for strategy in Strategy::ALL {
        forget(&files)?;
        let store = Store::open(&path, Mode::Read)?;
        let stored = StoredRecording::new(store.path(), store.signal("s")?).io(strategy);
        let plan = Plan::scan(stored).rewindow(WINDOW as u64)?;
        let plan = plan.stats([Stat::Min, Stat::Max, Stat::Mean])?;
        table.push(measured(strategy.name(), || {
            let mut options = RunOptions::default();
            options.memory = MEMORY;
            let rows = rows(plan.collect_with(&options)?.0)?;
            assert_eq!(rows.len() as u64, windows);
            assert!(rows.iter().all(|row| *row == (0.0, 0.0, 0.0)));
            Ok(())
        })?);
    }
    bare(&mut table)?;
    // The bare loop ran before and after.
    let ends = [&table[0], &table[table.len() - 1]];
    let bare = ends.map(|one| one.seconds).iter().sum::<f64>() / 2.0;
    let rows: Vec<Vec<String>> = table
        .iter()
        .map(|one| {
            vec![
                one.name.into(),
                format!("{:.2} s", one.seconds),
                format!("{:.2} GB/s", bytes as f64 / one.seconds / 1e9),
                format!("{:.2}", bare / one.seconds),
                format!("{:.1} MB", one.own as f64 / 1e6),
                format!("{:.0} MB", one.mapped as f64 / 1e6),
            ]
        })
        .collect();
    let own = table.iter().map(|one| one.own).max().unwrap_or(0);
    results.table(
        "store/strategies/larger_than_memory",
        &format!(
            "Scan Summarize of {:.1} GB (holes) in {:.1} GB of memory, memory={} MiB",
            bytes as f64 / 1e9,
            memory as f64 / 1e9,
            MEMORY >> 20
        ),
        &[
            "strategy",
            "time",
            "throughput",
            "bare / it",
            "most memory of its own",
            "most of the file mapped",
        ],
        &rows,
        Some((
            "memory of its own within the limit and 16 MB",
            own <= MEMORY + FIXED,
        )),
    );
    drop(files);
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

/// Bytes appended before punching: fewer than the system begins to write back.
const BLOCK: u64 = 64 << 20;

fn sparse(path: &Path, bytes: u64) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let store = Store::open(path, Mode::Create)?;
    let writer = store.create("s", &CreateOptions::new(DType::I16, Rate::from_hz(2_000)?))?;
    // Shards keep their places from now on.
    store.commit(false)?;
    let zeros = vec![0i16; BLOCK as usize / 2];
    let array = path.join("s").join("data");
    let mut at = 0;
    while at < bytes {
        let len = BLOCK.min(bytes - at);
        writer.append(&zeros[..len as usize / 2])?;
        at += len;
        punch(&array, 4)?;
    }
    store.commit(true)?;
    store.close()?;
    punch(&array, u64::MAX)?;
    shards(&array, bytes)
}

/// Frees the payload's blocks of an array's last shards.
fn punch(array: &Path, last: u64) -> Result<(), Failure> {
    use rustix::fs::FallocateFlags;
    let exists = |shard: &u64| layout::shard_file(array, *shard).exists();
    let count = (0..).take_while(exists).count() as u64;
    for shard in count.saturating_sub(last)..count {
        let file = File::options()
            .write(true)
            .open(layout::shard_file(array, shard))?;
        let len = file.metadata()?.len().saturating_sub(PAYLOAD);
        if len > 0 {
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, how, PAYLOAD, len)?;
        }
    }
    Ok(())
}

struct Measured {
    name: &'static str,
    seconds: f64,
    /// Peak of the process's own memory beyond what it had before.
    own: u64,
    /// The same of mapped files.
    mapped: u64,
}

fn measured(
    name: &'static str,
    act: impl FnOnce() -> Result<(), Failure>,
) -> Result<Measured, Failure> {
    let before = resident();
    let (stop, own, mapped) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let mut seconds = 0.0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let now = resident();
                own.fetch_max(now.0.saturating_sub(before.0), Ordering::Relaxed);
                mapped.fetch_max(now.1.saturating_sub(before.1), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let begun = Instant::now();
        let done = act();
        seconds = begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        done
    })?;
    Ok(Measured {
        name,
        seconds,
        own: own.into_inner(),
        mapped: mapped.into_inner(),
    })
}

/// Bytes of own memory (private and shared), and mapped files.
fn resident() -> (u64, u64) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    };
    (of("RssAnon:") + of("RssShmem:"), of("RssFile:"))
}
