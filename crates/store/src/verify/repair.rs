//! Repairs what can be repaired without guessing.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::metadata::ExpectedMetadata;
use super::rounds::VerifyPass;
use super::samples::{self, ChecksumResult, check, check_tail};
use super::{
    Finding, Report, Subject, VerifyOptions, losses, manifest, metadata, repair_notes,
    replaced_metadata,
};
use crate::engine::io::{IoContext, replace_file};
use crate::engine::lost_commits::{self, WriterStatus};
use crate::engine::{of_existing, rebuild};
use crate::error::StoreError;
use crate::layout::flat::Flat;
use crate::layout::mark::{MarkSlots, WriteMark};
use crate::layout::shard::{HeaderBlock, ShardHeader};
use crate::layout::{tmp_folder, zarr};
use crate::media::{Access, Media, Site, limits};
use crate::op::{Op, SAMPLES_LOST, SignalId};
use crate::options::Mode;
use crate::signal::Signal;
use crate::state::SignalState;
use crate::store::Store;

/// Repairs the store at `path`, even if it does not open: rebuilds a damaged or lost MANIFEST from an unambiguous redo
/// log. Gives the reports before and after, with a finding of what still prevents opening.
///
/// # Errors
/// [`StoreError::NotAStore`], [`StoreError::Locked`], [`StoreError::Io`], and as [`Store::repair`].
pub fn repair(
    path: impl AsRef<Path>,
    options: &VerifyOptions,
) -> Result<(Report, Report), StoreError> {
    let path = crate::media::absolute(path.as_ref())?;
    repair_on(&path, options, crate::media::media_of(&path)?)
}

/// Repairs a store on any medium.
///
/// # Errors
/// As [`repair`].
pub fn repair_on(
    path: &Path,
    options: &VerifyOptions,
    around: Arc<dyn Media>,
) -> Result<(Report, Report), StoreError> {
    let path = &crate::media::absolute(path)?;
    if around.is_remote() {
        let (path, action) = (path.clone(), "repair");
        return Err(StoreError::RemoteReadOnly { path, action });
    }
    let media = around.rooted(path);
    let lost = manifest(&*media, path)?;
    if lost.as_ref().is_some_and(|finding| finding.repairable) {
        rebuild::rebuild(&*media, path)?;
    }
    // Opening for writing repairs some damage: look for it before.
    let seen = match lost_commits::writer(&*media, path) {
        Ok(WriterStatus::Closed | WriterStatus::Crashed) => reader_findings(path, options, &around),
        _ => Vec::new(),
    };
    let (mut before, after) = match Store::open_on(path, Mode::ReadWrite, Arc::clone(&around)) {
        Ok(store) => {
            let (before, mut after) = store.repair_unfinished(options)?;
            finish(&store, path, &mut after);
            (before, after)
        }
        // The log must be replayed into a missing file, or lost a commit.
        Err(StoreError::MissingSamples { .. } | StoreError::LostCommit { .. }) => {
            give_up_lost(path, options, around)?
        }
        Err(error) if is_damage(&error) => {
            let report = Report {
                findings: vec![super::from_error(&error, path.clone(), None)],
                ..Report::default()
            };
            (report.clone(), report)
        }
        Err(error) => return Err(of_existing(error)),
    };
    if let Some(finding) = lost.filter(|finding| finding.repairable) {
        before.findings.insert(0, finding);
    }
    for finding in seen {
        let same = |one: &Finding| (one.code, &one.path) == (finding.code, &finding.path);
        if !before.findings.iter().any(same) {
            before.findings.push(finding);
        }
    }
    Ok((before, after))
}

/// Empty if a reader cannot open the store.
fn reader_findings(path: &Path, options: &VerifyOptions, around: &Arc<dyn Media>) -> Vec<Finding> {
    let quick = VerifyOptions {
        signals: options.signals.clone(),
        deep: false,
    };
    let report = Store::open_on(path, Mode::Read, Arc::clone(around));
    let report = report.and_then(|reader| reader.verify(&quick));
    report.map_or_else(|_| Vec::new(), |report| report.findings)
}

