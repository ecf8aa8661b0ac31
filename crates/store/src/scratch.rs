//! Scratch signals: temporary, never committed.
//!
//! Each is the only signal of a store of its own in its parent store's `tmp/`, or in the system's temporary folder if
//! the parent is read-only. Dropping the last handle removes the folder; after a crash, the parent's recovery or the
//! next scratch signal does.

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use isochrony_segment::Buffer;
use isochrony_system::blocks::punch_hole;
use isochrony_system::memory::available_memory;

use crate::append::{SignalWriter, checked_end, sample_count};
use crate::backend::Backend;
use crate::engine::io::failed;
use crate::engine::lock::is_held;
use crate::engine::{Engine, OpenMode};
use crate::error::StoreError;
use crate::fill::check_vacant;
use crate::layout::flat::Flat;
use crate::lease::Blocks;
use crate::media;
use crate::meta::SignalMeta;
use crate::op::Op;
use crate::options::{CreateOptions, Mode};
use crate::store::Store;
use crate::store_state::StoreState;

/// A temporary signal: works like others but is never listed or committed.
///
/// [`SignalWriter::write`] changes samples in place: existing segments show the new ones.
#[derive(Clone)]
pub struct Scratch {
    writer: SignalWriter,
    temporary: Arc<TemporaryStore>,
}

const NAME: &str = "scratch";

struct TemporaryStore {
    store: Store,
    folder: PathBuf,
    owner: u32,
}

