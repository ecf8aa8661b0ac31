//! The machine profile: JSON in the user's configuration folder.

use std::path::{Path, PathBuf};

use isochrony_system::{machine, memory};
use serde::{Deserialize, Serialize};

use super::disk_costs::DiskCosts;
use super::quartiles::Quartiles;
use crate::error::{ErrorContext, IoError};

/// Properties that determine a machine's costs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor name.
    pub cpu: String,
    /// Number of processors.
    pub cores: usize,
    /// Bytes of memory; 0 if unknown.
    pub memory_bytes: u64,
    /// Operating system and version.
    pub kernel: String,
    /// Bytes of a memory page.
    pub page_bytes: usize,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        Self {
            cpu: machine::processor_name().unwrap_or_else(|| std::env::consts::ARCH.into()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory::total_memory().unwrap_or(0),
            kernel: machine::system_version(),
            page_bytes: memory::page_size(),
        }
    }

    /// Whether the other's costs apply here.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.cpu, self.cores, self.page_bytes) == (&other.cpu, other.cores, other.page_bytes)
    }
}

/// Version 2 identifies disks by file system.
pub(super) const FORMAT: u32 = 2;

/// Measured costs of a machine and its disks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Format version: 2.
    pub format: u32,
    /// The machine.
    pub machine: Machine,
    /// Resolution of the clock in seconds.
    pub timer_resolution: f64,
    /// Seconds of a clock reading.
    pub timer_cost: Quartiles,
    /// Seconds of a trivial system call.
    pub system_call: Quartiles,
    /// Memory bandwidth of a core, bytes per second.
    pub memory_bandwidth: Quartiles,
    /// Disks, the latest measured first.
    pub volumes: Vec<DiskCosts>,
}

const FILE: &str = "isochrony/machine.json";

impl Profile {
    /// `$XDG_CONFIG_HOME/isochrony/machine.json`, else below `~/.config`, if set.
    #[must_use]
    pub fn path() -> Option<PathBuf> {
        let folder = |name: &str| {
            let folder = PathBuf::from(std::env::var_os(name)?);
            folder.is_absolute().then_some(folder)
        };
        let settings =
            folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))?;
        Some(settings.join(FILE))
    }

    /// The profile in a file, if it exists.
    ///
    /// # Errors
    /// [`IoError::BadProfile`], or a system error.
    pub fn load(path: &Path) -> Result<Option<Self>, IoError> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_path("read", path),
        };
        let bad = |reason: String| IoError::BadProfile {
            path: path.to_owned(),
            reason,
        };
        let unread = |why: serde_json::Error| bad(why.to_string());
        let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(unread)?;
        // Other formats may differ in everything else.
        match value.get("format") {
            None => {}
            Some(format) if *format == FORMAT => {}
            Some(other) => return Err(bad(format!("its format is {other}, not {FORMAT}"))),
        }
        serde_json::from_value(value).map(Some).map_err(unread)
    }

    /// The profile as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Replaces the file atomically; creates its folders.
    ///
    /// # Errors
    /// A system error.
    pub fn save(&self, path: &Path) -> Result<(), IoError> {
        replace_file(path, &self.to_json())
    }

    /// Adds other disks of an earlier profile.
    #[must_use]
    pub fn with_others_of(mut self, earlier: Option<Self>) -> Self {
        let earlier = earlier.filter(|earlier| earlier.machine.is_like(&self.machine));
        for volume in earlier.into_iter().flat_map(|earlier| earlier.volumes) {
            if self.volumes.len() < 16 && !self.volumes.iter().any(|one| one.disk == volume.disk) {
                self.volumes.push(volume);
            }
        }
        self
    }

    /// The costs of a disk.
    #[must_use]
    pub fn volume(&self, disk: &str) -> Option<&DiskCosts> {
        self.volumes.iter().find(|one| one.disk == disk)
    }
}

pub(super) fn replace_file(path: &Path, text: &str) -> Result<(), IoError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).with_path("make", folder)?;
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    std::fs::write(&part, text).with_path("write", &part)?;
    let renamed = std::fs::rename(&part, path).with_path("replace", path);
    if renamed.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    renamed
}