fn give_up_lost(
    path: &Path,
    options: &VerifyOptions,
    around: Arc<dyn Media>,
) -> Result<(Report, Report), StoreError> {
    let reader = Store::open_on(path, Mode::Read, Arc::clone(&around))?;
    let before = reader.verify(options)?;
    let media = around.rooted(path);
    let mut known = losses::reported(&reader)?;
    known.must_report_lost_commit |= before.findings.iter().any(losses::is_unnamed);
    let changed = (before.findings.iter())
        .filter(|finding| {
            let code = finding.code;
            matches!(code, "lost_commit" | "missing_shard" | "truncated_shard")
        })
        .filter_map(|finding| reader.id_of(finding.signal.as_deref()?).ok());
    repair_notes::add_stale_sums(&*media, path, changed.map(|id| id.0).collect())?;
    drop(reader);
    repair_notes::replace(&*media, path, &known)?;
    // On a full disk nothing becomes a gap; the next repair starts over.
    let store = Store::open_giving_up_lost(path, around)?;
    let (lost, reported) = (losses::since(&store, &known)?, losses::known(&store)?);
    let mut after = match rest_of_repair(&store, &before, options) {
        Ok(after) => after,
        Err(error) => {
            // The rest is left to the next repair.
            let mut after = Report {
                findings: vec![unfinished(&error, path)],
                lost,
                ..Report::default()
            };
            let rolled_back = store.shared().rollback();
            let closed = store.close();
            let noted = match rolled_back {
                Ok(()) => repair_notes::remove(&*media, path),
                Err(_) => repair_notes::replace(&*media, path, &reported),
            };
            for done in [closed, noted] {
                let failure = done.err();
                after
                    .findings
                    .extend(failure.map(|error| unfinished(&error, path)));
            }
            return Ok((before, after));
        }
    };
    finish(&store, path, &mut after);
    Ok((before, after))
}

fn rest_of_repair(
    store: &Store,
    before: &Report,
    options: &VerifyOptions,
) -> Result<Report, StoreError> {
    let shared = store.shared();
    // Recovery leaves views, which still show what is now a gap. Samples that the log does not mention become gaps
    // below.
    for finding in &before.findings {
        if let ("missing_shard" | "truncated_shard" | "lost_commit", Some(name)) =
            (finding.code, &finding.signal)
            && is_given_up(store, name, finding)?
        {
            shared.views.rebuild(&shared.backend, store.id_of(name)?)?;
        }
    }
    Ok(store.repair_unfinished(options)?.1)
}

fn is_given_up(store: &Store, name: &str, finding: &Finding) -> Result<bool, StoreError> {
    let signal = store.signal(name)?;
    Ok((finding.range.as_ref())
        .is_none_or(|range| signal.gaps().missing_within(range.clone()) == range.end - range.start))
}

fn finish(store: &Store, path: &Path, after: &mut Report) {
    let media = store.shared().backend.media();
    // The note goes last: if killed before, the next repair reports the losses.
    for done in [store.close(), repair_notes::remove(&*media, path)] {
        if let Err(error) = done {
            after.findings.push(unfinished(&error, path));
        }
    }
}

fn unfinished(error: &StoreError, path: &Path) -> Finding {
    Finding {
        mend: "repairs that are reported done are kept; correct this, and run the repair again"
            .into(),
        ..super::from_error(error, path.into(), None)
    }
}

/// Whether its repair turns samples into gaps, or drops the store's attributes.
fn gives_up(finding: &Finding) -> bool {
    let codes = [
        "missing_shard",
        "truncated_shard",
        metadata::ATTRIBUTES_LOST,
    ];
    finding.repairable && codes.contains(&finding.code)
}

