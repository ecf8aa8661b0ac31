//! Estimates scan times on this machine, and chooses a strategy.

use std::fmt;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use isochrony_system::memory::available_memory;
use isochrony_system::page_cache::cached;

use super::costs::CacheState;
use super::disk_costs::Amount;
use super::disk_identity::DiskIdentity;
use super::profile::{Machine, Profile};
use super::quartiles::Quartiles;
use crate::error::IoError;
use crate::scan::SourceFiles;
use crate::source::SampleSource;
use crate::strategy::Strategy;

/// Expected seconds of a strategy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StrategyEstimate {
    /// The strategy.
    pub strategy: Strategy,
    /// In the present cache state.
    pub now: Option<Quartiles>,
    /// Fully cached.
    pub cached: Option<Quartiles>,
    /// Uncached.
    pub cold: Option<Quartiles>,
}

/// Estimate of a scan.
#[derive(Debug, Clone, PartialEq)]
pub struct ScanEstimate {
    /// Amount to scan.
    pub amount: Amount,
    /// By strategy, if predicted.
    pub estimates: Vec<StrategyEstimate>,
    /// The best strategy, if predicted.
    pub best: Option<Strategy>,
    /// Basis of the estimate, or why none.
    pub basis: String,
}

/// Estimates of smaller scans cost more than they could save.
const MIN_BYTES: f64 = 16e6;

/// Approximate; each opens a shard.
const CACHE_PROBES: usize = 64;

impl ScanEstimate {
    /// Estimates a scan of parts of a source. Reads no samples.
    #[must_use]
    pub fn of(source: &Arc<dyn SampleSource>, parts: &[Range<i64>]) -> Self {
        let bytes = bytes_of(source, parts);
        let none = |basis: String| Self {
            amount: Amount {
                bytes,
                cached: None,
                dtype: source.dtype(),
            },
            estimates: Vec::new(),
            best: None,
            basis,
        };
        if let Some(why) = source.why_decoded() {
            return none(format!("{why}, and the time of decoding is not predicted"));
        }
        if source.is_remote() {
            return Self {
                best: Some(Strategy::RangeRequests),
                ..none("the time of requests to a server is not predicted".into())
            };
        }
        let profile = match known() {
            Ok(Some(profile)) => profile,
            Ok(None) => {
                return none(
                    "this machine is not calibrated: `isochrony calibrate` does so".into(),
                );
            }
            Err(error) => return none(error.to_string()),
        };
        if !THIS_MACHINE
            .get_or_init(Machine::here)
            .is_like(&profile.machine)
        {
            let why = "the profile is another machine's: `isochrony calibrate` measures this one";
            return none(why.into());
        }
        let folder = source.folder();
        let place = DiskIdentity::of(folder).ok();
        let Some(volume) = place.and_then(|place| profile.volume(&place.disk).cloned()) else {
            return none(format!(
                "the disk of {0} is not calibrated: `isochrony calibrate --dir` a folder on it does so",
                folder.display()
            ));
        };
        let amount = Amount {
            bytes,
            cached: cached_part(source, parts),
            dtype: source.dtype(),
        };
        let estimates = Strategy::local().map(|strategy| StrategyEstimate {
            strategy,
            now: volume.predict_now(strategy, amount),
            cached: volume.predict(strategy, CacheState::Cached, bytes, amount.dtype),
            cold: volume.predict(strategy, CacheState::Cold, bytes, amount.dtype),
        });
        // Past the page cache nothing is kept for the next scan, so only if it would not fit anyway.
        let fits = bytes * 2.0 < available_memory() as f64;
        let best = volume.best(amount, |one| !(fits && one.bypasses_page_cache()));
        Self {
            amount,
            estimates: estimates.collect(),
            best,
            basis: format!("calibrated {} in {}", volume.made, volume.folder),
        }
    }

    /// The best strategy; `mmap` without predictions or for small scans.
    #[must_use]
    pub fn choose(source: &Arc<dyn SampleSource>, parts: &[Range<i64>]) -> Strategy {
        if source.is_remote() {
            return Strategy::RangeRequests;
        }
        if bytes_of(source, parts) < MIN_BYTES {
            return Strategy::Mmap;
        }
        Self::of(source, parts).choice()
    }

    /// The default strategy of a scan.
    #[must_use]
    pub fn choice(&self) -> Strategy {
        match self.best {
            Some(best) if best.is_remote() || self.amount.bytes >= MIN_BYTES => best,
            _ => Strategy::Mmap,
        }
    }
}

