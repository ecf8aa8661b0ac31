//! Measures a machine and one of its disks.
//!
//! All strategies in turn scan a scratch recording: uncached, cached and mapped. Only cached pages of the scratch files
//! are dropped. The folder is restored, also after an error.

use std::collections::BTreeMap;
use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use isochrony_system::memory::available_memory;
use isochrony_system::page_cache::{cached, drop_cached, fault_seconds};
use isochrony_system::volume;
use isochrony_time::{Fixed, civil};

use super::costs::{CacheState, Costs, StrategyCosts, Trial};
use super::disk_costs::DiskCosts;
use super::disk_identity::DiskIdentity;
use super::profile::{FORMAT, Machine, Profile};
use super::quartiles::Quartiles;
use super::summary_costs::kernels;
use super::timed_scan::TimedScan;
use crate::error::{ErrorContext, IoError};
use crate::scratch_folder::ScratchFolder;
use crate::source::{SampleSource, SourceError};
use crate::strategy::Strategy;

/// What to measure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalibrationOptions {
    /// Folder on the disk to measure.
    pub folder: PathBuf,
    /// Bytes to scan, 4 MiB to 1 TiB; preferably more than the CPU caches.
    pub bytes: u64,
    /// Repetitions of each scan, 1 to 100.
    pub repeats: u32,
}

/// Scans an open source.
pub type ScanSource<'a> = dyn FnMut(&Arc<dyn SampleSource>) -> Result<(), IoError> + 'a;

/// A recording that a calibration writes and scans.
pub trait ScratchRecording {
    /// Writes and closes a recording of `bytes`.
    ///
    /// # Errors
    /// The recording's own.
    fn write(&self, folder: &Path, bytes: u64) -> Result<(), SourceError>;
    /// Opens it unmapped, and closes it after `scan`.
    ///
    /// # Errors
    /// The recording's own, and those of `scan`.
    fn open(&self, folder: &Path, scan: &mut ScanSource<'_>) -> Result<(), IoError>;
    /// An error ends the calibration.
    ///
    /// # Errors
    /// The recording's own.
    fn check(&self) -> Result<(), SourceError>;
}

/// Measures this machine and a disk; `done` gets scans done and in total.
///
/// # Errors
/// [`IoError::RefusedCalibration`], [`IoError::DiskFull`] before anything is written, [`IoError::System`], or those of
/// the recording.
pub fn calibrate(
    wanted: &CalibrationOptions,
    recording: &dyn ScratchRecording,
    mut done: impl FnMut(u32, u32),
) -> Result<Profile, IoError> {
    check(wanted)?;
    let scratch = ScratchFolder::make(&wanted.folder, "calibrate")?;
    let path = scratch.path();
    let local: Vec<Strategy> = Strategy::local().collect();
    let total = 2 * local.len() as u32 * wanted.repeats;
    done(0, total);
    recording
        .write(path, wanted.bytes)
        .map_err(IoError::Source)?;
    let files = large_files(path)?;
    let check = || recording.check().map_err(IoError::Source);
    let drop_all = || {
        check()?;
        drop_all(&files, wanted.bytes)
    };
    let scan = |strategy, state| scan(path, recording, strategy, state);
    let droppable = drop_all()?;
    if droppable {
        // Not counted: while the page cache grows, a virtual machine may get memory from its host.
        scan(Strategy::Read, CacheState::Cold)?;
    }
    let mut trials = Vec::new();
    let mut count = 0;
    let mut major = Vec::new();
    for round in 0..wanted.repeats as usize {
        let mut order = local.clone();
        order.rotate_left(round % local.len());
        for strategy in order.iter().copied() {
            if droppable && drop_all()? {
                trials.extend(scan(strategy, CacheState::Cold)?);
            }
            count += 1;
            done(count, total);
        }
        if let (true, Some((file, _))) = (droppable, files.first()) {
            major.extend(fault_seconds(file, 1 << 20));
            drop_all()?;
        }
        // Cached by a sequential reader, since page sizes depend on the reader.
        scan(Strategy::Read, CacheState::Cold)?;
        for strategy in order.iter().copied() {
            if !strategy.bypasses_page_cache() {
                trials.extend(scan(strategy, CacheState::Cached)?);
            }
            count += 1;
            done(count, total);
        }
    }
    let mut measured = BTreeMap::new();
    recording.open(path, &mut |source| {
        let all = 0..source.end();
        let scan = TimedScan {
            source,
            parts: slice::from_ref(&all),
            check: &|| recording.check(),
        };
        measured = kernels(scan, repeats_of(wanted))?;
        Ok(())
    })?;
    let machine = Machine::here();
    let costs = Costs::derive(&trials, machine.page_bytes as f64);
    let costs = costs.ok_or_else(|| IoError::RefusedCalibration {
        option: "folder",
        got: wanted.folder.display().to_string(),
        legal: "files there cannot be mapped; choose a folder on a local disk",
    })?;
    let tried = |strategy: &Strategy| trials.iter().any(|trial| trial.strategy == *strategy);
    let paths: BTreeMap<String, StrategyCosts> = Strategy::ALL
        .into_iter()
        .filter(tried)
        .map(|one| {
            (
                one.name().to_owned(),
                StrategyCosts::derive(&trials, one, &costs),
            )
        })
        .collect();
    let place = DiskIdentity::of(&wanted.folder)?;
    let repeats = repeats_of(wanted);
    Ok(Profile {
        format: FORMAT,
        machine,
        timer_resolution: timer_resolution(),
        timer_cost: repeated(repeats, 10_000, || _ = black_box(Instant::now())),
        system_call: repeated(repeats, 10_000, || {
            _ = black_box(std::os::unix::process::parent_id())
        }),
        memory_bandwidth: memory_bandwidth(wanted.bytes, repeats)?,
        volumes: vec![DiskCosts {
            folder: std::path::absolute(&wanted.folder)
                .unwrap_or_else(|_| wanted.folder.clone())
                .display()
                .to_string(),
            filesystem: place.filesystem,
            device: place.device,
            disk: place.disk,
            made: now(),
            bytes: wanted.bytes,
            repeats: wanted.repeats,
            costs,
            kernels: measured,
            major_fault: Quartiles::of(major),
            paths,
        }],
    })
}

fn repeats_of(wanted: &CalibrationOptions) -> u32 {
    wanted.repeats.max(5)
}

fn check(wanted: &CalibrationOptions) -> Result<(), IoError> {
    let refuse =
        |option, got: String, legal| Err(IoError::RefusedCalibration { option, got, legal });
    if !(4 << 20..=1 << 40).contains(&wanted.bytes) {
        let legal = "it must be 4 MiB to 1 TiB";
        return refuse("size", format!("{} bytes", wanted.bytes), legal);
    }
    if !(1..=100).contains(&wanted.repeats) {
        return refuse("repeats", wanted.repeats.to_string(), "it must be 1 to 100");
    }
    let free = volume::free_bytes(&wanted.folder).with_path("look at", &wanted.folder)?;
    if free < wanted.bytes.saturating_mul(2) {
        return Err(IoError::DiskFull {
            action: "write a scratch signal to",
            path: wanted.folder.clone(),
        });
    }
    Ok(())
}

fn large_files(folder: &Path) -> Result<Vec<(File, u64)>, IoError> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_path("list", &folder)? {
            let path = entry.with_path("list", &folder)?.path();
            let found = std::fs::metadata(&path).with_path("look at", &path)?;
            if found.is_dir() {
                folders.push(path);
            } else if found.len() >= 1 << 20 {
                let file = File::open(&path).with_path("open", &path)?;
                // Dirty pages cannot be dropped.
                file.sync_all().with_path("sync", &path)?;
                files.push((file, found.len()));
            }
        }
    }
    Ok(files)
}