/// Whether an error of opening describes the store rather than the attempt.
fn is_damage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::DamagedFile { .. }
            | StoreError::DamagedTable { .. }
            | StoreError::MissingTable { .. }
            | StoreError::WrongTable { .. }
            | StoreError::WrongShard { .. }
            | StoreError::MissingFolder { .. }
            | StoreError::UnexpectedFile { .. }
            | StoreError::OversizedFile { .. }
            | StoreError::LostCommit { .. }
    )
}

impl Store {
    /// Verifies, repairs, commits and verifies again; gives the reports before and after.
    ///
    /// Rebuilds metadata, views, shard indices and missing checksums (also of [`unchecked`](Report::unchecked)
    /// samples). Samples whose file is gone become gaps with an event of kind `samples_lost`, and
    /// [`lost`](Report::lost) of the second report has them. No sample changes.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and errors of commits.
    pub fn repair(&self, options: &VerifyOptions) -> Result<(Report, Report), StoreError> {
        let (before, mut after) = self.repair_unfinished(options)?;
        let media = self.shared().backend.media();
        if let Err(error) = repair_notes::remove(&*media, self.path()) {
            after.findings.push(unfinished(&error, self.path()));
        }
        Ok((before, after))
    }

    fn repair_unfinished(&self, options: &VerifyOptions) -> Result<(Report, Report), StoreError> {
        let engine = self.shared().backend.engine_in_place("repair")?;
        self.commit(true)?;
        engine.publish();
        let known = losses::reported(self)?;
        for id in repair_notes::read_stale_sums(&**engine.media(), self.path())? {
            self.renew_sums_at_gaps(SignalId(id))?;
        }
        self.commit(true)?;
        repair_notes::remove_stale_sums(&**engine.media(), self.path())?;
        let before = self.verify_settled(options)?;
        if before.findings.iter().any(gives_up) {
            let media = self.shared().backend.media();
            repair_notes::write_if_missing(&*media, self.path(), &known)?;
        }
        for finding in before.findings.iter().filter(|finding| finding.repairable) {
            self.mend(finding)?;
        }
        self.commit(true)?;
        // Lost samples are gaps now and are reported in any case.
        let lost = losses::since(self, &known)?;
        let mut after = match self.complete(&before, options) {
            Ok(report) => report,
            Err(error) if lost.is_empty() => return Err(error),
            Err(error) => Report {
                findings: vec![unfinished(&error, self.path())],
                ..Report::default()
            },
        };
        after.lost = lost;
        Ok((before, after))
    }

    fn complete(&self, before: &Report, options: &VerifyOptions) -> Result<Report, StoreError> {
        let engine = self.shared().backend.engine("repair")?;
        // Not earlier: a file of full length would hide that samples are lost.
        for finding in before.findings.iter().filter(|finding| finding.repairable) {
            if finding.code == "truncated_shard" {
                self.lengthen(finding)?;
            }
        }
        engine.sum_tails();
        engine.checkpoint()?;
        self.verify_settled(options)
    }

    fn renew_sums_at_gaps(&self, id: SignalId) -> Result<(), StoreError> {
        let shared = self.shared();
        let engine = shared.backend.engine("repair")?;
        let Ok(signal) = Signal::load(shared, id) else {
            return Ok(());
        };
        let (mut report, round) = (Report::default(), VerifyPass::settled());
        let subject = Subject {
            backend: &shared.backend,
            media: shared.backend.media(),
            state: signal.state().clone(),
            folder: shared.backend.signal_path(id)?,
            signal,
            round: &round,
            report: &mut report,
        };
        let ops = checksums_at_gaps(&subject)?;
        ops.into_iter().try_for_each(|op| engine.queue(op))
    }