impl Drop for TemporaryStore {
    fn drop(&mut self) {
        if self.owner != std::process::id() {
            // A forked child exits while its parent still uses the folder.
            return;
        }
        // Best effort: the parent's recovery empties `tmp/` too.
        let _ = self.store.close();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Scratch {
    pub(crate) fn new(
        shared: &Arc<StoreState>,
        options: &CreateOptions,
    ) -> Result<Self, StoreError> {
        let folder = match shared.backend.engine_in_place("make a scratch signal") {
            Ok(engine) => engine.new_tmp().1,
            Err(StoreError::ReadOnly { .. }) => {
                remove_abandoned(&std::env::temp_dir());
                system_folder()
            }
            Err(error) => return Err(error),
        };
        let engine = Engine::open(&folder, OpenMode::CreateNew)?;
        let store = Store::new(Backend::writer(&folder, engine), Mode::Create, true);
        let store = Arc::new(TemporaryStore {
            store,
            folder,
            owner: std::process::id(),
        });
        let writer = store.store.create(NAME, options)?;
        Ok(Self {
            writer,
            temporary: store,
        })
    }

    /// Folder of its files.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.temporary.folder
    }

    /// Turns a range into a gap and, if the file system can, punches out blocks that the gap then covers, also with
    /// ranges released earlier. Existing segments show zeros there. Gives the bytes freed.
    ///
    /// # Errors
    /// As [`SignalWriter::mark_invalid`], and [`StoreError::Io`].
    pub fn release(&self, range: Range<i64>) -> Result<u64, StoreError> {
        let (given_back, _) = self.take_back(range)?;
        Ok(given_back)
    }

    /// As [`fill_bytes`](SignalWriter::fill_bytes), but keeps the samples in memory, shared with readers, until the
    /// range is released, or samples are changed and move to the file.
    ///
    /// # Errors
    /// As [`fill_bytes`](SignalWriter::fill_bytes).
    pub fn hold(&self, index: i64, block: &Buffer) -> Result<(), StoreError> {
        let backend = &self.writer.shared.backend;
        backend.engine("fill a gap")?.allow_missing_samples();
        let mut kept = None;
        let outcome = self.writer.change("fill a gap", |state, _, change| {
            let samples = sample_count(state, block.bytes())?;
            let range = index..checked_end(index, samples)?;
            check_vacant(state, &range)?;
            if !range.is_empty() {
                backend.memory_blocks.keep(&range, block.clone());
                let (id, start, end) = (state.id, range.start, range.end);
                change.ops.push(Op::Valid { id, start, end });
                kept = Some(range);
            }
            Ok(())
        });
        if let (Err(_), Some(range)) = (&outcome, kept) {
            backend.memory_blocks.cut(&range);
        }
        outcome
    }

    /// From now on copies samples read from files, into `blocks` if available: mapped ones turn into zeros when
    /// released.
    pub fn copy_into(&self, blocks: &Arc<dyn Blocks>) {
        self.writer.shared.backend.copies.ask(blocks);
    }

    /// Memory for scratch signals: a quarter of what is available.
    #[must_use]
    pub fn free_memory() -> u64 {
        available_memory() / 4
    }

    /// As [`release`](Self::release); also gives memory blocks that lay in the range, for reuse when no reader holds
    /// them.
    ///
    /// # Errors
    /// As [`release`](Self::release).
    pub fn take_back(&self, range: Range<i64>) -> Result<(u64, Vec<Buffer>), StoreError> {
        let held = &self.writer.shared.backend.memory_blocks;
        let mut blocks = held.within(&range);
        blocks.retain(|(own, _)| range.start <= own.start && own.end <= range.end);
        self.writer.mark_invalid(range.clone())?;
        let covered: i64 = blocks.iter().map(|(own, _)| own.end - own.start).sum();
        let given_back = if covered == range.end - range.start {
            0
        } else {
            self.punch(range)?
        };
        Ok((
            given_back,
            blocks.into_iter().map(|(_, block)| block).collect(),
        ))
    }

    fn punch(&self, range: Range<i64>) -> Result<u64, StoreError> {
        let engine = self.writer.shared.backend.engine("release samples")?;
        // Keeps the writer's lock: nothing may fill the gap before its blocks are freed.
        self.writer.change("release samples", |state, _, _| {
            let mut given_back = 0;
            for gap in state.gaps.positions(state.gaps.overlapping(range.clone())) {
                let released = gap.start.max(range.start)..gap.end().min(range.end);
                for (shard, blocks) in covered(&state.meta, gap.range(), released) {
                    let path = engine.data_shard_path(state.id, shard)?;
                    let io = |source| failed(source, "release blocks of", &path);
                    if !path.exists() {
                        continue;
                    }
                    let file = File::options().write(true).open(&path).map_err(io)?;
                    if punch_hole(&file, blocks.clone()).map_err(io)? {
                        given_back += blocks.end - blocks.start;
                    }
                }
            }
            Ok(given_back)
        })
    }
}

/// Whole blocks of a gap with samples of a range.
fn covered(
    meta: &SignalMeta,
    gap: Range<i64>,
    range: Range<i64>,
) -> impl Iterator<Item = (u64, Range<u64>)> {
    let size = meta.format.size() as u64;
    let flat = Flat::data(meta);
    let bytes = |index: i64| index.max(0).cast_unsigned() * size;
    let (gap, range) = (
        bytes(gap.start)..bytes(gap.end),
        bytes(range.start)..bytes(range.end),
    );
    let len = range.end.saturating_sub(range.start);
    let spans = flat.spans(range.start, len);
    spans.filter_map(move |span| {
        let first = span.shard * flat.shard_bytes();
        let in_file =
            |byte: u64| flat.payload_start + byte.clamp(first, first + flat.shard_bytes()) - first;
        let end = span.offset + span.len;
        let (mut from, mut to) = (span.offset / BLOCK * BLOCK, end.next_multiple_of(BLOCK));
        if from < in_file(gap.start) {
            from = span.offset.next_multiple_of(BLOCK);
        }
        if to > in_file(gap.end) {
            to = end / BLOCK * BLOCK;
        }
        (from < to).then_some((span.shard, from..to))
    })
}

const BLOCK: u64 = 4096;

impl Deref for Scratch {
    type Target = SignalWriter;

    fn deref(&self) -> &SignalWriter {
        &self.writer
    }
}

const PREFIX: &str = "isochrony-scratch-";

fn system_folder() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{PREFIX}{}-{count}", std::process::id());
    std::env::temp_dir().join(name)
}

