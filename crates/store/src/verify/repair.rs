//! Mending what can be mended without guessing.

use std::ops::Range;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::samples::{self, Sum, check, check_tail};
use super::{Finding, Report, Subject, VerifyOptions, manifest, metadata};
use crate::engine::io::{IoContext, replace_file};
use crate::engine::{SAMPLES_LOST, rebuild};
use crate::error::StoreError;
use crate::layout::flat::Flat;
use crate::layout::{tmp_folder, zarr};
use crate::media::{Access, Site};
use crate::op::Op;
use crate::options::Mode;
use crate::signal::Signal;
use crate::store::Store;

/// Repairs the store at `path`, even one that does not open: a MANIFEST that is damaged or lost is written anew from the
/// redo log, if that leaves no doubt what it said. The reports before and after; what keeps the store from being opened,
/// and cannot be mended, is a finding of both.
///
/// # Errors
/// [`StoreError::NotAStore`], [`StoreError::Locked`], [`StoreError::Io`], and as [`Store::repair`].
pub fn repair(
    path: impl AsRef<Path>,
    options: &VerifyOptions,
) -> Result<(Report, Report), StoreError> {
    let path = &std::path::absolute(&path).at("look at", path.as_ref())?;
    let media = crate::media::disk();
    let lost = manifest(&*media, path)?;
    if lost.as_ref().is_some_and(|finding| finding.repairable) {
        rebuild::rebuild(&*media, path)?;
    }
    let (mut before, after) = match Store::open(path, Mode::ReadWrite) {
        Ok(store) => {
            let reports = store.repair(options)?;
            store.close()?;
            reports
        }
        // A log that waits to be replayed into a file that is gone.
        Err(StoreError::MissingSamples { .. }) => give_up_lost(path, options)?,
        Err(error) if is_damage(&error) => {
            let report = Report {
                findings: vec![super::from_error(&error, path.clone(), None)],
                ..Report::default()
            };
            (report.clone(), report)
        }
        Err(error) => return Err(error),
    };
    if let Some(finding) = lost.filter(|finding| finding.repairable) {
        before.findings.insert(0, finding);
    }
    Ok((before, after))
}

/// Recovers a store from which files are gone that the last writer wrote to, and repairs it.
fn give_up_lost(path: &Path, options: &VerifyOptions) -> Result<(Report, Report), StoreError> {
    let before = super::verify(path, options)?;
    let store = Store::open_giving_up_lost(path)?;
    let shared = store.shared();
    // Recovery knows nothing of views: they still show what is a gap by now.
    for finding in &before.findings {
        if let ("missing_shard" | "truncated_shard", Some(name)) = (finding.code, &finding.signal) {
            shared.views.rebuild(&shared.backend, store.id_of(name)?)?;
        }
    }
    let (_, after) = store.repair(options)?;
    store.close()?;
    Ok((before, after))
}

/// Whether an error of opening says what is wrong with the store, rather than with the attempt.
fn is_damage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::DamagedFile { .. }
            | StoreError::DamagedTable { .. }
            | StoreError::MissingTable { .. }
            | StoreError::MissingFolder { .. }
    )
}

impl Store {
    /// Verifies, mends what can be mended, commits, and verifies again: the reports before and after.
    ///
    /// Rebuilt are metadata, views, checksums that are missing (also of samples that count as
    /// [`unchecked`](Report::unchecked)) and shard indices; samples whose file is gone become
    /// gaps, each with an event of the kind `samples_lost`. No sample is changed.
    ///
    /// # Errors
    /// [`StoreError::ReadOnly`], and what commits may say.
    pub fn repair(&self, options: &VerifyOptions) -> Result<(Report, Report), StoreError> {
        let engine = self.shared().backend.engine_in_place("repair")?;
        self.commit(true)?;
        let before = self.verify(options)?;
        for finding in before.findings.iter().filter(|finding| finding.repairable) {
            self.mend(finding)?;
        }
        self.commit(true)?;
        // Only now are lost samples a gap: a file that is whole again would hide that they are lost.
        for finding in before.findings.iter().filter(|finding| finding.repairable) {
            if finding.code == "truncated_shard" {
                self.lengthen(finding)?;
            }
        }
        engine.sum_tails();
        engine.checkpoint()?;
        Ok((before, self.verify(options)?))
    }

