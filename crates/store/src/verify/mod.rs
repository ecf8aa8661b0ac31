//! Verification: finds damage, and repairs it where that needs no guessing.
//!
//! Files are compared with what commits require: shards with the signal's gaps and end, inner chunks with checksums
//! (`deep`), `zarr.json` with what the engine would write, views with samples (`deep`).
//!
//! [`Store::repair`] rebuilds what other files determine (metadata, views, missing checksums, a shard's index) and
//! turns lost samples into gaps, with an event. It never changes a sample: a wrong checksum needs a copy of the file.

mod losses;
pub(crate) mod metadata;
mod repair;
mod repair_notes;
mod replaced_metadata;
mod rounds;
mod samples;
pub(crate) mod tables;
mod views;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_time::Fixed;

use crate::backend::Backend;
use crate::engine::{of_existing, rebuild, table_files};
use crate::error::StoreError;
use crate::layout::manifest_file;
use crate::media::Media;
use crate::options::Mode;
use crate::signal::Signal;
use crate::state::SignalState;
use crate::store::Store;

pub use losses::Loss;
pub use repair::{repair, repair_on};
use rounds::VerifyPass;

/// Scope of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyOptions {
    /// Only signals of this [`Pattern`](crate::Pattern); `None`: all, and the store itself.
    pub signals: Option<String>,
    /// Read every sample: checksums of all chunks, views against samples.
    pub deep: bool,
}

/// A deviation from the required state.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Stable `snake_case` code; see `docs/design/verification.md`.
    pub code: &'static str,
    /// Affected file or folder.
    pub path: PathBuf,
    /// Affected signal, if one.
    pub signal: Option<String>,
    /// Affected samples.
    pub range: Option<Range<i64>>,
    /// Civil times of start and end, if known.
    pub civil: Option<(Fixed, Fixed)>,
    /// Got and expected.
    pub what: String,
    /// Remedy.
    pub mend: String,
    /// Whether [`Store::repair`] fixes it.
    pub repairable: bool,
}

/// Result of a verification.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Damage by signal.
    pub findings: Vec<Finding>,
    /// Number of signals verified.
    pub signals: usize,
    /// Bytes of samples compared with a checksum.
    pub bytes: u64,
    /// Samples read without a checksum, such as those since the last checkpoint, which closing makes.
    pub unchecked: u64,
    /// Samples that became gaps: no file holds them.
    pub lost: Vec<Loss>,
}

impl Report {
    /// Whether there are no findings.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Verifies the store at `path`, or reports why it does not open.
///
/// # Errors
/// [`StoreError::NotAStore`], [`StoreError::InvalidPattern`].
pub fn verify(path: impl AsRef<Path>, options: &VerifyOptions) -> Result<Report, StoreError> {
    match Store::open(&path, Mode::Read) {
        Ok(store) => store.verify(options),
        Err(error) => {
            if matches!(error, StoreError::Remote { .. }) {
                return Err(error);
            }
            let path = &crate::media::absolute(path.as_ref())?;
            let media = crate::media::media_of(path)?.rooted(path);
            let finding = match (manifest(&*media, path)?, error) {
                (Some(finding), _) => finding,
                (None, error @ StoreError::NotAStore { .. }) => return Err(of_existing(error)),
                (None, error) => from_error(&error, path.to_path_buf(), None),
            };
            Ok(Report {
                findings: vec![finding],
                ..Report::default()
            })
        }
    }
}

fn manifest(media: &dyn Media, root: &Path) -> Result<Option<Finding>, StoreError> {
    let Some(reason) = rebuild::damage(media, root)? else {
        return Ok(None);
    };
    let path = manifest_file(root);
    let repairable = rebuild::find(media, root)?.is_some();
    let mend = if repairable {
        "`--repair` writes it again from the redo log"
    } else {
        "restore .isochrony from a copy of the store; the redo logs do not determine its contents"
    };
    Ok(Some(Finding {
        code: "damaged_manifest",
        signal: None,
        range: None,
        civil: None,
        what: format!("{} cannot be read: {reason}", path.display()),
        mend: mend.into(),
        repairable,
        path,
    }))
}

fn from_error(error: &StoreError, path: PathBuf, signal: Option<&str>) -> Finding {
    let (path, mend) = match error {
        StoreError::NewerFormat { path, .. } => {
            (path.clone(), "update isochrony; nothing was changed")
        }
        StoreError::Io { path, .. } | StoreError::Remote { path, .. } => (
            path.clone(),
            "make it readable, or restore it from a copy, and verify again: its contents could not be checked",
        ),
        StoreError::UnexpectedFile { path, .. } => (
            path.clone(),
            "move it away and restore the original from a copy; its contents could not be checked",
        ),
        StoreError::DamagedFile { path, .. }
        | StoreError::OversizedFile { path, .. }
        | StoreError::Undecodable { path, .. } => (
            path.clone(),
            "restore the file from a copy; no other file has its contents",
        ),
        StoreError::MissingTable { path, .. } | StoreError::WrongTable { path, .. } => {
            (path.clone(), tables::REMEDY)
        }
        StoreError::LostCommit { path, .. } => (path.clone(), losses::REMEDY),
        StoreError::MissingFolder { path, .. } => (
            path.clone(),
            "copy it back from another copy of the store; no other file has its contents",
        ),
        StoreError::DamagedTable { .. } => (
            path,
            "restore the table's file from a copy; which samples are valid cannot be told without it",
        ),
        _ => (path, "see the message"),
    };
    Finding {
        code: match error {
            StoreError::DamagedTable { .. } => "impossible_table",
            other => other.code(),
        },
        path,
        signal: signal.map(str::to_owned),
        range: None,
        civil: None,
        what: error.to_string(),
        mend: mend.to_owned(),
        repairable: false,
    }
}

struct Subject<'a> {
    backend: &'a Backend,
    media: Arc<dyn Media>,
    signal: Signal,
    state: Arc<SignalState>,
    folder: PathBuf,
    round: &'a VerifyPass,
    report: &'a mut Report,
}

impl Subject<'_> {
    fn add(
        &mut self,
        code: &'static str,
        path: PathBuf,
        range: Option<Range<i64>>,
        what: String,
        mend: &str,
        repairable: bool,
    ) {
        let civil = range.as_ref().and_then(|range| self.civil(range));
        self.report.findings.push(Finding {
            code,
            path,
            signal: Some(self.state.name.to_string()),
            range,
            civil,
            what,
            mend: mend.to_owned(),
            repairable,
        });
    }

    fn add_untimed(
        &mut self,
        code: &'static str,
        (path, range): (PathBuf, Option<Range<i64>>),
        what: String,
        mend: &str,
    ) {
        self.report.findings.push(Finding {
            code,
            path,
            signal: Some(self.state.name.to_string()),
            range,
            civil: None,
            what,
            mend: mend.to_owned(),
            repairable: false,
        });
    }

    fn civil(&self, range: &Range<i64>) -> Option<(Fixed, Fixed)> {
        if range.is_empty() {
            return None;
        }
        let start = self.signal.time_of(range.start).ok()?.value;
        Some((start, self.signal.end_of_sample(range.end - 1).ok()?))
    }

    fn fail(&mut self, error: &StoreError) {
        let finding = from_error(error, self.folder.clone(), Some(&self.state.name));
        self.report.findings.push(finding);
    }
}

fn table_path(folder: &Path, table: &str) -> PathBuf {
    let file = table_files().into_iter().find(|(name, _)| *name == table);
    file.map_or_else(|| folder.join(table), |(_, file)| folder.join(file))
}
