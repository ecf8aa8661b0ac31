//! Measuring a machine and one of its disks.
//!
//! A scratch store is written to the folder and scanned by each strategy through the same reader that plans use, by turns:
//! with nothing of it in the page cache, with all of it there, and mapped. Only the cache of the scratch store's own files
//! is dropped. The folder is left as it was, also after an error.

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::path::{Path as FilePath, PathBuf};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use isochrony_dsp::stats::Accumulator;
use isochrony_segment::DType;
use isochrony_time::{Fixed, Rate, civil};

use super::cache::{cached, drop_cached, faults, major_fault};
use super::costs::{Costs, Path, State, Trial};
use super::model::Volume;
use super::profile::{Machine, Profile};
use super::spread::Spread;
use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::interrupt;
use crate::options::{CreateOptions, Mode};
use crate::signal::Signal;
use crate::store::Store;
use crate::strategy::system::free_memory;
use crate::strategy::{SignalReader, Strategy};

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    /// A folder on the disk in question; a scratch folder is made in it.
    pub folder: PathBuf,
    /// Bytes to scan: more than the processor's caches hold tells most. 4 MiB to 1 TiB.
    pub bytes: u64,
    /// How often each scan is made, 1 to 100.
    pub repeats: u32,
}

/// Name of the scratch signal.
const SIGNAL: &str = "scratch";

/// A folder that goes away with all in it.
struct ScratchFolder(PathBuf);

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Measures this machine and the disk of a folder; `done` is told how many scans of how many are done.
///
/// # Errors
/// [`StoreError::RefusedCalibration`], [`StoreError::DiskFull`] before anything is written, [`StoreError::Interrupted`],
/// or what the system says.
pub fn calibrate(
    wanted: &Calibration,
    mut done: impl FnMut(u32, u32),
) -> Result<Profile, StoreError> {
    check(wanted)?;
    let name = format!(".isochrony-calibrate-{}", uuid::Uuid::new_v4().simple());
    let scratch = ScratchFolder(wanted.folder.join(name));
    let total = 2 * Strategy::ALL.len() as u32 * wanted.repeats;
    done(0, total);
    let files = write(&scratch.0, wanted.bytes)?;
    let droppable = drop_all(&files, wanted.bytes)?;
    let mut trials = Vec::new();
    let mut count = 0;
    let mut major = Vec::new();
    for round in 0..wanted.repeats as usize {
        let mut order = Strategy::ALL;
        order.rotate_left(round % Strategy::ALL.len());
        for strategy in order {
            // What somebody else holds in the cache just then is no cold scan.
            if droppable && drop_all(&files, wanted.bytes)? {
                trials.extend(scan(&scratch.0, strategy, State::Cold)?);
            }
            count += 1;
            done(count, total);
        }
        if let (true, Some((file, _))) = (droppable, files.first()) {
            major.extend(major_fault(file, 1 << 20));
            drop_all(&files, wanted.bytes)?;
        }
        // As a program that reads from front to back leaves it: which pages lie in the cache depends on who filled it.
        scan(&scratch.0, Strategy::Read, State::Cold)?;
        for strategy in order {
            if !strategy.is_direct() {
                trials.extend(scan(&scratch.0, strategy, State::Cached)?);
            }
            count += 1;
            done(count, total);
        }
    }
    let machine = Machine::here();
    let costs = Costs::derive(&trials, machine.page_bytes as f64);
    let costs = costs.ok_or_else(|| StoreError::RefusedCalibration {
        option: "folder",
        got: wanted.folder.display().to_string(),
        legal: "files there cannot be mapped; choose a folder on a local disk",
    })?;
    let tried = |strategy: &Strategy| trials.iter().any(|trial| trial.strategy == *strategy);
    let paths: BTreeMap<String, Path> = Strategy::ALL
        .into_iter()
        .filter(tried)
        .map(|one| (one.name().to_owned(), Path::derive(&trials, one, &costs)))
        .collect();
    let (device, filesystem) = place(&wanted.folder)?;
    let repeats = wanted.repeats.max(5);
    Ok(Profile {
        format: 1,
        machine,
        timer_resolution: timer_resolution(),
        timer_cost: repeated(repeats, 10_000, || _ = black_box(Instant::now())),
        system_call: repeated(repeats, 10_000, || {
            _ = black_box(rustix::process::getppid())
        }),
        memory_bandwidth: memory_bandwidth(wanted.bytes, repeats)?,
        volumes: vec![Volume {
            folder: std::path::absolute(&wanted.folder)
                .unwrap_or_else(|_| wanted.folder.clone())
                .display()
                .to_string(),
            filesystem,
            device,
            made: now(),
            bytes: wanted.bytes,
            repeats: wanted.repeats,
            costs,
            major_fault: Spread::of(major),
            paths,
        }],
    })
}