    fn mend(&self, finding: &Finding) -> Result<(), StoreError> {
        let shared = self.shared();
        let engine = shared.backend.engine("repair")?;
        let Some(name) = &finding.signal else {
            let media = shared.backend.media();
            if finding.code == metadata::ATTRIBUTES_LOST {
                replaced_metadata::keep(&*media, self.path(), &finding.path)?;
            }
            let group = metadata::mended_group(self, &*media, &finding.path)?;
            return self.write_metadata(&finding.path, &group);
        };
        let id = self.id_of(name)?;
        let signal = Signal::load(shared, id)?;
        let mut report = Report::default();
        let round = VerifyPass::settled();
        let subject = Subject {
            backend: &shared.backend,
            media: shared.backend.media(),
            state: signal.state().clone(),
            folder: shared.backend.signal_path(id)?,
            signal,
            round: &round,
            report: &mut report,
        };
        match (finding.code, &finding.range) {
            ("missing_metadata" | "foreign_metadata" | "stale_metadata", _) => {
                let mut described = metadata::expected(&subject)?;
                let views = shared.views.descriptions(&shared.backend, id)?;
                let views = views.into_iter();
                described.extend(views.map(|(folder, json)| ExpectedMetadata::view(folder, json)));
                for description in described {
                    let path = description.path(&subject);
                    if path == finding.path {
                        self.write_metadata(&path, description.expected())?;
                    }
                }
                Ok(())
            }
            ("damaged_identity", _) => engine.rewrite_identity(id),
            ("stale_events", _) => engine.rewrite_tables(id),
            ("stale_views", _) => shared.views.rebuild(&shared.backend, id),
            ("missing_checksum", Some(range)) => {
                let ops = missing_checksums(&subject, range)?;
                ops.into_iter().try_for_each(|op| engine.queue(op))
            }
            ("missing_shard" | "truncated_shard", Some(range)) => {
                self.give_up(name, range, finding)
            }
            ("damaged_index", Some(range)) => self.restore_index(&subject, range, finding),
            ("foreign_write", Some(range)) => self.restore_shard(&subject, range),
            _ => Ok(()),
        }
    }

    fn write_metadata(&self, path: &std::path::Path, value: &Value) -> Result<(), StoreError> {
        let media = self.shared().backend.media();
        // An interrupted repair may have removed the folder.
        if let Some(folder) = path.parent() {
            let made = media.make_folders(self.path(), folder);
            made.at("create", folder)?;
        }
        let found = media.read(path, limits::METADATA);
        if found.is_err_and(|error| metadata::cannot_be_metadata(&error, path)) {
            replaced_metadata::keep(&*media, self.path(), path)?;
        }
        let tmp = tmp_folder(self.path()).join("zarr-repair");
        // Attributes exist nowhere else, so they must survive a power cut.
        let site = (path == self.path().join("zarr.json")).then_some(Site::ReplacementFile);
        replace_file(&*media, &tmp, path, &zarr::to_bytes(value), site)
    }

    fn give_up(&self, name: &str, range: &Range<i64>, finding: &Finding) -> Result<(), StoreError> {
        let writer = self.writer(name)?;
        let lost = self.signal(name)?;
        let count = range.end - range.start - lost.gaps().missing_within(range.clone());
        writer.mark_invalid(range.clone())?;
        let mut fields = Map::new();
        fields.insert("reason".into(), finding.code.into());
        fields.insert("samples".into(), count.into());
        fields.insert(
            "file".into(),
            json!(finding.path.file_name().map(|name| name.to_string_lossy())),
        );
        writer.add_event(SAMPLES_LOST, range.clone(), &fields)?;
        Ok(())
    }

