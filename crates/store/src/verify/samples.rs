//! Verifies shards against the signal's gaps and end, and chunks against their checksums.

use std::ops::Range;
use std::path::PathBuf;

use super::{Finding, Subject, from_error};
use crate::engine::crc;
use crate::engine::io::failed;
use crate::error::StoreError;
use crate::layout::data_shard_file;
use crate::layout::flat::{Flat, IndexKind};
use crate::layout::shard::SEALED_SHARD_CHUNKS;
use crate::media::{Access, Kind};

pub(super) struct ExpectedShard {
    pub(super) path: PathBuf,
    pub(super) range: Range<i64>,
    /// Payload bytes up to the last valid sample.
    pub(super) used: u64,
}

const LOST: &str =
    "restore the file from a copy; or let `--repair` mark the lost samples as a gap, with an event";

pub(super) fn expected(subject: &Subject<'_>) -> Result<Vec<ExpectedShard>, StoreError> {
    let state = &subject.state;
    let length = sealed_shard(subject)
        .unwrap_or(subject.backend.shard_samples(state.id)?)
        .max(1);
    let size = state.meta.format.size() as i64;
    let mut shards = Vec::new();
    let mut at = 0;
    while at < state.end {
        // Shards in a gap have no file; there may be millions.
        if let Some(gap) = state.gaps.at(at) {
            let skip = gap.end() / length * length;
            if skip > at {
                at = skip;
                continue;
            }
        }
        let shard = at / length;
        let range = shard * length..((shard + 1).saturating_mul(length)).min(state.end);
        let last = match state.gaps.at(range.end - 1) {
            Some(gap) => gap.start,
            None => range.end,
        };
        if last > range.start {
            let shard = shard.cast_unsigned();
            shards.push(ExpectedShard {
                path: path_of(subject, shard)?,
                used: ((last - range.start) * size).cast_unsigned(),
                range: range.clone(),
            });
        }
        at = range.end;
    }
    Ok(shards)
}

fn path_of(subject: &Subject<'_>, shard: u64) -> Result<PathBuf, StoreError> {
    if subject.state.meta.codec.is_empty() {
        subject.backend.data_shard_path(subject.state.id, shard)
    } else {
        let data = subject.folder.join("data");
        Ok(data_shard_file(&data, subject.state.meta.format, shard))
    }
}

fn sealed_shard(subject: &Subject<'_>) -> Option<i64> {
    if subject.state.meta.codec.is_empty() {
        return None;
    }
    let samples = subject
        .state
        .meta
        .chunk_samples
        .saturating_mul(SEALED_SHARD_CHUNKS);
    i64::try_from(samples).ok()
}

pub(super) fn shards(subject: &mut Subject<'_>) -> Result<(), StoreError> {
    let flat = Flat::data(&subject.state.meta);
    let is_flat = subject.state.meta.codec.is_empty();
    let size = subject.state.meta.format.size() as u64;
    for expected in expected(subject)? {
        let ExpectedShard {
            path, range, used, ..
        } = expected;
        let length = match subject.media.stat(&path) {
            Ok(Some(Kind::File(length))) => length,
            Ok(Some(Kind::Folder)) => {
                let what = format!("a folder is in the place of the file {}", path.display());
                let mend = "move it away; then restore the file from a copy, or let `--repair` go on without it";
                subject.add("unexpected_file", path, None, what, mend, false);
                continue;
            }
            Ok(None) => {
                let what = format!(
                    "{} is missing; it held samples {}..{}",
                    path.display(),
                    range.start,
                    range.end
                );
                subject.add("missing_shard", path, Some(range), what, LOST, true);
                continue;
            }
            Err(source) => {
                subject.fail(&failed(source, "look at", &path));
                continue;
            }
        };
        if !is_flat {
            // The rest needs decoding: see `checksums`.
            compare_header(subject, path, range, used / size);
            continue;
        }
        let index = subject.media.open(&path, Access::Read).and_then(|file| {
            let mut index = vec![0; Flat::index_len(flat.chunks) as usize];
            let count = file.read_at(0, &mut index)?;
            Ok(flat.index_kind(&index[..count]))
        });
        let needed = flat.payload_start + used;
        match index {
            Ok(IndexKind::Foreign) => {
                let what = format!(
                    "{} was rewritten by another program: its index is valid, but not ours",
                    path.display()
                );
                let mend = "it is read by decoding; `--repair` writes its samples as a plain shard again, if their checksums match";
                subject.add("foreign_write", path, Some(range), what, mend, true);
            }
            Ok(_) if length < needed => {
                let from =
                    range.start + (length.saturating_sub(flat.payload_start) / size).cast_signed();
                let what = format!(
                    "{} has {length} bytes, but its samples need {needed}",
                    path.display()
                );
                subject.add(
                    "truncated_shard",
                    path,
                    Some(from..range.end),
                    what,
                    LOST,
                    true,
                );
            }
            Ok(IndexKind::Damaged) => {
                let what = format!(
                    "the index at the start of {} is damaged; the samples behind it may be whole",
                    path.display()
                );
                let mend = "`--repair` writes the index again, which is the same for every shard, if the checksums of its chunks match";
                subject.add("damaged_index", path, Some(range), what, mend, true);
            }
            Ok(IndexKind::Flat) => compare_header(subject, path, range, used / size),
            Err(source) => subject.fail(&failed(source, "read", &path)),
        }
    }
    Ok(())
}

