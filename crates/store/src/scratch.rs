//! Temporary signals.
//!
//! A scratch signal is the only one of a store of its own, which lies in the `tmp/` of the store that it was asked of (in
//! the system's temporary folder if that is open for reading only). It is never committed and its folder is removed when
//! the last handle is dropped; what a crash leaves behind, recovery removes (in the system's folder, the next scratch
//! signal there).

use std::fs::File;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::append::SignalWriter;
use crate::backend::Backend;
use crate::engine::io::failed;
use crate::engine::lock::is_held;
use crate::engine::{Engine, OpenMode};
use crate::error::StoreError;
use crate::layout::flat::Flat;
use crate::media;
use crate::meta::SignalMeta;
use crate::options::{CreateOptions, Mode};
use crate::store::{Shared, Store};
use crate::strategy::system::punch_hole;

/// A temporary signal: written and read as any other, zero-copy too, but never listed nor committed.
///
/// [`SignalWriter::write`] changes its samples where they lie: segments taken before show the new ones.
#[derive(Clone)]
pub struct Scratch {
    writer: SignalWriter,
    held: Arc<TemporaryStore>,
}

/// Name of the signal in its store.
const NAME: &str = "scratch";

struct TemporaryStore {
    store: Store,
    folder: PathBuf,
}

impl Drop for TemporaryStore {
    fn drop(&mut self) {
        // Best effort: recovery of the surrounding store empties `tmp/` too.
        let _ = self.store.close();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Scratch {
    pub(crate) fn new(shared: &Arc<Shared>, options: &CreateOptions) -> Result<Self, StoreError> {
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
        let store = Arc::new(TemporaryStore { store, folder });
        let writer = store.store.create(NAME, options)?;
        Ok(Self {
            writer,
            held: store,
        })
    }

    /// Where its files lie.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.held.folder
    }

    /// Makes a range a gap and gives its blocks back to the disk, where the file system can do that: those that the gap
    /// then covers as a whole, and so also one that the range shares with a neighbour that was released before. Segments
    /// taken before then show zeros there. Gives the bytes that were given back.
    ///
    /// # Errors
    /// As [`SignalWriter::mark_invalid`], and [`StoreError::Io`].
    pub fn release(&self, range: Range<i64>) -> Result<u64, StoreError> {
        self.writer.mark_invalid(range.clone())?;
        let engine = self.writer.shared.backend.engine("release samples")?;
        // With the writer's lock, so that nobody fills what is a gap until its blocks are gone.
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

/// The whole blocks of a gap that hold a sample of a range within it: by shard, as bytes of its file.
fn covered(
    meta: &SignalMeta,
    gap: Range<i64>,
    range: Range<i64>,
) -> impl Iterator<Item = (u64, Range<u64>)> {
    let size = meta.dtype.size() as u64;
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

/// Bytes of a block of common file systems.
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

/// Younger ones may be about to be made.
const SETTLED: Duration = Duration::from_secs(60);

/// Removes scratch signals whose process ended without doing so: nobody holds their lock. Process numbers would not do:
/// containers share folders, not numbers.
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
            .is_some_and(|age| age > SETTLED);
        let path = entry.path();
        if ours
            && settled
            && crate::layout::lock_file(&path).exists()
            && is_held(&*media::disk(), &path).is_ok_and(|held| !held)
        {
            // Best effort: the next one tries again.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_left_in_the_systems_folder_is_removed_and_what_is_used_is_not() {
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
        let old = std::time::SystemTime::now() - 2 * SETTLED;
        for path in [&left, &used] {
            File::open(path).unwrap().set_modified(old).unwrap();
        }
        remove_abandoned(temporary.path());
        assert!(!left.exists() && used.exists() && young.exists());
    }
}