fn bytes_of(source: &Arc<dyn SampleSource>, parts: &[Range<i64>]) -> f64 {
    let count = |part: &Range<i64>| source.samples_within(part.clone());
    parts.iter().map(count).sum::<i64>() as f64 * source.dtype().size() as f64
}

/// By equidistant probes; None if the system cannot tell. A shard-sized gap has no file.
fn cached_part(source: &Arc<dyn SampleSource>, parts: &[Range<i64>]) -> Option<f64> {
    let mut files = SourceFiles::new(source);
    let parts = || {
        parts
            .iter()
            .step_by(parts.len().div_ceil(CACHE_PROBES).max(1))
    };
    let total: i64 = parts().map(|part| part.end - part.start).sum();
    let step = (total / CACHE_PROBES as i64).max(1);
    let (mut asked, mut found) = (0, 0);
    for part in parts() {
        let Range { mut start, end } = *part;
        while start < end {
            let gap = source.gap_within(start..end);
            if let Some(gap) = &gap
                && gap.start <= start
            {
                start = gap.end;
                continue;
            }
            let next = start.saturating_add(step).min(end);
            let stop = gap.map_or(next, |gap| gap.start.min(next));
            let span = files.spans(&(start..stop)).next()?;
            let shard = files.shard(&span).ok()??;
            let file = shard.os_file()?;
            asked += span.len;
            found += cached(file, span.offset..span.offset + span.len)?;
            start = next;
        }
    }
    Some(found as f64 / asked.max(1) as f64)
}

type FileStamp = (PathBuf, i64, i64, u64, u64);

type LoadedProfile = Option<(FileStamp, Arc<Profile>)>;

static THIS_MACHINE: OnceLock<Machine> = OnceLock::new();

static LOADED: Mutex<LoadedProfile> = Mutex::new(None);

/// This user's profile; reloaded after a change.
fn known() -> Result<Option<Arc<Profile>>, IoError> {
    let Some(path) = Profile::path() else {
        return Ok(None);
    };
    let Ok(found) = std::fs::metadata(&path) else {
        return Ok(None);
    };
    let version = (
        path.clone(),
        found.mtime(),
        found.mtime_nsec(),
        found.len(),
        found.ino(),
    );
    let mut known = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((old, profile)) = &*known
        && *old == version
    {
        return Ok(Some(profile.clone()));
    }
    *known = None;
    let Some(profile) = Profile::load(&path)? else {
        return Ok(None);
    };
    let profile = Arc::new(profile);
    *known = Some((version, profile.clone()));
    Ok(Some(profile))
}

fn shown(time: Option<Quartiles>) -> String {
    let text = |seconds: f64| match seconds {
        below if below < 1e-3 => format!("{:.0} us", below * 1e6),
        below if below < 1.0 => format!("{:.1} ms", below * 1e3),
        seconds => format!("{seconds:.2} s"),
    };
    match time {
        None => "not known".into(),
        Some(time) if time.relative() > WIDE_SPREAD => {
            format!(
                "{} ({} to {})",
                text(time.median),
                text(time.low),
                text(time.high)
            )
        }
        Some(time) => text(time.median),
    }
}

/// Relative quartile distance from which quartiles are shown.
const WIDE_SPREAD: f64 = 0.3;

impl fmt::Display for ScanEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Amount {
            bytes,
            cached,
            dtype: _,
        } = self.amount;
        if self.estimates.is_empty() {
            return write!(f, "no prediction: {}", self.basis);
        }
        let cached = cached.map_or("an unknown part".into(), |part| {
            format!("{:.0}%", part * 100.0)
        });
        write!(
            f,
            "{:.3} GB, {cached} in the page cache; time to read and summarise them ({}):",
            bytes / 1e9,
            self.basis
        )?;
        write!(
            f,
            "\n  {:<16}{:<34}{:<34}on the disk",
            "strategy", "as it is now", "cached"
        )?;
        for one in &self.estimates {
            let name = match self.best == Some(one.strategy) {
                true => format!("{} *", one.strategy),
                false => one.strategy.to_string(),
            };
            let cells = [one.now, one.cached, one.cold].map(shown);
            write!(
                f,
                "\n  {name:<16}{:<34}{:<34}{}",
                cells[0], cells[1], cells[2]
            )?;
        }
        match self.best {
            Some(_) => write!(f, "\n  * predicted best"),
            None => write!(f, "\n  none is known to be best"),
        }
    }
}