/// As every read does. `used`: samples up to the last valid one.
fn compare_header(subject: &mut Subject<'_>, path: PathBuf, range: Range<i64>, used: u64) {
    let last = range.start + used.cast_signed() - 1;
    let read = subject.backend.read(&subject.state, last, 1);
    if let Err(error) = read
        && let Some(code) = mismatch(&error)
    {
        let Range { start, end } = range;
        let what = format!("samples {start}..{end} cannot be read: {error}");
        let mend = "restore the file from the copy of the store that the rest is from";
        subject.add(code, path, Some(range), what, mend, false);
    }
}

fn mismatch(error: &StoreError) -> Option<&'static str> {
    let is_mismatch = matches!(
        error,
        StoreError::WrongShard { .. } | StoreError::DamagedFile { .. }
    );
    is_mismatch.then(|| error.code())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChecksumResult {
    Right,
    /// None stored; the computed one.
    Missing(u32),
    /// Stored and computed.
    Wrong(u32, u32),
    /// No samples.
    Empty,
}

pub(super) fn check(
    subject: &Subject<'_>,
    chunk: u64,
    bytes: &mut [u8],
) -> Result<ChecksumResult, StoreError> {
    let state = &subject.state;
    let first = (chunk * state.meta.chunk_samples).cast_signed();
    let Some(computed) = crc::masked(bytes, first, state.meta.format.size(), &state.gaps) else {
        return Ok(ChecksumResult::Empty);
    };
    // A hole reads as zero.
    Ok(
        match subject
            .backend
            .chunk_crc(state.id, chunk)?
            .filter(|crc| *crc != 0)
        {
            Some(stored) if stored == computed => ChecksumResult::Right,
            Some(stored) => ChecksumResult::Wrong(stored, computed),
            None if computed == 0 => ChecksumResult::Right,
            None => ChecksumResult::Missing(computed),
        },
    )
}

/// Compares the last, partial chunk. Also gives where its checksum ends: at the last checkpoint's end, or nowhere.
pub(super) fn check_tail(
    subject: &Subject<'_>,
    first: i64,
    bytes: &mut [u8],
) -> Result<(ChecksumResult, i64), StoreError> {
    let state = &subject.state;
    let size = state.meta.format.size();
    let tail = subject.backend.tail_crc(state.id)?;
    let Some((end, stored)) = tail.filter(|(end, _)| first < *end && *end <= state.end) else {
        return Ok((ChecksumResult::Empty, first));
    };
    let summed = &mut bytes[..(end - first).cast_unsigned() as usize * size];
    let sum = match crc::masked(summed, first, size, &state.gaps) {
        None => ChecksumResult::Empty,
        Some(computed) if computed == stored => ChecksumResult::Right,
        Some(computed) => ChecksumResult::Wrong(stored, computed),
    };
    Ok((sum, end))
}

