//! Copies what a backup lacks of its source.

use std::ops::Range;

use super::difference::{Difference, Part, SignalDifference};
use super::rounds::{Backup, MAX_SIGNALS_PER_COMMIT};
use super::sealed_array::{copy_folder, set_version};
use super::signal_error::CopyError;
use crate::append::change::Change;
use crate::engine::crc;
use crate::engine::io::IoContext;
use crate::error::StoreError;
use crate::interrupt;
use crate::media::limits;
use crate::op::{Op, RunRow, SignalId};
use crate::views::Samples;
use crate::views::stored::StoredSamples;

pub(super) struct CopyState {
    uncommitted: u64,
    signals: usize,
    commits: bool,
}

impl Backup<'_, '_> {
    pub(super) fn apply(
        &mut self,
        difference: &Difference,
        commits: bool,
    ) -> Result<(), CopyError> {
        let mut state = CopyState {
            uncommitted: 0,
            signals: 0,
            commits,
        };
        self.progress.begin(difference.bytes());
        let copied = self.copy_all(difference, &mut state);
        if copied.is_err() {
            // Uncommitted bytes are discarded.
            self.report.copied_bytes -= state.uncommitted;
        }
        copied
    }

    fn copy_all(&mut self, difference: &Difference, copy: &mut CopyState) -> Result<(), CopyError> {
        let target = self.target;
        let engine = target.shared().backend.engine("back up")?;
        for signal in difference.signals.iter().filter(|signal| signal.unseal) {
            let name = &*signal.state.name;
            let have = target.shared().backend.state(signal.id);
            have.and_then(|have| target.unseal(&have.name))
                .map_err(|error| self.failed(signal.id, name, error))?;
        }
        self.remove(difference)?;
        // Signals may have swapped names.
        let taken = |name: &String| engine.find(name).is_some();
        if difference.renamed.len() > 1 || difference.renamed.iter().any(|(_, name)| taken(name)) {
            self.rename_aside(difference)?;
        }
        for (id, name) in &difference.renamed {
            let (id, to) = (*id, name.clone());
            let renamed = engine.queue(Op::Rename { id, to });
            renamed.map_err(|error| self.failed(id, name, error))?;
        }
        for signal in &difference.signals {
            let copied = self.copy_signal(signal, copy);
            copied.map_err(|error| self.failed(signal.id, &signal.state.name, error))?;
        }
        target.commit(true)?;
        Ok(())
    }

    fn copy_signal(
        &mut self,
        signal: &SignalDifference,
        copy: &mut CopyState,
    ) -> Result<(), StoreError> {
        let shared = self.target.shared();
        let engine = shared.backend.engine("back up")?;
        let (id, state) = (signal.id, &signal.state);
        if signal.new {
            let mut meta = Box::new((*state.meta).clone());
            meta.codec.clear();
            let name = state.name.to_string();
            engine.queue(Op::Create { id, name, meta })?;
        }
        if signal.sealed {
            self.copy_sealed(signal, copy)?;
        } else {
            let mut end = engine.state(id)?.end;
            for part in &signal.parts {
                match part {
                    Part::Samples(range) => {
                        self.copy_samples(signal, range.clone(), &mut end, copy)?;
                    }
                    Part::Gap(range) => {
                        let mut change = Change::new(id);
                        let (start, stop) = (range.start, range.end);
                        change.ops.push(Op::Gap {
                            id,
                            start,
                            end: stop,
                        });
                        change.ops.extend(grown(id, &mut end, stop));
                        change.apply(self.target.shared(), engine)?;
                    }
                }
            }
        }
        let mut change = Change::new(id);
        change.ops.clone_from(&signal.ops);
        change.apply(self.target.shared(), engine)?;
        self.commit_signal(copy)
    }

    /// Verifies each chunk by the source's checksums.
    fn copy_samples(
        &mut self,
        signal: &SignalDifference,
        range: Range<i64>,
        end: &mut i64,
        copy: &mut CopyState,
    ) -> Result<(), StoreError> {
        let (id, state) = (signal.id, &signal.state);
        let size = state.meta.format.size();
        let length = state.meta.chunk_samples.max(1).cast_signed();
        let mut bytes = vec![0; length.unsigned_abs() as usize * size];
        let mut at = range.start;
        while at < range.end {
            interrupt::check("back up")?;
            let first = at / length * length;
            let stop = (first + length).min(range.end);
            self.read_checked(signal, first, &mut bytes)?;
            let own = (at - first).unsigned_abs() as usize * size
                ..(stop - first).unsigned_abs() as usize * size;
            let mut change = Change::new(id);
            change.write(at, &bytes[own.clone()]);
            change.ops.push(Op::Valid {
                id,
                start: at,
                end: stop,
            });
            change.ops.extend(grown(id, end, stop));
            let engine = self.target.shared().backend.engine("back up")?;
            change.apply(self.target.shared(), engine)?;
            self.advance(copy, own.len() as u64);
            at = stop;
            if copy.commits && copy.uncommitted >= self.options.commit_bytes {
                // Commit complete runs: the signal is valid if the rest is damaged.
                let end = *end;
                for run in state.runs.iter().filter(|run| run.start < end) {
                    let run = RunRow {
                        end: run.end.min(end),
                        ..run
                    };
                    engine.queue(Op::Run { id, run })?;
                }
                self.commit(copy)?;
            }
        }
        Ok(())
    }