fn check(wanted: &Calibration) -> Result<(), StoreError> {
    let refuse =
        |option, got: String, legal| Err(StoreError::RefusedCalibration { option, got, legal });
    if !(4 << 20..=1 << 40).contains(&wanted.bytes) {
        let legal = "it must be 4 MiB to 1 TiB";
        return refuse("size", format!("{} bytes", wanted.bytes), legal);
    }
    if !(1..=100).contains(&wanted.repeats) {
        return refuse("repeats", wanted.repeats.to_string(), "it must be 1 to 100");
    }
    let room = rustix::fs::statvfs(&wanted.folder).map_err(std::io::Error::from);
    let room = room.at("look at", &wanted.folder)?;
    if room.f_bavail.saturating_mul(room.f_frsize) < wanted.bytes.saturating_mul(2) {
        return Err(StoreError::DiskFull {
            action: "write a scratch signal to",
            path: wanted.folder.clone(),
        });
    }
    Ok(())
}

/// Writes the scratch store; gives its large files, open, each with its length.
fn write(folder: &FilePath, bytes: u64) -> Result<Vec<(File, u64)>, StoreError> {
    let store = Store::open(folder, Mode::Create)?;
    let rate = Rate::from_hz(1_000_000)?;
    let writer = store.create(SIGNAL, &CreateOptions::new(DType::I16, rate))?;
    let mut state = 1u64;
    let block: Vec<i16> = (0..1 << 21)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 52) as i16 - 2048
        })
        .collect();
    let mut left = bytes / 2;
    while left > 0 {
        interrupt::look("calibrate")?;
        let part = left.min(block.len() as u64);
        writer.append(&block[..part as usize])?;
        left -= part;
    }
    store.commit(true)?;
    store.close()?;
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).at("list", &folder)? {
            let path = entry.at("list", &folder)?.path();
            let found = std::fs::metadata(&path).at("look at", &path)?;
            if found.is_dir() {
                folders.push(path);
            } else if found.len() >= 1 << 20 {
                let file = File::open(&path).at("open", &path)?;
                // What is not on the disk yet cannot be dropped from the cache.
                file.sync_all().at("sync", &path)?;
                files.push((file, found.len()));
            }
        }
    }
    Ok(files)
}

/// Drops what is cached of the files; whether it is known that little is left.
fn drop_all(files: &[(File, u64)], bytes: u64) -> Result<bool, StoreError> {
    interrupt::look("calibrate")?;
    let mut left = 0;
    for (file, len) in files {
        if drop_cached(file).is_err() {
            return Ok(false);
        }
        let Some(bytes) = cached(file, 0..*len) else {
            return Ok(false);
        };
        left += bytes;
    }
    Ok(left * 20 <= bytes)
}

/// Scans the scratch signal in a store that is opened for it; after what is cached, what is mapped by then, too.
fn scan(folder: &FilePath, strategy: Strategy, state: State) -> Result<Vec<Trial>, StoreError> {
    let store = Store::open(folder, Mode::Read)?;
    let signal = store.signal(SIGNAL)?;
    let mut trials = Vec::new();
    trials.extend(timed(&signal, strategy, state)?);
    if (strategy, state) == (Strategy::Mmap, State::Cached) {
        trials.extend(timed(&signal, strategy, State::Mapped)?);
    }
    drop(signal);
    store.close()?;
    Ok(trials)
}

