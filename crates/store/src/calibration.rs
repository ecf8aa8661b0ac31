//! The machine model for signals: calibration with a scratch store, and estimates of scans.

use std::path::Path;

use isochrony_io::machine::{
    CacheState, CalibrationOptions, Profile, ScanEstimate, ScanSource, ScratchRecording, TimedScan,
    Trial,
};
use isochrony_io::{IoError, SourceError, Strategy, machine};
use isochrony_segment::DType;
use isochrony_time::Rate;

use crate::error::StoreError;
use crate::interrupt;
use crate::options::{CreateOptions, Mode};
use crate::selection::Stretch;
use crate::signal::Signal;
use crate::signal_source::ranges;
use crate::store::Store;

/// Measures this machine and a folder's disk. `done` gets the number of scans done and in total.
///
/// # Errors
/// [`StoreError::RefusedCalibration`], [`StoreError::DiskFull`] before anything is written,
/// [`StoreError::Interrupted`], [`StoreError::Io`].
pub fn calibrate(
    wanted: &CalibrationOptions,
    done: impl FnMut(u32, u32),
) -> Result<Profile, StoreError> {
    Ok(machine::calibrate(wanted, &ScratchStore, done)?)
}

/// Times one scan: each piece is requested, then summarised. `None` if the strategy does not apply; `state`: where the
/// samples are.
///
/// # Errors
/// Errors of reading, or [`StoreError::Interrupted`].
pub fn time_scan(
    signal: &Signal,
    strategy: Strategy,
    state: CacheState,
) -> Result<Option<Trial>, StoreError> {
    let all = signal.select(0..signal.end_index())?;
    let scan = TimedScan {
        source: &signal.source(),
        parts: &ranges(all.parts()),
        check: &|| ScratchStore.check(),
    };
    Ok(scan.time(strategy, state)?)
}

/// Estimates a scan of parts on this machine, without reading.
#[must_use]
pub fn estimate(signal: &Signal, parts: &[Stretch]) -> ScanEstimate {
    ScanEstimate::of(&signal.source(), &ranges(parts))
}

/// The best predicted strategy; `mmap` without a prediction or for little data.
#[must_use]
pub fn choose(signal: &Signal, parts: &[Stretch]) -> Strategy {
    ScanEstimate::choose(&signal.source(), &ranges(parts))
}

const STORE: &str = "a.iso";
const SIGNAL: &str = "scratch";

struct ScratchStore;

impl ScratchRecording for ScratchStore {
    fn write(&self, folder: &Path, bytes: u64) -> Result<(), SourceError> {
        Ok(write(&folder.join(STORE), bytes)?)
    }

    fn open(&self, folder: &Path, scan: &mut ScanSource<'_>) -> Result<(), IoError> {
        let own = |error: StoreError| IoError::Source(error.into());
        let store = Store::open(folder.join(STORE), Mode::Read).map_err(own)?;
        scan(&store.signal(SIGNAL).map_err(own)?.source())?;
        store.close().map_err(own)
    }

    fn check(&self) -> Result<(), SourceError> {
        Ok(interrupt::check("calibrate")?)
    }
}

fn write(path: &Path, bytes: u64) -> Result<(), StoreError> {
    let store = Store::open(path, Mode::Create)?;
    let rate = Rate::from_hz(1_000_000)?;
    let writer = store.create(SIGNAL, &CreateOptions::new(DType::I16, rate))?;
    let mut state = 1u64;
    let block: Vec<i16> = (0..1 << 21)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Normal numbers even if read as float32 or float64.
            (state >> 52) as i16 + 0x4000
        })
        .collect();
    let mut left = bytes / 2;
    while left > 0 {
        interrupt::check("calibrate")?;
        let part = left.min(block.len() as u64);
        writer.append(&block[..part as usize])?;
        left -= part;
    }
    store.commit(true)?;
    store.close()
}