    fn lengthen(&self, finding: &Finding) -> Result<(), StoreError> {
        let (Some(name), Some(range)) = (&finding.signal, &finding.range) else {
            return Ok(());
        };
        let signal = self.signal(name)?;
        let meta = &signal.state().meta;
        let flat = Flat::data(meta);
        let media = self.shared().backend.media();
        let path = &finding.path;
        let file = media.open(path, Access::Write).at("open", path)?;
        let have = file.len().at("look at", path)?;
        let per_shard = (flat.shard_bytes() / meta.format.size() as u64).cast_signed();
        let first = range.start / per_shard * per_shard;
        let used = (signal.end_index() - first)
            .clamp(0, per_shard)
            .cast_unsigned();
        let need = flat.file_len(used * meta.format.size() as u64);
        if have >= need {
            return Ok(());
        }
        // Cut within its head: no samples, and only one index is possible.
        if have < flat.payload_start {
            let (head, mark) = head(signal.state(), first);
            let head = flat.marked_head(&head, mark);
            file.write_at(0, &head).at("write", path)?;
        }
        file.set_len(need).at("extend", path)?;
        file.sync(Site::ReplacementFile).at("sync", path)
    }

    fn restore_index(
        &self,
        subject: &Subject<'_>,
        range: &Range<i64>,
        finding: &Finding,
    ) -> Result<(), StoreError> {
        let meta = &subject.state.meta;
        let flat = Flat::data(meta);
        let file = subject
            .media
            .open(&finding.path, Access::Write)
            .at("open", &finding.path)?;
        let (length, size) = (meta.chunk_samples.cast_signed(), meta.format.size());
        let mut bytes = vec![0; flat.chunk_bytes as usize];
        let (mut proved, mut unproved) = (0, 0);
        for first in (range.start..range.end).step_by(length.cast_unsigned() as usize) {
            let offset = flat.payload_start + (first - range.start).cast_unsigned() * size as u64;
            let part = &mut bytes[..length.min(range.end - first).cast_unsigned() as usize * size];
            part.fill(0);
            file.read_at(offset, part).at("read", &finding.path)?;
            match check_any(subject, first, part)? {
                ChecksumResult::Right => proved += 1,
                ChecksumResult::Wrong(..) => return Ok(()),
                ChecksumResult::Missing(_) => unproved += 1,
                ChecksumResult::Empty => {}
            }
        }
        // Without checksums the rest of the head decides.
        let mut head = vec![0; flat.payload_start as usize];
        file.read_at(0, &mut head).at("read", &finding.path)?;
        let marks = flat.marks(&head);
        let rest = match flat.header(&head) {
            HeaderBlock::Header(_) if marks != MarkSlots::default() => flat.marked_head_len(),
            HeaderBlock::Header(_) => flat.head_len(),
            _ => Flat::index_len(flat.chunks),
        };
        if proved > 0 || head[rest as usize..].iter().all(|byte| *byte == 0) {
            let (head, mark) = self::head(&subject.state, range.start);
            // A missing mark may mean missing samples.
            let is_proved = unproved == 0 && proved > 0;
            let mark = mark.filter(|mark| is_proved && !marks.include(*mark));
            let head = flat.marked_head(&head, mark);
            file.write_at(0, &head).at("write", &finding.path)?;
            file.sync(Site::ReplacementFile).at("sync", &finding.path)?;
        }
        Ok(())
    }

