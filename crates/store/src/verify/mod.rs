//! Looking for damage, and mending what can be mended without guessing.
//!
//! Everything a store's files say is compared with what commits say they must: shards with the gaps and the end of their
//! signal, inner chunks with their checksums (`deep`), `zarr.json` with what the engine would write, views with the
//! samples (`deep`). A [`Finding`] names the file, the samples concerned, and what to do.
//!
//! [`Store::repair`] rebuilds what follows from other files (metadata, views, missing checksums, a shard's index) and
//! turns samples that no longer exist into gaps, with an event that says so. It never changes a sample: where a
//! checksum does not match, only a copy of the file helps.

mod kept_metadata;
mod lost;
pub(crate) mod metadata;
mod note;
mod repair;
mod rounds;
mod samples;
pub(crate) mod tables;
mod views;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_time::Fixed;

use crate::backend::Backend;
use crate::engine::{rebuild, table_files};
use crate::error::StoreError;
use crate::layout::manifest_file;
use crate::media::Media;
use crate::options::Mode;
use crate::signal::Signal;
use crate::state::SignalState;
use crate::store::Store;

pub use lost::Loss;
pub use repair::{repair, repair_on};
use rounds::VerifyPass;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyOptions {
    /// Only signals whose names fit this [`Pattern`](crate::Pattern); `None`: all, and the store itself.
    pub signals: Option<String>,
    /// Read every sample: checksums of all chunks, views against samples. Takes as long as reading the store.
    pub deep: bool,
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Kind of damage, stable, in `snake_case`; listed in `docs/design/verification.md`.
    pub code: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The signal, if it is about one.
    pub signal: Option<String>,
    /// Samples concerned.
    pub range: Option<Range<i64>>,
    /// Civil times of the first of them and of the end of the last, if known.
    pub civil: Option<(Fixed, Fixed)>,
    /// What is wrong, with got and expected.
    pub what: String,
    /// What can be done about it.
    pub mend: String,
    /// Whether [`Store::repair`] mends it.
    pub repairable: bool,
}

/// What verification found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Damage, signal by signal.
    pub findings: Vec<Finding>,
    /// Signals looked at.
    pub signals: usize,
    /// Bytes of samples that were compared with a checksum.
    pub bytes: u64,
    /// Samples that were read but have no checksum to be compared with, so nobody can tell whether they are as they were
    /// written. Those appended since the last checkpoint are among them; closing a store checkpoints it.
    pub unchecked: u64,
    /// What a repair gave up: samples that became a gap, since nothing holds them any more.
    pub lost: Vec<Loss>,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Verifies the store at `path`, even one that does not open: then the report says why.
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
                (None, error @ StoreError::NotAStore { .. }) => return Err(error),
                (None, error) => from_error(&error, path.to_path_buf(), None),
            };
            Ok(Report {
                findings: vec![finding],
                ..Report::default()
            })
        }
    }
}

/// What is wrong with MANIFEST, which says which log is live.
fn manifest(media: &dyn Media, root: &Path) -> Result<Option<Finding>, StoreError> {
    let Some(reason) = rebuild::damage(media, root)? else {
        return Ok(None);
    };
    let path = manifest_file(root);
    let repairable = rebuild::find(media, root)?.is_some();
    let mend = if repairable {
        "`--repair` writes it anew: the redo log tells what it said"
    } else {
        "restore .isochrony from a copy of the store; the redo logs leave in doubt what it said"
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

/// An error met while looking, as a finding.
fn from_error(error: &StoreError, path: PathBuf, signal: Option<&str>) -> Finding {
    let (path, mend) = match error {
        StoreError::NewerFormat { path, .. } => {
            (path.clone(), "update isochrony; nothing was changed")
        }
        StoreError::Io { path, .. } | StoreError::Remote { path, .. } => (
            path.clone(),
            "make it readable, or restore it from a copy, and verify again: nothing is known of what is in it",
        ),
        StoreError::UnexpectedFile { path, .. } => (
            path.clone(),
            "move it away and restore what was there from a copy; nothing is known of what was in it",
        ),
        StoreError::DamagedFile { path, .. }
        | StoreError::OversizedFile { path, .. }
        | StoreError::Undecodable { path, .. } => (
            path.clone(),
            "restore the file from a copy; nothing else holds what it said",
        ),
        StoreError::MissingTable { path, .. } | StoreError::WrongTable { path, .. } => {
            (path.clone(), tables::MEND)
        }
        StoreError::LostCommit { path, .. } => (path.clone(), lost::MEND),
        StoreError::MissingFolder { path, .. } => (
            path.clone(),
            "copy it back from another copy of the store; nothing else holds what was in it",
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

/// One signal under examination.
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

    /// A finding without civil times, where they cannot be trusted.
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