/// One scan: each piece is asked for, then summarised. None if the strategy does not apply here.
fn timed(signal: &Signal, strategy: Strategy, state: State) -> Result<Option<Trial>, StoreError> {
    let end = signal.end_index();
    let parts = signal.select(0..end)?.parts().to_vec();
    let piece = (strategy.piece_bytes() / 2).cast_signed();
    let before = faults();
    let (mut outer, mut inner) = (0.0, 0.0);
    let mut accumulator = Accumulator::<i16>::new();
    let mut then = Instant::now();
    let mut lap = |sum: &mut f64| {
        let now = Instant::now();
        *sum += (now - then).as_secs_f64();
        then = now;
    };
    let mut reader = SignalReader::new(signal, &parts, piece, strategy)?;
    let mut at = 0;
    while at < end {
        interrupt::look("calibrate")?;
        let stop = end.min(at + piece);
        let segment = reader.read(at..stop)?;
        lap(&mut outer);
        segment.visit::<i16>(|samples| accumulator.push(samples))?;
        drop(segment);
        lap(&mut inner);
        at = stop;
    }
    let after = faults();
    black_box(accumulator.finish());
    if reader.reading().used != Some(strategy) {
        return Ok(None);
    }
    Ok(Some(Trial {
        strategy,
        state,
        bytes: (2 * end) as f64,
        outer,
        inner,
        minor: (after.0 - before.0) as f64,
        major: (after.1 - before.1) as f64,
    }))
}

/// Seconds of what is done many times, by repetitions.
fn repeated(repeats: u32, times: u32, mut act: impl FnMut()) -> Spread {
    let each = (0..repeats.max(1)).map(|_| {
        let begun = Instant::now();
        (0..times).for_each(|_| act());
        begun.elapsed().as_secs_f64() / f64::from(times)
    });
    // At least one, and all are numbers.
    Spread::of(each.collect()).unwrap_or(Spread::exact(0.0))
}

/// Least time between two looks at the clock that differ.
fn timer_resolution() -> f64 {
    let least = (0..1000).map(|_| {
        let begun = Instant::now();
        loop {
            let passed = begun.elapsed();
            if !passed.is_zero() {
                return passed;
            }
        }
    });
    least.min().unwrap_or_default().as_secs_f64()
}

/// Bytes a second that one core summarises from memory.
fn memory_bandwidth(bytes: u64, repeats: u32) -> Result<Spread, StoreError> {
    // Past any cache, but no more than is there to take.
    let len = bytes.min(512 << 20).min(free_memory() / 4) as usize / 2;
    let mut memory: Vec<i16> = Vec::new();
    let too_large = |_| StoreError::TooLarge {
        what: "measuring memory",
        bytes: len as u128 * 2,
        limit: isize::MAX as u128,
    };
    memory.try_reserve_exact(len).map_err(too_large)?;
    memory.extend((0..len).map(|k| k as i16));
    let spent = repeated(repeats, 1, || {
        _ = black_box(isochrony_dsp::stats::summary(&memory))
    });
    let rate = |seconds: f64| (len * 2) as f64 / seconds.max(f64::MIN_POSITIVE);
    Ok(Spread {
        low: rate(spent.high),
        median: rate(spent.median),
        high: rate(spent.low),
    })
}

/// Disk and kind of file system of a folder or file.
pub(super) fn place(path: &FilePath) -> Result<(String, String), StoreError> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).at("look at", path)?;
    let (major, minor) = crate::strategy::system::device_numbers(found.dev());
    Ok((format!("{major}:{minor}"), filesystem(path)))
}

#[cfg(target_os = "linux")]
fn filesystem(path: &FilePath) -> String {
    let Ok(found) = rustix::fs::statfs(path) else {
        return "unknown".into();
    };
    match found.f_type as u64 & 0xffff_ffff {
        0xef53 => "ext4".into(),
        0x5846_5342 => "xfs".into(),
        0x9123_683e => "btrfs".into(),
        0x0102_1994 => "tmpfs".into(),
        0xf2f5_2010 => "f2fs".into(),
        0x794c_7630 => "overlayfs".into(),
        0x2fc1_2fc1 => "zfs".into(),
        other => format!("{other:#x}"),
    }
}

#[cfg(not(target_os = "linux"))]
fn filesystem(_path: &FilePath) -> String {
    "unknown".into()
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    civil::format(Fixed::from_int(
        seconds.cast_signed().saturating_mul(1_000_000_000),
    ))
}