/// Whether almost no cached pages are left.
fn drop_all(files: &[(File, u64)], bytes: u64) -> Result<bool, IoError> {
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

/// After a cached scan by `mmap`, scans again mapped.
fn scan(
    folder: &Path,
    recording: &dyn ScratchRecording,
    strategy: Strategy,
    state: CacheState,
) -> Result<Vec<Trial>, IoError> {
    let mut trials = Vec::new();
    recording.open(folder, &mut |source| {
        let all = 0..source.end();
        let scan = TimedScan {
            source,
            parts: slice::from_ref(&all),
            check: &|| recording.check(),
        };
        trials.extend(scan.time(strategy, state)?);
        if (strategy, state) == (Strategy::Mmap, CacheState::Cached) {
            trials.extend(scan.time(strategy, CacheState::Mapped)?);
        }
        Ok(())
    })?;
    Ok(trials)
}

pub(super) fn repeated(repeats: u32, times: u32, mut act: impl FnMut()) -> Quartiles {
    let each = (0..repeats.max(1)).map(|_| {
        let begun = Instant::now();
        (0..times).for_each(|_| act());
        begun.elapsed().as_secs_f64() / f64::from(times)
    });
    Quartiles::of(each.collect()).unwrap_or(Quartiles::exact(0.0))
}

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

fn memory_bandwidth(bytes: u64, repeats: u32) -> Result<Quartiles, IoError> {
    // More than any cache, less than the free memory.
    let len = bytes.min(512 << 20).min(available_memory() / 4) as usize / 2;
    let mut memory: Vec<i16> = Vec::new();
    let too_large = |_| IoError::TooLarge {
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
    Ok(Quartiles {
        low: rate(spent.high),
        median: rate(spent.median),
        high: rate(spent.low),
    })
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    civil::format(Fixed::from_int(
        seconds.cast_signed().saturating_mul(1_000_000_000),
    ))
}