/// Leaves out files already reported as missing, truncated or without an index. `only`: chunks with a sample in it.
pub(super) fn checksums(
    subject: &mut Subject<'_>,
    only: Option<&[Range<i64>]>,
) -> Result<(), StoreError> {
    let known: Vec<Range<i64>> = subject
        .report
        .findings
        .iter()
        .filter(|finding| {
            finding.signal.as_deref() == Some(&*subject.state.name)
                && matches!(
                    finding.code,
                    "missing_shard"
                        | "truncated_shard"
                        | "damaged_index"
                        | "wrong_shard"
                        | "damaged_file"
                )
        })
        .filter_map(|finding| finding.range.clone())
        .collect();
    let state = subject.state.clone();
    let length = state.meta.chunk_samples.max(1).cast_signed();
    let size = state.meta.format.size();
    let mut bytes = vec![0; length.cast_unsigned() as usize * size];
    let mut missing: Option<Range<i64>> = None;
    let mut unreadable: Option<Finding> = None;
    let mut at = 0;
    while at < state.end {
        crate::interrupt::check("compare checksums")?;
        if let Some(gap) = state
            .gaps
            .at(at)
            .filter(|gap| gap.end() / length * length > at)
        {
            at = gap.end() / length * length;
            continue;
        }
        let range = at..(at + length).min(state.end);
        let chunk = (at / length).cast_unsigned();
        at = range.end;
        let in_any = |ranges: &[Range<i64>]| {
            let mut ranges = ranges.iter();
            ranges.any(|part| part.start < range.end && range.start < part.end)
        };
        if in_any(&known) || only.is_some_and(|only| !in_any(only)) {
            continue;
        }
        let part = &mut bytes[..(range.end - range.start).cast_unsigned() as usize * size];
        part.fill(0);
        let read = read_valid(subject, range.clone(), part);
        let path = path_of(
            subject,
            range.start.cast_unsigned() / shard_length(subject)?.cast_unsigned(),
        )?;
        if let Err(error) = read {
            let what = format!(
                "samples {}..{} cannot be read: {error}",
                range.start, range.end
            );
            subject.add(
                "unreadable_chunk",
                path,
                Some(range),
                what,
                "restore the file from a copy",
                false,
            );
            continue;
        }
        let valid = |range: Range<i64>| {
            let missing = state.gaps.missing_within(range.clone());
            (range.end - range.start - missing).cast_unsigned()
        };
        let (sum, known) = if range.end - range.start == length {
            match check(subject, chunk, part) {
                Ok(sum) => (sum, range),
                Err(error) if is_of_file(&error) => {
                    subject.report.unchecked += valid(range.clone());
                    add_unreadable(subject, &mut unreadable, &error, range);
                    continue;
                }
                Err(error) => return Err(error),
            }
        } else {
            let (sum, end) = check_tail(subject, range.start, part)?;
            subject.report.unchecked += valid(end..range.end);
            (sum, range.start..end)
        };
        match sum {
            ChecksumResult::Right => {
                subject.report.bytes += (known.end - known.start).cast_unsigned() * size as u64;
            }
            ChecksumResult::Empty => {}
            ChecksumResult::Missing(_) => {
                subject.report.unchecked += valid(known.clone());
                match &mut missing {
                    Some(missing) if missing.end == known.start => missing.end = known.end,
                    _ => {
                        add_missing(subject, missing.take());
                        missing = Some(known);
                    }
                }
            }
            ChecksumResult::Wrong(stored, computed) => {
                let range = known;
                subject.report.bytes += (range.end - range.start).cast_unsigned() * size as u64;
                let what = format!(
                    "samples {}..{} have the checksum {computed:08x}, but {stored:08x} is recorded: bits were changed",
                    range.start, range.end
                );
                let mend = "restore the file from a copy; or mark the samples as invalid. They are never changed silently";
                subject.add("flipped_bits", path, Some(range), what, mend, false);
            }
        }
    }
    add_missing(subject, missing);
    subject.report.findings.extend(unreadable);
    Ok(())
}

/// Whether the error is about a file rather than the store or the attempt.
fn is_of_file(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Io { .. }
            | StoreError::UnexpectedFile { .. }
            | StoreError::OversizedFile { .. }
            | StoreError::DamagedFile { .. }
    )
}

fn add_unreadable(
    subject: &mut Subject<'_>,
    last: &mut Option<Finding>,
    error: &StoreError,
    range: Range<i64>,
) {
    let name = subject.state.name.to_string();
    let mut finding = from_error(error, subject.folder.join("crc"), Some(&name));
    let whole = match last.take() {
        Some(last) if last.path == finding.path => {
            let start = last.range.map_or(range.start, |range| range.start);
            start..range.end
        }
        other => {
            subject.report.findings.extend(other);
            range
        }
    };
    finding.civil = subject.civil(&whole);
    finding.range = Some(whole);
    *last = Some(finding);
}

fn add_missing(subject: &mut Subject<'_>, range: Option<Range<i64>>) {
    if let Some(range) = range {
        let what = format!(
            "no checksum is recorded for samples {}..{}",
            range.start, range.end
        );
        let path = subject.folder.join("crc");
        let mend = "`--repair` records the checksums of the samples as they are";
        subject.add("missing_checksum", path, Some(range), what, mend, true);
    }
}

fn shard_length(subject: &Subject<'_>) -> Result<i64, StoreError> {
    Ok(sealed_shard(subject)
        .unwrap_or(subject.backend.shard_samples(subject.state.id)?)
        .max(1))
}

/// Leaves bytes in gaps unchanged.
pub(super) fn read_valid(
    subject: &Subject<'_>,
    range: Range<i64>,
    bytes: &mut [u8],
) -> Result<(), StoreError> {
    let size = subject.state.meta.format.size();
    let mut at = range.start;
    while at < range.end {
        let stop = match subject.state.gaps.first_within(at..range.end) {
            Some(gap) if gap.start <= at => {
                at = gap.end();
                continue;
            }
            Some(gap) => gap.start,
            None => range.end,
        };
        let count = (stop - at).cast_unsigned() as usize;
        let buffer = subject.backend.read(&subject.state, at, count)?;
        let from = (at - range.start).cast_unsigned() as usize * size;
        bytes[from..from + count * size].copy_from_slice(buffer.bytes());
        at = stop;
    }
    Ok(())
}