    fn mend(&self, finding: &Finding) -> Result<(), StoreError> {
        let shared = self.shared();
        let engine = shared.backend.engine("repair")?;
        let Some(name) = &finding.signal else {
            let user = Map::new();
            let group = zarr::store_group(&self.uuid()?, user);
            return self.write_metadata(&finding.path, &group);
        };
        let id = self.id_of(name)?;
        let signal = Signal::load(shared, id)?;
        let mut report = Report::default();
        let subject = Subject {
            backend: &shared.backend,
            media: shared.backend.media(),
            state: signal.state().clone(),
            folder: shared.backend.signal_path(id)?,
            signal,
            report: &mut report,
        };
        match (finding.code, &finding.range) {
            ("missing_metadata" | "foreign_metadata" | "stale_metadata", _) => {
                for (array, value) in metadata::expected(&subject) {
                    let path = subject.folder.join(array).join("zarr.json");
                    if path == finding.path {
                        self.write_metadata(&path, &value)?;
                    }
                }
                Ok(())
            }
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
        let tmp = tmp_folder(self.path()).join("zarr-repair");
        replace_file(&*media, &tmp, path, &zarr::to_bytes(value), None)
    }

    /// Marks what a lost file held as a gap.
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

    /// Gives a shard that was cut short the length that the layout promises, with a hole for what was lost, which is a
    /// gap by now: other readers of the array ask for every chunk that the index names.
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
        let per_shard = (flat.shard_bytes() / meta.dtype.size() as u64).cast_signed();
        let first = range.start / per_shard * per_shard;
        let used = (signal.end_index() - first)
            .clamp(0, per_shard)
            .cast_unsigned();
        let need = flat.file_len(used * meta.dtype.size() as u64);
        if have >= need {
            return Ok(());
        }
        // Cut within its head, it holds no sample, and nothing speaks against the only index that there is.
        if have < flat.payload_start {
            file.write_at(0, &flat.index()).at("write", path)?;
        }
        file.set_len(need).at("extend", path)?;
        file.sync(Site::ReplacementFile).at("sync", path)
    }

    /// Writes the index of a flat shard anew, if the checksums of its chunks say that it is one.
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
        let (length, size) = (meta.chunk_samples.cast_signed(), meta.dtype.size());
        let mut bytes = vec![0; flat.chunk_bytes as usize];
        let mut proved = 0;
        for first in (range.start..range.end).step_by(length.cast_unsigned() as usize) {
            let offset = flat.payload_start + (first - range.start).cast_unsigned() * size as u64;
            let part = &mut bytes[..length.min(range.end - first).cast_unsigned() as usize * size];
            part.fill(0);
            file.read_at(offset, part).at("read", &finding.path)?;
            match check_any(subject, first, part)? {
                Sum::Right => proved += 1,
                Sum::Wrong(..) => return Ok(()),
                Sum::Missing(_) | Sum::Empty => {}
            }
        }
        // Where no chunk has a checksum, the rest of the shard's head tells: zeros up to the payload.
        let mut head = vec![0; (flat.payload_start - Flat::index_len(flat.chunks)) as usize];
        file.read_at(Flat::index_len(flat.chunks), &mut head)
            .at("read", &finding.path)?;
        if proved > 0 || head.iter().all(|byte| *byte == 0) {
            file.write_at(0, &flat.index()).at("write", &finding.path)?;
            file.sync(Site::ReplacementFile).at("sync", &finding.path)?;
        }
        Ok(())
    }

    /// Writes the samples of a shard that another program wrote as a plain shard, if their checksums match.
    fn restore_shard(&self, subject: &Subject<'_>, range: &Range<i64>) -> Result<(), StoreError> {
        let engine = self.shared().backend.engine("repair")?;
        let meta = &subject.state.meta;
        let flat = Flat::data(meta);
        let (length, size) = (meta.chunk_samples.cast_signed(), meta.dtype.size());
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
            if let Sum::Wrong(..) = check_any(subject, at, &mut bytes[..part_bytes])? {
                // The other program changed samples. They stay as they are, readable, until somebody decides.
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

/// Compares a chunk, full or cut short by the signal's end, with its checksum.
fn check_any(subject: &Subject<'_>, first: i64, bytes: &mut [u8]) -> Result<Sum, StoreError> {
    let meta = &subject.state.meta;
    let length = meta.chunk_samples;
    if bytes.len() as u64 == length * meta.dtype.size() as u64 {
        check(subject, first.cast_unsigned() / length, bytes)
    } else {
        Ok(check_tail(subject, first, bytes)?.0)
    }
}

/// Operations that record the checksums of full chunks that have none.
fn missing_checksums(subject: &Subject<'_>, range: &Range<i64>) -> Result<Vec<Op>, StoreError> {
    let state = &subject.state;
    let (length, size) = (
        state.meta.chunk_samples.cast_signed(),
        state.meta.dtype.size(),
    );
    let mut bytes = vec![0; length.cast_unsigned() as usize * size];
    let mut ops = Vec::new();
    for chunk in range.start / length..range.end / length {
        bytes.fill(0);
        samples::read_valid(subject, chunk * length..(chunk + 1) * length, &mut bytes)?;
        if let Sum::Missing(crc) = check(subject, chunk.cast_unsigned(), &mut bytes)? {
            ops.push(Op::Crc {
                id: state.id,
                chunk: chunk.cast_unsigned(),
                crc,
            });
        }
    }
    Ok(ops)
}