    fn copy_sealed(
        &mut self,
        signal: &SignalDifference,
        copy: &mut CopyState,
    ) -> Result<(), StoreError> {
        let source = &self.source.shared().backend;
        let engine = self.target.shared().backend.engine("back up")?;
        let (id, state) = (signal.id, &signal.state);
        let media = engine.media().clone();
        let theirs = source.media();
        let from = source.signal_path(id)?.join("data");
        let described = theirs.read(&from.join("zarr.json"), limits::METADATA);
        let described = described.at("read", &from)?;
        let (tmp, to) = engine.new_tmp();
        let copied = copy_folder((&*theirs, &from), (&*media, &to)).and_then(|()| {
            let again = theirs
                .read(&from.join("zarr.json"), limits::METADATA)
                .at("read", &from)?;
            match again == described {
                true => Ok(()),
                false => Err(StoreError::DamagedFile {
                    path: from.clone(),
                    offset: 0,
                    reason: "the array was replaced while it was copied",
                }),
            }
        });
        let copied = copied.and_then(|()| set_version(&*media, &to, (id, state.meta.format), &tmp));
        if copied.is_err() {
            let _ = media.remove_all(&to);
        }
        copied?;
        let sums = self.checked_sums(signal)?;
        let codec = state.meta.codec.clone();
        engine.queue(Op::ReplaceData { id, tmp, codec })?;
        let end = state.end;
        engine.queue(Op::Valid { id, start: 0, end })?;
        engine.queue(Op::End { id, end })?;
        for gap in state.gaps.iter() {
            let (start, end) = (gap.start, gap.end());
            engine.queue(Op::Gap { id, start, end })?;
        }
        for (chunk, crc) in sums {
            engine.queue(Op::Crc { id, chunk, crc })?;
        }
        self.advance(copy, signal.bytes);
        Ok(())
    }

    /// Checksums of all full chunks, verified by decoding.
    pub(super) fn checked_sums(
        &self,
        signal: &SignalDifference,
    ) -> Result<Vec<(u64, u32)>, StoreError> {
        let source = &self.source.shared().backend;
        let (id, state) = (signal.id, &signal.state);
        let length = state.meta.chunk_samples.max(1).cast_signed();
        let size = state.meta.format.size();
        let mut bytes = vec![0; length.unsigned_abs() as usize * size];
        let mut sums = Vec::new();
        for chunk in 0..state.end / length {
            interrupt::check("back up")?;
            let number = chunk.cast_unsigned();
            let stored = source.chunk_crc(id, number)?.filter(|crc| *crc != 0);
            if let Some(stored) = stored {
                self.read_checked(signal, chunk * length, &mut bytes)?;
                sums.push((number, stored));
            }
        }
        let last = state.end / length * length;
        if last < state.end {
            self.read_checked(signal, last, &mut bytes)?;
        }
        Ok(sums)
    }

    /// The partial last chunk's checksum ends at the source's last checkpoint.
    fn read_checked(
        &self,
        signal: &SignalDifference,
        first: i64,
        bytes: &mut [u8],
    ) -> Result<(), StoreError> {
        let source = &self.source.shared().backend;
        let (id, state) = (signal.id, &signal.state);
        let size = state.meta.format.size();
        let length = state.meta.chunk_samples.max(1).cast_signed();
        let after = first + length;
        bytes.fill(0);
        StoredSamples::new(source, state)?.visit(
            first..after.min(state.end),
            &mut |index, part| {
                let from = (index - first).unsigned_abs() as usize * size;
                bytes[from..from + part.len()].copy_from_slice(part);
                Ok(())
            },
        )?;
        let known = if after <= state.end {
            let stored = source.chunk_crc(id, (first / length).cast_unsigned())?;
            stored.filter(|crc| *crc != 0).map(|crc| (after, crc))
        } else {
            let tail = source.tail_crc(id)?;
            tail.filter(|(end, _)| first < *end && *end <= state.end)
        };
        let Some((end, stored)) = known else {
            return Ok(());
        };
        let summed = &mut bytes[..(end - first).unsigned_abs() as usize * size];
        match crc::masked(summed, first, size, &state.gaps) {
            Some(computed) if computed != stored => {
                let shard = (first / super::difference::shard_samples(state)).cast_unsigned();
                Err(StoreError::DamagedFile {
                    path: source.data_shard_path(id, shard)?,
                    offset: 0,
                    reason: "its samples do not have the checksum that is recorded",
                })
            }
            _ => Ok(()),
        }
    }

    fn advance(&mut self, copy: &mut CopyState, bytes: u64) {
        copy.uncommitted += bytes;
        self.report.copied_bytes += bytes;
        self.progress.copied(bytes);
    }

    /// Commits a signal on a disk at once, so that a later failure does not repeat it. Objects are put faster in large
    /// batches.
    fn commit_signal(&mut self, copy: &mut CopyState) -> Result<(), StoreError> {
        copy.signals += 1;
        let is_published = self.target.shared().backend.media().is_published();
        let is_due =
            copy.uncommitted >= self.options.commit_bytes || copy.signals >= MAX_SIGNALS_PER_COMMIT;
        match is_due || !is_published {
            true => self.commit(copy),
            false => Ok(()),
        }
    }

    fn commit(&mut self, copy: &mut CopyState) -> Result<(), StoreError> {
        // A signal without samples has objects too.
        if copy.commits && (copy.uncommitted > 0 || copy.signals >= MAX_SIGNALS_PER_COMMIT) {
            self.target.commit(true)?;
            self.publish()?;
            (copy.uncommitted, copy.signals) = (0, 0);
        }
        Ok(())
    }
}

fn grown(id: SignalId, end: &mut i64, stop: i64) -> Option<Op> {
    (stop > *end).then(|| {
        *end = stop;
        Op::End { id, end: stop }
    })
}