    fn restore_shard(&self, subject: &Subject<'_>, range: &Range<i64>) -> Result<(), StoreError> {
        let engine = self.shared().backend.engine("repair")?;
        let meta = &subject.state.meta;
        let flat = Flat::data(meta);
        let (length, size) = (meta.chunk_samples.cast_signed(), meta.format.size());
        let (tmp, path) = engine.new_tmp();
        let file = subject
            .media
            .open(&path, Access::CreateNew)
            .at("create", &path)?;
        let used = (range.end - range.start).cast_unsigned() * size as u64;
        file.set_len(flat.file_len(used)).at("extend", &path)?;
        file.write_at(0, &flat.index()).at("write", &path)?;
        let mut bytes = vec![0; flat.chunk_bytes as usize];
        let mut at = range.start;
        while at < range.end {
            let part = at..(at + length).min(range.end);
            bytes.fill(0);
            samples::read_valid(subject, part.clone(), &mut bytes)?;
            let offset = flat.payload_start + (at - range.start).cast_unsigned() * size as u64;
            file.write_at(offset, &bytes).at("write", &path)?;
            let part_bytes = (part.end - part.start).cast_unsigned() as usize * size;
            if let ChecksumResult::Wrong(..) = check_any(subject, at, &mut bytes[..part_bytes])? {
                // Samples that the other program changed stay readable for the user to decide.
                let _ = subject.media.remove_file(&path);
                return Ok(());
            }
            at = part.end;
        }
        file.sync(Site::ReplacementFile).at("sync", &path)?;
        let folder = tmp_folder(engine.root());
        subject
            .media
            .sync_folder(&folder, Site::ReplacementFolder)
            .at("sync", &folder)?;
        let shard = (range.start.cast_unsigned() * size as u64) / flat.shard_bytes();
        let op = Op::ReplaceShard {
            id: subject.state.id,
            shard,
            tmp,
        };
        self.shared().views.observe(&self.shared().backend, &op)?;
        engine.queue(op)
    }
}

fn head(state: &SignalState, index: i64) -> (ShardHeader, Option<WriteMark>) {
    let shard = (index / state.meta.shard_samples()).cast_unsigned();
    let header = ShardHeader {
        signal: state.id.0,
        shard,
        version: state.data.file(shard),
    };
    (header, state.data.mark(shard).map(|mark| mark.last))
}

/// Checks a full or truncated chunk.
fn check_any(
    subject: &Subject<'_>,
    first: i64,
    bytes: &mut [u8],
) -> Result<ChecksumResult, StoreError> {
    let meta = &subject.state.meta;
    let length = meta.chunk_samples;
    if bytes.len() as u64 == length * meta.format.size() as u64 {
        check(subject, first.cast_unsigned() / length, bytes)
    } else {
        Ok(check_tail(subject, first, bytes)?.0)
    }
}

fn missing_checksums(subject: &Subject<'_>, range: &Range<i64>) -> Result<Vec<Op>, StoreError> {
    let state = &subject.state;
    let (length, size) = (
        state.meta.chunk_samples.cast_signed(),
        state.meta.format.size(),
    );
    let mut bytes = vec![0; length.cast_unsigned() as usize * size];
    let mut ops = Vec::new();
    for chunk in range.start / length..range.end / length {
        bytes.fill(0);
        samples::read_valid(subject, chunk * length..(chunk + 1) * length, &mut bytes)?;
        if let ChecksumResult::Missing(crc) = check(subject, chunk.cast_unsigned(), &mut bytes)? {
            ops.push(Op::Crc {
                id: state.id,
                chunk: chunk.cast_unsigned(),
                crc,
            });
        }
    }
    Ok(ops)
}

/// A lost commit may have made or filled a gap without updating checksums.
fn checksums_at_gaps(subject: &Subject<'_>) -> Result<Vec<Op>, StoreError> {
    let state = &subject.state;
    let length = state.meta.chunk_samples.max(1).cast_signed();
    let size = state.meta.format.size();
    let full = state.end / length;
    let edges = state.gaps.iter().flat_map(|gap| [gap.start, gap.end() - 1]);
    let chunks: BTreeSet<i64> = edges.map(|index| index / length).collect();
    let mut bytes = vec![0; length.cast_unsigned() as usize * size];
    let mut ops = Vec::new();
    for chunk in chunks.into_iter().filter(|chunk| *chunk < full) {
        bytes.fill(0);
        samples::read_valid(subject, chunk * length..(chunk + 1) * length, &mut bytes)?;
        let chunk = chunk.cast_unsigned();
        if let ChecksumResult::Wrong(_, crc) = check(subject, chunk, &mut bytes)? {
            let id = state.id;
            ops.push(Op::Crc { id, chunk, crc });
        }
    }
    Ok(ops)
}
