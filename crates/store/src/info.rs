//! Summary of a store and its signals, with disk usage.

use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_time::Rate;

use crate::engine::io::failed;
use crate::error::StoreError;
use crate::layout::ENGINE;
use crate::media::{Kind, Media};
use crate::names::Pattern;
use crate::signal::Signal;
use crate::store::Store;

/// Disk usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Room {
    /// Number of files.
    pub files: u64,
    /// Sum of their lengths.
    pub bytes: u64,
    /// Fewer bytes if files have holes.
    pub allocated: u64,
}

impl std::ops::AddAssign for Room {
    fn add_assign(&mut self, other: Self) {
        self.files += other.files;
        self.bytes += other.bytes;
        self.allocated += other.allocated;
    }
}

/// Summary of a signal.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SignalInfo {
    /// Name in the store.
    pub name: String,
    /// Sample type.
    pub dtype: DType,
    /// Nominal rate.
    pub rate: Rate,
    /// Mean rate in Hz and uncertainty in ppm, of the run with the lowest; `None` without civil time.
    pub true_rate: Option<(f64, f64)>,
    /// Unit of values; empty if unknown.
    pub unit: String,
    /// Sealing codec; empty if not sealed.
    pub codec: String,
    /// One past the last index, gaps included.
    pub end_index: i64,
    /// Samples, without gaps.
    pub samples: i64,
    /// Number of gaps.
    pub gaps: usize,
    /// Number of runs.
    pub runs: usize,
    /// Number of events.
    pub events: usize,
    /// All samples, uncompressed.
    pub raw_bytes: u64,
    /// The array `data`.
    pub data: Room,
    /// Views.
    pub views: Room,
    /// Tables, checksums, metadata.
    pub tables: Room,
}

impl SignalInfo {
    /// Raw bytes per allocated byte of `data`: above 1 if sealing saves space. `None` without samples.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.raw_bytes > 0 && self.data.allocated > 0)
            .then(|| self.raw_bytes as f64 / self.data.allocated as f64)
    }
}

/// Summary of a store.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoreInfo {
    /// Folder.
    pub path: PathBuf,
    /// Uuid.
    pub uuid: String,
    /// Number of the last commit.
    pub sequence: u64,
    /// Signals by name.
    pub signals: Vec<SignalInfo>,
    /// Log, lock and unfinished files.
    pub engine: Room,
}

impl StoreInfo {
    /// All samples, uncompressed.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.signals.iter().map(|signal| signal.raw_bytes).sum()
    }

    /// Total disk usage.
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
    /// Summary of the store and signals that match `pattern` (`None`: all).
    ///
    /// # Errors
    /// [`StoreError::InvalidPattern`], [`StoreError::Io`], [`StoreError::DamagedTable`].
    pub fn info(&self, pattern: Option<&str>) -> Result<StoreInfo, StoreError> {
        let pattern = pattern.map(Pattern::new).transpose()?;
        let shared = self.shared();
        let media = shared.backend.media();
        let mut signals = Vec::new();
        for (id, name) in shared.backend.catalogue()? {
            if pattern
                .as_ref()
                .is_some_and(|pattern| !pattern.matches(&name))
            {
                continue;
            }
            let signal = Signal::load(shared, id)?;
            let folder = shared.backend.signal_path(id)?;
            signals.push(describe(&signal, &*media, &folder)?);
        }
        Ok(StoreInfo {
            path: self.path().to_path_buf(),
            uuid: self.uuid()?,
            sequence: self.sequence()?,
            signals,
            engine: room(&*media, &self.path().join(ENGINE))?,
        })
    }
}

fn describe(signal: &Signal, media: &dyn Media, folder: &Path) -> Result<SignalInfo, StoreError> {
    let state = signal.state();
    let (data, views) = (
        room(media, &folder.join("data"))?,
        room(media, &folder.join("views"))?,
    );
    let mut tables = room(media, folder)?;
    // A writer may be active.
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
        raw_bytes: signal.sample_count().unsigned_abs() * signal.format().size() as u64,
        data,
        views,
        tables,
    })
}

/// Skips what vanishes meanwhile and what is not a file.
fn room(media: &dyn Media, folder: &Path) -> Result<Room, StoreError> {
    let mut sum = Room::default();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let names = match media.list(&folder) {
            Ok(names) => names,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error, "list", &folder)),
        };
        for name in names {
            let path = folder.join(name);
            match media.stat_allocated(&path) {
                Ok(Some((Kind::Folder, _))) => open.push(path),
                Ok(Some((Kind::File(bytes), allocated))) => {
                    sum.files += 1;
                    sum.bytes += bytes;
                    sum.allocated += allocated;
                }
                _ => {}
            }
        }
    }
    Ok(sum)
}
