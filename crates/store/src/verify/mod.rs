//! Looking for damage, and mending what can be mended without guessing.
//!
//! Everything a store's files say is compared with what commits say they must: shards with the gaps and the end of their
//! signal, inner chunks with their checksums (`deep`), `zarr.json` with what the engine would write, views with the
//! samples (`deep`). A [`Finding`] names the file, the samples concerned, and what to do.
//!
//! [`Store::repair`] rebuilds what follows from other files (metadata, views, missing checksums, a shard's index) and
//! turns samples that no longer exist into gaps, with an event that says so. It never changes a sample: where a
//! checksum does not match, only a copy of the file helps.

pub(crate) mod metadata;
mod repair;
mod samples;
mod tables;
mod views;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use isochrony_time::Fixed;

use crate::backend::Backend;
use crate::engine::io::IoContext;
use crate::engine::open::is_store;
use crate::engine::{rebuild, table_files, vanished};
use crate::error::StoreError;
use crate::layout::{ENGINE, IDENTITY, manifest_file, parse_identity};
use crate::media::{Kind, Media};
use crate::names::Pattern;
use crate::op::SignalId;
use crate::options::Mode;
use crate::signal::Signal;
use crate::state::SignalState;
use crate::store::Store;

pub use repair::repair;

/// What to look at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyOptions {
    /// Only signals whose names fit this [`Pattern`]; `None`: all, and the store itself.
    pub signals: Option<String>,
    /// Read every sample: checksums of all chunks, views against samples. Takes as long as reading the store.
    pub deep: bool,
}

/// Something that is not as it must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Kind of damage, stable, in `snake_case`; listed in section 8 of `docs/design.md`.
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
            let path = path.as_ref();
            let finding = match (manifest(&*crate::media::disk(), path)?, error) {
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
        StoreError::Io { path, .. } => (
            path.clone(),
            "make it readable, or restore it from a copy, and verify again: nothing is known of what is in it",
        ),
        StoreError::DamagedFile { path, .. } | StoreError::Undecodable { path, .. } => (
            path.clone(),
            "restore the file from a copy; nothing else holds what it said",
        ),
        StoreError::MissingTable { path, .. } => (path.clone(), tables::MEND),
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

impl Store {
    /// Looks for damage. Nothing is changed; a store that is being written may be looked at, too.
    ///
    /// # Errors
    /// [`StoreError::InvalidPattern`], [`StoreError::Closed`], [`StoreError::StoreVanished`]. What is wrong with the
    /// store is in the report.
    pub fn verify(&self, options: &VerifyOptions) -> Result<Report, StoreError> {
        let report = self.look(options)?;
        // Files that are missing because the store is gone are no damage, and not to be repaired.
        vanished::check(&*self.shared().backend.media(), self.path(), "verify")?;
        Ok(report)
    }

    fn look(&self, options: &VerifyOptions) -> Result<Report, StoreError> {
        let pattern = options.signals.as_deref().map(Pattern::new).transpose()?;
        let shared = self.shared();
        let backend = &shared.backend;
        let media = backend.media();
        let mut report = Report::default();
        for (id, name) in backend.catalogue()? {
            if pattern
                .as_ref()
                .is_some_and(|pattern| !pattern.matches(&name))
            {
                continue;
            }
            report.signals += 1;
            if let Err(error) = self.verify_signal(id, options, Arc::clone(&media), &mut report) {
                let folder = backend
                    .signal_path(id)
                    .unwrap_or_else(|_| self.path().join(&name));
                let path = match &error {
                    StoreError::DamagedTable { table, .. } => table_path(&folder, table),
                    _ => folder,
                };
                report.findings.push(from_error(&error, path, Some(&name)));
            }
        }
        if pattern.is_none() {
            metadata::store(self, &*media, &mut report);
            let orphans = self.orphans(&*media, &mut report);
            shared.backend.explain("verify", orphans)?;
        }
        Ok(report)
    }

    fn verify_signal(
        &self,
        id: SignalId,
        options: &VerifyOptions,
        media: Arc<dyn Media>,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let shared = self.shared();
        let signal = Signal::load(shared, id)?;
        let before = report.findings.len();
        let mut subject = Subject {
            backend: &shared.backend,
            media,
            state: Arc::clone(signal.state()),
            folder: shared.backend.signal_path(id)?,
            signal,
            report,
        };
        metadata::signal(&mut subject)?;
        if !tables::tables(&mut subject)? {
            // Samples in gaps that are not known any more would be judged, and their checksums recorded.
            return Ok(());
        }
        samples::shards(&mut subject)?;
        if options.deep {
            samples::checksums(&mut subject)?;
        }
        // Views of samples that are lost or not what they were would differ, too; rebuilding them would hide that.
        let sound = !subject.report.findings[before..]
            .iter()
            .any(|finding| finding.range.is_some());
        if sound {
            views::views(&mut subject, &shared.views, options.deep)
        } else {
            Ok(())
        }
    }

    /// Folders that look like signals but that no commit knows.
    fn orphans(&self, media: &dyn Media, report: &mut Report) -> Result<(), StoreError> {
        let backend = &self.shared().backend;
        let mut known = std::collections::HashSet::new();
        for (id, _) in backend.catalogue()? {
            known.insert(backend.signal_path(id)?);
        }
        let root = std::path::absolute(self.path()).at("look at", self.path())?;
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            for name in media.list(&folder).at("list", &folder)? {
                let path = folder.join(&name);
                if name == ENGINE
                    || known.contains(&path)
                    || !matches!(media.stat(&path), Ok(Some(Kind::Folder)))
                {
                    continue;
                }
                let identity = media.read(&path.join(IDENTITY)).ok().flatten();
                let looks = identity.as_deref().and_then(parse_identity).is_some()
                    || media
                        .read(&path.join("zarr.json"))
                        .ok()
                        .flatten()
                        .is_some_and(|bytes| metadata::is_signal(&bytes));
                if is_store(media, &path)? {
                    report.findings.push(Finding {
                        code: "nested_store",
                        signal: None,
                        range: None,
                        civil: None,
                        what: format!("{} is another store inside this one", path.display()),
                        mend: "move it away: it is neither verified nor shown with this one".into(),
                        repairable: false,
                        path,
                    });
                } else if looks {
                    report.findings.push(Finding {
                        code: "orphan_signal",
                        signal: path.strip_prefix(&root).ok().map(|name| name.display().to_string()),
                        range: None,
                        civil: None,
                        what: format!("{} looks like a signal, but no commit knows of it", path.display()),
                        mend: "if it was copied here, import it or copy the whole store; else move it away".into(),
                        repairable: false,
                        path,
                    });
                } else {
                    open.push(path);
                }
            }
        }
        Ok(())
    }
}

fn table_path(folder: &Path, table: &str) -> PathBuf {
    let file = table_files().into_iter().find(|(name, _)| *name == table);
    file.map_or_else(|| folder.join(table), |(_, file)| folder.join(file))
}
