//! Verifies one signal after the other, also beside an active writer.
//!
//! A finding may be a writer's change in progress. It is checked again with the refreshed state until it disappears,
//! recurs while the signal is unchanged, or recurs in every round although the signal changes.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    Finding, Report, Subject, VerifyOptions, from_error, losses, metadata, samples, table_path,
    tables, views,
};
use crate::engine::identity::{self, is_of};
use crate::engine::io::IoContext;
use crate::engine::lost_commits::{LogState, LostCommit, PendingReplay, WriterStatus};
use crate::engine::manifest::is_store;
use crate::engine::vanished;
use crate::error::StoreError;
use crate::layout::{ENGINE, signal_folder, staged};
use crate::media::{Kind, Media, limits};
use crate::names::Pattern;
use crate::op::SignalId;
use crate::options::Mode;
use crate::signal::Signal;
use crate::state::SignalState;
use crate::store::Store;

/// How long a finding must persist beside an idle writer: longer than publishing takes.
const CONFIRM_TIME: Duration = Duration::from_secs(3);

const MAX_ROUNDS: usize = 12;

const ROUND_INTERVAL: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct VerifyPass {
    pub(super) writer: WriterStatus,
    pub(super) base: BTreeMap<SignalId, i64>,
    named: BTreeMap<SignalId, Vec<String>>,
    pending_replay: BTreeMap<SignalId, PendingReplay>,
    lost: Vec<LostCommit>,
}

impl VerifyPass {
    pub(super) const fn settled() -> Self {
        Self {
            writer: WriterStatus::Closed,
            base: BTreeMap::new(),
            named: BTreeMap::new(),
            pending_replay: BTreeMap::new(),
            lost: Vec::new(),
        }
    }

    const fn unknown() -> Self {
        Self {
            writer: WriterStatus::Alive,
            base: BTreeMap::new(),
            named: BTreeMap::new(),
            pending_replay: BTreeMap::new(),
            lost: Vec::new(),
        }
    }

