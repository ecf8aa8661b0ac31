//! Costs of this machine, for `isochrony.machine`, as JSON text.

use std::path::{Path, PathBuf};

use isochrony_segment::DType;
use isochrony_store::StoreError;
use isochrony_store::machine::{CacheState, CalibrationOptions, Profile, Quartiles, calibrate};
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::interrupt::interruptible;

/// Strategy, cache state, and predicted seconds: low, median, high.
type PredictionFields = (String, &'static str, (f64, f64, f64));

/// Measures this machine and the disk of a folder.
#[pyfunction]
pub(crate) fn calibrate_machine(
    py: Python<'_>,
    folder: PathBuf,
    bytes: u64,
    repeats: u32,
) -> Result<String> {
    let wanted = CalibrationOptions {
        folder,
        bytes,
        repeats,
    };
    interruptible(
        py,
        u64::MAX,
        || Ok(calibrate(&wanted, |_, _| {})?.to_json()),
    )
}

/// Cores available to this process, by its affinity and the quota of its control group.
#[pyfunction]
pub(crate) fn available_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Name of the processor; None if unknown.
#[pyfunction]
pub(crate) fn processor_name() -> Option<String> {
    isochrony_system::machine::processor_name()
}

/// Whether a process of this machine has this number, which is text.
#[pyfunction]
pub(crate) fn is_process_running(pid: &str) -> bool {
    pid.parse()
        .is_ok_and(|pid| pid > 0 && isochrony_system::process::is_running(pid))
}

/// Path of this user's profile.
#[pyfunction]
pub(crate) fn machine_profile_path() -> Option<PathBuf> {
    Profile::path()
}

fn parse(text: &str, from: &Path) -> Result<Profile> {
    let bad = |why: serde_json::Error| StoreError::BadProfile {
        path: from.to_owned(),
        reason: why.to_string(),
    };
    Ok(serde_json::from_str(text).map_err(bad)?)
}

fn place(path: Option<PathBuf>) -> Result<PathBuf> {
    path.or_else(Profile::path).ok_or_else(|| {
        let message = "there is no folder for settings: neither XDG_CONFIG_HOME nor HOME is set; set one of them, or give a file";
        PackageError::new("StoreValueError", "bad_profile", message.into()).into()
    })
}

/// Saves a profile, merged with other disks of the saved one; returns its path.
#[pyfunction]
#[pyo3(signature = (text, path=None))]
pub(crate) fn save_machine_profile(text: &str, path: Option<PathBuf>) -> Result<PathBuf> {
    let path = place(path)?;
    let earlier = Profile::load(&path).ok().flatten();
    parse(text, &path)?
        .with_others_of(earlier)
        .save(&path)
        .map_err(StoreError::from)?;
    Ok(path)
}

/// The saved profile, if any.
#[pyfunction]
#[pyo3(signature = (path=None))]
pub(crate) fn load_machine_profile(path: Option<PathBuf>) -> Result<Option<String>> {
    let found = Profile::load(&place(path)?).map_err(StoreError::from)?;
    Ok(found.map(|profile| profile.to_json()))
}

/// Predicted seconds to read and summarise bytes of a type, per strategy, on the last measured disk.
#[pyfunction]
pub(crate) fn predict_scan(text: &str, bytes: f64, dtype: &str) -> Result<Vec<PredictionFields>> {
    let profile = parse(text, Path::new("given"))?;
    let (dtype, _) = DType::parse(dtype)?;
    let mut all = Vec::new();
    if let Some(volume) = profile.volumes.first() {
        for strategy in isochrony_store::Strategy::ALL {
            let states = [
                (CacheState::Cold, "cold"),
                (CacheState::Cached, "cached"),
                (CacheState::Mapped, "mapped"),
            ];
            for (state, name) in states {
                if let Some(Quartiles { low, median, high }) =
                    volume.predict(strategy, state, bytes, dtype)
                {
                    all.push((strategy.name().to_owned(), name, (low, median, high)));
                }
            }
        }
    }
    Ok(all)
}