/// Younger folders may be in creation.
const MIN_AGE: Duration = Duration::from_secs(60);

/// Removes scratch signals that no process has locked. Process ids would not do: containers share folders, not ids.
fn remove_abandoned(temporary: &Path) {
    let Ok(found) = std::fs::read_dir(temporary) else {
        return;
    };
    for entry in found.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let age = entry
            .metadata()
            .ok()
            .and_then(|about| about.modified().ok());
        let settled = age
            .and_then(|made| made.elapsed().ok())
            .is_some_and(|age| age > MIN_AGE);
        let path = entry.path();
        if ours
            && settled
            && crate::layout::lock_file(&path).exists()
            && is_held(&*media::disk().rooted(&path), &path).is_ok_and(|held| !held)
        {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(scratch: &Scratch, range: Range<i64>) -> Vec<i32> {
        let signal = scratch.signal().unwrap();
        signal.select(range).unwrap().counts(-1).unwrap()
    }

    #[test]
    fn samples_that_are_held_in_memory_are_read_changed_and_released_as_those_in_files() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let rate = isochrony_time::Rate::from_hz(1).unwrap();
        let options = CreateOptions::new(isochrony_segment::DType::I32, rate);
        let scratch = store.scratch(&options).unwrap();
        scratch.append_gap(40).unwrap();
        let block = |from: i32| Buffer::copy_of(&(from..from + 10).collect::<Vec<i32>>()).unwrap();
        let (first, third) = (block(0), block(20));
        scratch.hold(0, &first).unwrap();
        scratch.fill(10, &(10..20).collect::<Vec<i32>>()).unwrap();
        scratch.hold(20, &third).unwrap();
        assert_eq!(scratch.hold(25, &block(0)).unwrap_err().code(), "occupied");
        assert_eq!(counting(&scratch, 0..30), (0..30).collect::<Vec<i32>>());
        let held = scratch.signal().unwrap().read(20..30).unwrap();
        let looked = held.buffers().next().unwrap().as_ptr();
        assert_eq!(looked, third.as_ptr(), "it was copied");
        scratch.write(8, &[-8, -9, -10]).unwrap();
        assert_eq!(counting(&scratch, 5..12), [5, 6, 7, -8, -9, -10, 11]);
        assert_eq!(first.samples::<i32>().unwrap()[8], 8, "a view changed");
        let (_, blocks) = scratch.take_back(25..30).unwrap();
        assert!(blocks.is_empty());
        assert_eq!(
            counting(&scratch, 18..28),
            [18, 19, 20, 21, 22, 23, 24, -1, -1, -1]
        );
        scratch.hold(25, &block(100).slice(0..20).unwrap()).unwrap();
        drop((held, third));
        let (_, mut blocks) = scratch.take_back(10..40).unwrap();
        assert_eq!(blocks.len(), 2);
        assert!(blocks.iter_mut().all(|block| block.get_mut().is_some()));
        assert_eq!(counting(&scratch, 5..12), [5, 6, 7, -8, -9, -1, -1]);
        scratch.fill(10, &[1; 30]).unwrap();
        assert_eq!(counting(&scratch, 38..40), [1, 1]);
    }

    #[test]
    fn removes_abandoned_scratch_but_none_in_use() {
        let temporary = tempfile::tempdir().unwrap();
        let [left, used, young] =
            ["left", "used", "young"].map(|name| temporary.path().join(format!("{PREFIX}{name}")));
        for path in [&left, &used, &young] {
            Engine::open(path, OpenMode::CreateNew)
                .unwrap()
                .close()
                .unwrap();
        }
        let _writer = Engine::open(&used, OpenMode::CreateIfMissing).unwrap();
        let old = std::time::SystemTime::now() - 2 * MIN_AGE;
        for path in [&left, &used] {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
        remove_abandoned(temporary.path());
        assert!(!left.exists() && used.exists() && young.exists());
    }
}