    fn now(store: &Store) -> Result<Self, StoreError> {
        let backend = &store.shared().backend;
        if backend.is_writable() {
            return Ok(Self::unknown());
        }
        let media = backend.media();
        let began = Instant::now();
        loop {
            match LogState::read(&*media, store.path()) {
                Ok(log) => {
                    return Ok(Self {
                        writer: log.writer,
                        base: log.base,
                        named: log.named,
                        pending_replay: log.pending_replay,
                        lost: log.lost,
                    });
                }
                // A checkpoint replaced the log during the read.
                Err(_) if began.elapsed() < CONFIRM_TIME && store.is_written()? => {
                    std::thread::sleep(ROUND_INTERVAL / 10);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Store {
    /// Looks for damage and changes nothing, also beside an active writer.
    ///
    /// # Errors
    /// [`StoreError::InvalidPattern`], [`StoreError::Closed`], [`StoreError::StoreVanished`]. Damage is in the report.
    pub fn verify(&self, options: &VerifyOptions) -> Result<Report, StoreError> {
        let report = if self.is_writable() {
            self.verify_as(options, None)
        } else {
            self.uuid()?;
            // Refreshing must not change what this handle shows.
            let media = self.shared().backend.media();
            Self::open_on(self.path(), Mode::Read, media)
                .and_then(|own| own.verify_as(options, None))
        };
        // If the store itself is gone, missing files are not damage.
        vanished::check(&*self.shared().backend.media(), self.path(), "verify")?;
        report
    }

    pub(super) fn verify_settled(&self, options: &VerifyOptions) -> Result<Report, StoreError> {
        let report = self.verify_as(options, Some(&VerifyPass::settled()))?;
        vanished::check(&*self.shared().backend.media(), self.path(), "verify")?;
        Ok(report)
    }

    fn verify_as(
        &self,
        options: &VerifyOptions,
        settled: Option<&VerifyPass>,
    ) -> Result<Report, StoreError> {
        let pattern = options.signals.as_deref().map(Pattern::new).transpose()?;
        let backend = &self.shared().backend;
        let mut report = Report::default();
        let first = match settled {
            Some(_) => VerifyPass::settled(),
            None => match VerifyPass::now(self) {
                Ok(round) => round,
                Err(error) => {
                    report
                        .findings
                        .push(from_error(&error, self.path().to_path_buf(), None));
                    return Ok(report);
                }
            },
        };
        for (id, name) in backend.catalogue()? {
            let fits = |name: &str| pattern.as_ref().is_none_or(|pattern| pattern.matches(name));
            if !fits(&name) {
                continue;
            }
            report.signals += 1;
            if let Some(commit) = first.lost.iter().find(|lost| lost.id == id) {
                losses::add(self, commit, &mut report);
                continue;
            }
            let whole = |earlier: Option<&Report>, round: &VerifyPass| {
                let mut part = Report::default();
                self.verify_signal_or_report(id, &name, options, earlier, round, &mut part)?;
                Ok(part)
            };
            self.confirm(settled, &first, Some(id), &mut report, whole)?;
        }
        if pattern.is_none() {
            for commit in first.lost.iter().filter(|lost| lost.signal.is_empty()) {
                losses::add(self, commit, &mut report);
            }
            self.confirm(settled, &first, None, &mut report, |_, round| {
                let mut part = Report::default();
                self.verify_unowned(round, &mut part)?;
                Ok(part)
            })?;
        }
        Ok(report)
    }

    /// Repeats on affected samples until each finding is certain.
    fn confirm(
        &self,
        settled: Option<&VerifyPass>,
        first: &VerifyPass,
        id: Option<SignalId>,
        report: &mut Report,
        look: impl Fn(Option<&Report>, &VerifyPass) -> Result<Report, StoreError>,
    ) -> Result<(), StoreError> {
        if let Some(round) = settled {
            report.add(look(None, round)?);
            return Ok(());
        }
        let backend = &self.shared().backend;
        let mut found: Option<Report> = None;
        let mut still_since = Instant::now();
        for count in 0..MAX_ROUNDS {
            let fresh = match count {
                0 => None,
                _ => Some(VerifyPass::now(self).unwrap_or_else(|_| VerifyPass::unknown())),
            };
            let round = fresh.as_ref().unwrap_or(first);
            let before = self.version(id);
            let part = look(found.as_ref(), round)?;
            found = Some(match found {
                None => part,
                Some(earlier) => earlier.kept_by(&part),
            });
            if found.as_ref().is_none_or(Report::is_clean) {
                break;
            }
            backend.refresh()?;
            let after = self.version(id);
            if id.is_some() && after.is_none() {
                // Removed or overwritten: another signal has the name.
                found = None;
                break;
            }
            let still = match (before, after) {
                (Some(before), Some(after)) => before.is(&after),
                _ => true,
            };
            // From the second round on it is known whether a writer came since the first.
            if still && round.writer != WriterStatus::Alive && count > 0 {
                break;
            }
            if !still {
                still_since = Instant::now();
            } else if still_since.elapsed() > CONFIRM_TIME || backend.is_writable() {
                break;
            }
            crate::interrupt::check("verify")?;
            if round.writer == WriterStatus::Alive {
                std::thread::sleep(ROUND_INTERVAL);
            }
        }
        if let Some(found) = found {
            report.add(found);
        }
        Ok(())
    }

    fn version(&self, id: Option<SignalId>) -> Option<Version> {
        let backend = &self.shared().backend;
        let Some(id) = id else {
            return Some(Version::Store(backend.sequence().ok()?));
        };
        match backend.state(id) {
            Ok(state) => Some(Version::Signal(state, backend.signal_path(id).ok()?)),
            Err(StoreError::SignalRemoved { .. }) => None,
            // A signal that cannot be loaded counts as unchanged.
            Err(_) => Some(Version::Store(backend.sequence().ok()?)),
        }
    }

    fn verify_signal_or_report(
        &self,
        id: SignalId,
        name: &str,
        options: &VerifyOptions,
        earlier: Option<&Report>,
        round: &VerifyPass,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let backend = &self.shared().backend;
        if self.is_on_its_way(id, round) {
            return Ok(());
        }
        match self.verify_signal(id, options, earlier, round, report) {
            Ok(()) => Ok(()),
            Err(
                error @ (StoreError::Interrupted { .. }
                | StoreError::Closed { .. }
                | StoreError::StoreVanished { .. }),
            ) => Err(error),
            Err(StoreError::DamagedFile { path, .. }) if path.ends_with(".signal") => {
                report.findings.push(damaged_identity(path, name));
                Ok(())
            }
            Err(error) => {
                let folder = backend
                    .signal_path(id)
                    .unwrap_or_else(|_| self.path().join(name));
                let path = match &error {
                    StoreError::DamagedTable { table, .. } => table_path(&folder, table),
                    _ => folder,
                };
                report.findings.push(from_error(&error, path, Some(name)));
                Ok(())
            }
        }
    }

    /// Whether a killed writer left the folder between two places.
    fn is_on_its_way(&self, id: SignalId, round: &VerifyPass) -> bool {
        let (media, root) = (self.shared().backend.media(), self.path());
        let is_at = |folder: &Path| is_of(&*media, folder, id);
        let place = self.shared().backend.signal_path(id);
        if round.writer != WriterStatus::Crashed {
            return false;
        }
        if place.is_ok_and(|place| is_at(&place)) {
            return false;
        }
        let mut names = round.named.get(&id).into_iter().flatten();
        is_at(&staged(root, id)) || names.any(|name| is_at(&signal_folder(root, name)))
    }

    fn verify_signal(
        &self,
        id: SignalId,
        options: &VerifyOptions,
        earlier: Option<&Report>,
        round: &VerifyPass,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let shared = self.shared();
        let signal = Signal::load(shared, id)?;
        let before = report.findings.len();
        let mut subject = Subject {
            backend: &shared.backend,
            media: shared.backend.media(),
            state: Arc::clone(signal.state()),
            folder: shared.backend.signal_path(id)?,
            signal,
            round,
            report,
        };
        // A reader finds the folder by identity; a writer, by name.
        let damaged = identity::damaged(&*subject.media, &subject.folder, id);
        if let Some(path) = damaged.filter(|_| round.writer == WriterStatus::Closed) {
            let finding = damaged_identity(path, &subject.state.name);
            subject.report.findings.push(finding);
        }
        if !tables::tables(&mut subject)? || !tables::contents(&mut subject)? {
            // With unknown gaps, gap samples would be checked and get checksums.
            return Ok(());
        }
        // They are in `tmp/` until the next opening for writing.
        let waits = round
            .pending_replay
            .get(&id)
            .is_some_and(|pending_replay| pending_replay.data);
        if !waits {
            metadata::signal(&mut subject)?;
            samples::shards(&mut subject)?;
        }
        let only: Option<Vec<Range<i64>>> = earlier.map(|earlier| earlier.ranges().collect());
        if options.deep && only.as_ref().is_none_or(|only| !only.is_empty()) {
            samples::checksums(&mut subject, only.as_deref())?;
        }
        if let Some(pending_replay) = round.pending_replay.get(&id) {
            drop_findings_in_log(&mut subject, pending_replay, before);
        }
        // Views also differ from lost or changed samples; rebuilding them would hide that.
        let sound = !subject.report.findings[before..]
            .iter()
            .any(|finding| finding.range.is_some());
        let folder = subject.folder.join(crate::views::files::FOLDER);
        let doubted = earlier.is_none_or(|earlier| {
            let mut findings = earlier.findings.iter();
            findings.any(|finding| finding.path.starts_with(&folder))
        });
        if sound && !waits {
            views::views(&mut subject, &shared.views, options.deep && doubted)
        } else {
            Ok(())
        }
    }

    /// Groups, and folders like signals that are in no commit.
    fn verify_unowned(&self, round: &VerifyPass, report: &mut Report) -> Result<(), StoreError> {
        let backend = &self.shared().backend;
        let media = &*backend.media();
        let mut folders = Vec::new();
        for (id, _) in backend.catalogue()? {
            folders.push(backend.signal_path(id)?);
        }
        metadata::groups(self, media, &folders, round.writer, report)?;
        let orphans = self.orphans(media, folders.into_iter().collect(), round, report);
        backend.explain("verify", orphans)
    }

    fn orphans(
        &self,
        media: &dyn Media,
        known: HashSet<PathBuf>,
        round: &VerifyPass,
        report: &mut Report,
    ) -> Result<(), StoreError> {
        let root = self.path().to_path_buf();
        let mut open = vec![root.clone()];
        while let Some(folder) = open.pop() {
            let names = match media.list(&folder) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder != root => {
                    continue;
                }
                names => match names.at("list", &folder) {
                    Ok(names) => names,
                    Err(error) if folder == root => return Err(error),
                    Err(error) => {
                        report.findings.push(from_error(&error, folder, None));
                        continue;
                    }
                },
            };
            for name in names {
                let path = folder.join(&name);
                if name == ENGINE
                    || known.contains(&path)
                    || !matches!(media.stat(&path), Ok(Some(Kind::Folder)))
                {
                    continue;
                }
                let identity = identity::read(media, &path).ok().flatten();
                if round.writer == WriterStatus::Crashed
                    && identity.is_some_and(|id| round.named.contains_key(&id))
                {
                    // From a killed writer; the next opening for writing moves it.
                    continue;
                }
                let looks = identity.is_some()
                    || media
                        .read(&path.join("zarr.json"), limits::METADATA)
                        .ok()
                        .flatten()
                        .is_some_and(|bytes| metadata::is_signal(&bytes));
                let nested = is_store(media, &path).unwrap_or_else(|error| {
                    // A bad MANIFEST must not end the verification.
                    let finding = from_error(&error, path.clone(), None);
                    report.findings.push(finding);
                    false
                });
                let (code, what, mend) = if nested {
                    (
                        "nested_store",
                        format!("{} is another store inside this one", path.display()),
                        "move it away: it is neither verified nor shown with this one",
                    )
                } else if looks {
                    (
                        "orphan_signal",
                        format!(
                            "{} looks like a signal, but no commit knows of it",
                            path.display()
                        ),
                        "if it was copied here, import it or copy the whole store; else move it away",
                    )
                } else {
                    open.push(path);
                    continue;
                };
                let signal = path.strip_prefix(&root).ok();
                report.findings.push(Finding {
                    code,
                    signal: signal
                        .filter(|_| code == "orphan_signal")
                        .map(|name| name.display().to_string()),
                    range: None,
                    civil: None,
                    what,
                    mend: mend.into(),
                    repairable: false,
                    path,
                });
            }
        }
        Ok(())
    }
}

/// The next opening for writing writes samples in the log to their files.
fn drop_findings_in_log(subject: &mut Subject<'_>, pending_replay: &PendingReplay, before: usize) {
    let state = Arc::clone(&subject.state);
    let per_shard = subject.backend.shard_samples(state.id).unwrap_or(1).max(1);
    let found = subject.report.findings.split_off(before);
    let is_held = |finding: &Finding| {
        let Some(range) = &finding.range else {
            return false;
        };
        let mut shards = range.start / per_shard..=(range.end - 1) / per_shard;
        match finding.code {
            // Samples are read from the replacement, so findings on bytes apply to that.
            "missing_shard" | "truncated_shard" | "damaged_index"
                if shards.all(|shard| pending_replay.shards.contains(&shard.cast_unsigned())) =>
            {
                true
            }
            "missing_shard" | "truncated_shard" | "damaged_index" => {
                // Only gaps and samples in the log.
                let mut elsewhere = pending_replay.samples.clone();
                let gaps = state.gaps.within(range.clone());
                gaps.for_each(|gap| elsewhere.set_gap(gap.range()));
                elsewhere.missing_within(range.clone()) == range.end - range.start
            }
            "unreadable_chunk" | "flipped_bits" | "missing_checksum" => {
                pending_replay.samples.missing_within(range.clone()) > 0
            }
            _ => false,
        }
    };
    let stays = found.into_iter().filter(|finding| !is_held(finding));
    subject.report.findings.extend(stays);
}

enum Version {
    Store(u64),
    Signal(Arc<SignalState>, PathBuf),
}

impl Version {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Store(a), Self::Store(b)) => a == b,
            (Self::Signal(a, at), Self::Signal(b, to)) => {
                (Arc::ptr_eq(a, b) || (a.seq, a.end) == (b.seq, b.end)) && at == to
            }
            _ => false,
        }
    }
}

impl Report {
    fn add(&mut self, other: Self) {
        self.findings.extend(other.findings);
        self.bytes += other.bytes;
        self.unchecked += other.unchecked;
    }

    fn ranges(&self) -> impl Iterator<Item = Range<i64>> + '_ {
        self.findings
            .iter()
            .filter_map(|finding| finding.range.clone())
    }

    fn kept_by(self, later: &Self) -> Self {
        let again = |finding: &Finding| {
            let earlier = self
                .findings
                .iter()
                .find(|earlier| (earlier.code, &earlier.path) == (finding.code, &finding.path));
            earlier.is_some_and(|earlier| match (&earlier.range, &finding.range) {
                (Some(a), Some(b)) => a.start < b.end && b.start < a.end,
                _ => true,
            })
        };
        let findings = later.findings.iter().filter(|finding| again(finding));
        Self {
            findings: findings.cloned().collect(),
            ..self
        }
    }
}

fn damaged_identity(path: PathBuf, signal: &str) -> Finding {
    Finding {
        code: "damaged_identity",
        signal: Some(signal.into()),
        range: None,
        civil: None,
        what: format!("{} does not state the signal of its folder", path.display()),
        mend: "`--repair` writes it again: tables and shards state which signal they belong to"
            .into(),
        repairable: true,
        path,
    }
}
