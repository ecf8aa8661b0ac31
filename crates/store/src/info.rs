//! What a store and its signals are, and how much room they take.

use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_time::Rate;

use crate::error::StoreError;
use crate::layout::ENGINE;
use crate::names::Pattern;
use crate::signal::Signal;
use crate::store::Store;

/// Bytes on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Files.
    pub files: u64,
    /// Sum of their lengths.
    pub bytes: u64,
    /// Bytes that the file system keeps for them: less where files have holes.
    pub allocated: u64,
}

impl std::ops::AddAssign for Room {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.allocated += other.allocated;
    }
}

/// One signal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SignalInfo {
    /// Name in the store.
    pub name: String,
    /// Sample type.
    pub dtype: DType,
    /// Nominal rate.
    pub rate: Rate,
    /// Mean rate in Hz, and its uncertainty in ppm, of the run that knows it best, if there is civil time.
    pub true_rate: Option<(f64, f64)>,
    /// Unit of calibrated values; empty if unknown.
    pub unit: String,
    /// Codec that it is sealed with; empty if it is not.
    pub codec: String,
    /// Length of the index axis, gaps included.
    pub end_index: i64,
    /// Samples that exist.
    pub samples: i64,
    /// Gaps.
    pub gaps: usize,
    /// Clocks.
    pub runs: usize,
    /// Events.
    pub events: usize,
    /// Bytes of the samples that exist, uncompressed.
    pub raw_bytes: u64,
    /// The array `data`.
    pub data: Room,
    /// Views.
    pub views: Room,
    /// Tables, checksums, metadata.
    pub tables: Room,
}

impl SignalInfo {
    /// Raw bytes per byte that `data` keeps on disk; above 1 where sealing saves room. `None` without samples.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.raw_bytes > 0 && self.data.allocated > 0)
            .then(|| self.raw_bytes as f64 / self.data.allocated as f64)
    }
}

/// A store.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// Its folder.
    pub path: PathBuf,
    /// Its identity.
    pub uuid: String,
    /// Last commit.
    pub sequence: u64,
    /// Its signals, by name.
    pub signals: Vec<SignalInfo>,
    /// Log, lock and files under construction.
    pub engine: Room,
}

impl StoreInfo {
    /// Bytes of all samples that exist, uncompressed.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.signals.iter().map(|signal| signal.raw_bytes).sum()
    }

    /// All room that is taken.
    #[must_use]
    pub fn room(&self) -> Room {
        let mut sum = self.engine;
        for signal in &self.signals {
            sum += signal.data;
            sum += signal.views;
            sum += signal.tables;
        }
        sum
    }
}

impl Store {
    /// Sizes, rates, gaps and compression of the signals whose names fit `pattern` (`None`: all).
    ///
    /// # Errors
    /// [`StoreError::InvalidPattern`], [`StoreError::Io`], [`StoreError::DamagedTable`].
    pub fn info(&self, pattern: Option<&str>) -> Result<StoreInfo, StoreError> {
        let pattern = pattern.map(Pattern::new).transpose()?;
        let shared = self.shared();
        let mut signals = Vec::new();
        for (id, name) in shared.backend.catalogue()? {
            if pattern
                .as_ref()
                .is_some_and(|pattern| !pattern.matches(&name))
            {
                continue;
            }
            let signal = Signal::load(shared, id)?;
            signals.push(describe(&signal, &shared.backend.signal_path(id)?)?);
        }
        Ok(StoreInfo {
            path: self.path().to_path_buf(),
            uuid: self.uuid()?,
            sequence: self.sequence()?,
            signals,
            engine: room(&self.path().join(ENGINE))?,
        })
    }
}

fn describe(signal: &Signal, folder: &Path) -> Result<SignalInfo, StoreError> {
    let state = signal.state();
    let (data, views) = (room(&folder.join("data"))?, room(&folder.join("views"))?);
    let mut tables = room(folder)?;
    // A writer may be at work while we count.
    tables.files = tables.files.saturating_sub(data.files + views.files);
    tables.bytes = tables.bytes.saturating_sub(data.bytes + views.bytes);
    tables.allocated = tables
        .allocated
        .saturating_sub(data.allocated + views.allocated);
    Ok(SignalInfo {
        name: signal.name().to_owned(),
        dtype: signal.dtype(),
        rate: signal.rate(),
        true_rate: signal
            .true_rate()?
            .map(|rate| (rate.hz, rate.uncertainty_ppm)),
        unit: signal.unit().to_owned(),
        codec: signal.codec().to_owned(),
        end_index: signal.end_index(),
        samples: signal.sample_count(),
        gaps: state.gaps.len(),
        runs: state.runs.len(),
        events: state.events.iter().count(),
        raw_bytes: signal.sample_count().unsigned_abs() * signal.dtype().size() as u64,
        data,
        views,
        tables,
    })
}

/// All files below a folder; what vanishes while looking is not counted, and a missing folder is empty.
fn room(folder: &Path) -> Result<Room, StoreError> {
    let mut sum = Room::default();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let failed = |source| StoreError::Io {
            action: "list",
            path: folder.clone(),
            source,
        };
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                open.push(entry.path());
            } else {
                sum.files += 1;
                sum.bytes += metadata.len();
                sum.allocated += allocated(&metadata);
            }
        }
    }
    Ok(sum)
}

#[cfg(unix)]
fn allocated(metadata: &std::fs::Metadata) -> u64 {
    // POSIX counts in units of 512 bytes, whatever the file system's blocks are.
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn allocated(metadata: &std::fs::Metadata) -> u64 {
    metadata.len()
}
