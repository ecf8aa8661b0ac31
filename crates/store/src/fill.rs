//! Fills reserved ranges of a signal in any order, also in parallel. A reserved range is a gap until it is filled, also
//! after a crash.

use std::ops::Range;

use isochrony_segment::Sample;
use isochrony_system::page_cache;

use crate::append::{SignalWriter, checked_end, sample_count};
use crate::error::StoreError;
use crate::layout::flat::Flat;
use crate::media::Access;
use crate::op::Op;
use crate::signal::Signal;
use crate::state::SignalState;
use crate::write::check_bounds;

impl SignalWriter {
    /// Writes samples into a gap, such as one of [`append_gap`](Self::append_gap). Atomic; visible to others after the
    /// next commit.
    ///
    /// ```
    /// use isochrony_segment::DType;
    /// use isochrony_store::{CreateOptions, Mode, Store};
    /// use isochrony_time::Rate;
    ///
    /// let folder = tempfile::tempdir()?;
    /// let store = Store::open(folder.path().join("sums.iso"), Mode::Create)?;
    /// let sums = store.create("sums", &CreateOptions::new(DType::F64, Rate::from_hz(10)?))?;
    /// sums.append_gap(6)?;
    /// sums.fill(4, &[5.0, 6.0])?;
    /// sums.fill(0, &[1.0, 2.0])?;
    /// assert_eq!(sums.signal()?.gaps().iter().map(|gap| gap.range()).collect::<Vec<_>>(), [2..4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::Occupied`] if any sample of the range exists; [`StoreError::OutOfBounds`],
    /// [`StoreError::DTypeMismatch`], [`StoreError::ReadOnly`], [`StoreError::Sealed`], [`StoreError::Io`].
    pub fn fill<T: Sample>(&self, index: i64, samples: &[T]) -> Result<(), StoreError> {
        self.check_dtype(T::DTYPE)?;
        self.fill_bytes(index, bytemuck::cast_slice(samples))
    }

    /// As [`fill`](Self::fill), from bytes in native order.
    ///
    /// # Errors
    /// As [`fill`](Self::fill), and [`StoreError::PartialSample`].
    pub fn fill_bytes(&self, index: i64, bytes: &[u8]) -> Result<(), StoreError> {
        self.change("fill a gap", |state, _, change| {
            let (start, end) = (index, checked_end(index, sample_count(state, bytes)?)?);
            check_vacant(state, &(start..end))?;
            if start < end {
                change.write(index, bytes);
                let id = state.id;
                change.ops.push(Op::Valid { id, start, end });
            }
            Ok(())
        })
    }
}

impl SignalWriter {
    /// Starts writing a range to disk, so that the next commit, which makes it durable and reports errors, is faster.
    pub fn write_back(&self, range: Range<i64>) {
        let (Ok(engine), Ok(state)) = (
            self.shared.backend.engine("write samples"),
            self.shared.backend.state(self.id),
        ) else {
            return;
        };
        let size = state.meta.format.size() as u64;
        let (start, end) = (range.start.max(0), range.end.min(state.end));
        let len = (end - start).max(0).cast_unsigned().saturating_mul(size);
        let spans = Flat::data(&state.meta).spans(start.cast_unsigned().saturating_mul(size), len);
        for span in spans {
            // The commit's own file must still report an error seen here.
            let path = engine.data_shard_path(state.id, span.shard);
            let Ok(path) = path else { continue };
            let file = engine.media().open(&path, Access::Read);
            if let Some(file) = file.as_ref().ok().and_then(|file| file.as_os_file()) {
                page_cache::write_back(file, span.offset..span.offset + span.len);
            }
        }
    }
}

pub(crate) fn check_vacant(state: &SignalState, range: &Range<i64>) -> Result<(), StoreError> {
    check_bounds(state, range)?;
    let (start, end) = (range.start, range.end);
    if state.gaps.missing_within(range.clone()) == end - start {
        return Ok(());
    }
    let first = state.gaps.first_within(range.clone());
    let at = first.map_or(
        start,
        |gap| if gap.start > start { start } else { gap.end() },
    );
    Err(StoreError::Occupied {
        signal: (*state.name).into(),
        start,
        end,
        at,
    })
}

impl Signal {
    /// Asks the system to read samples into the page cache, without waiting; gives the bytes asked for. Does nothing
    /// for sealed signals, foreign shards, and without Linux.
    #[must_use]
    pub fn prefetch(&self, range: Range<i64>) -> u64 {
        let within = range.start.max(0)..range.end.min(self.end_index());
        isochrony_io::prefetch(&self.source(), within)
    }
}
