//! Ranges of a stored signal that are not read, because no window with them passes the filter behind the scan. Databases
//! call it zone maps or data skipping.
//!
//! A [`WindowFilter`] is a filter of windows by their least and greatest samples, such as `s.max() > 1000`. Before a pass
//! begins, rows of the signal's views are looked up for all that is read, from the coarsest level down to that of which a
//! window holds two buckets; each level only where windows may still pass. This gives the set of indices at which no
//! window that passes begins ([`predicate`]). A [`SkipMap`] turns it, for each contiguous range and the grid on which its
//! windows are counted, into ranges that no window that may pass needs.
//!
//! A pass gives [`SourceEvent::Skipped`](crate::SourceEvent::Skipped) in place of such a range: `rewindow` begins anew
//! behind it, on the same grid, and operators behind the filter find windows removed, as behind any filter. So results are
//! the same to the bit. Where rows tell nothing, as behind the end of the views, samples are read.

mod index_ranges;
mod predicate;

use std::ops::Range;
use std::sync::Arc;

use isochrony_expr::Expr;
use isochrony_segment::{Calibration, DType};
use isochrony_store::views::{LEVELS, bucket, rows_stored};
use isochrony_store::{Signal, Stretch};

use super::contiguous::{ContiguousRange, ContiguousRanges, samples_in};
use super::{MOST_VIEWED_RANGES, StoredRecording};
use crate::plan::error::store_error;
use crate::{OpError, RangeOrigin, SharedRecording};
use index_ranges::{IndexRanges, union, without};
use predicate::ExtremesPredicate;

/// Rows of shorter buckets are not looked up: that would take a noticeable part of the time of reading the samples.
const MIN_BUCKET_BYTES: i64 = 8 << 10;
/// Shorter ranges are read: beginning anew behind them takes as long.
const MIN_SKIPPED_BYTES: u64 = 64 << 10;
/// Less is read as a whole: looking up views takes as long.
const MIN_READ_BYTES: u64 = 4 << 20;
/// All is read if less than one part in so many can be skipped.
const MIN_SKIPPED_PART: u64 = 64;
/// Most rows that are looked up at a time.
const ROWS_AT_ONCE: i64 = 1 << 16;
/// So many rows between two ranges are looked up with them: a separate look-up takes as long.
const ROWS_BETWEEN: i64 = 1 << 12;
/// Levels from one that is looked up to the next: buckets of 64 times the length.
const LEVELS_BETWEEN: usize = 2;

/// A filter of the windows of a stored signal that extremes of samples decide, at least in part.
#[derive(Debug)]
pub(crate) struct WindowFilter {
    window: i64,
    hop: i64,
    /// Windows are counted from the start of the contiguous range, read or not.
    counted_from_anchor: bool,
    predicate: ExtremesPredicate,
    /// As it is shown.
    shown: String,
}

impl WindowFilter {
    /// None if extremes exclude no window, whatever they are.
    pub(crate) fn new(
        (window, hop, counted_from_anchor): (u64, u64, bool),
        predicate: &Expr,
        dtype: DType,
        calibration: &Calibration,
    ) -> Option<Self> {
        // Stored are magnitudes of complex counts, from which values do not follow.
        if dtype.is_complex() {
            return None;
        }
        Some(Self {
            window: i64::try_from(window).ok()?,
            hop: i64::try_from(hop).ok()?,
            counted_from_anchor,
            shown: predicate.to_string(),
            predicate: ExtremesPredicate::new(predicate, dtype, calibration)?,
        })
    }

    /// Levels to look up, the coarsest first, of a signal whose views reach so far: down to that of the longest buckets of
    /// which a window holds two.
    fn levels(&self, dtype: DType, reach: i64) -> impl Iterator<Item = usize> {
        let size = dtype.size() as i64;
        let is_coarse = |&level: &usize| bucket(dtype, level) * size >= MIN_BUCKET_BYTES;
        let is_stored = |&level: &usize| rows_stored(dtype, level, reach) > 0;
        let stored: Vec<usize> = (0..LEVELS)
            .filter(is_coarse)
            .take_while(is_stored)
            .collect();
        let longer = |&level: &usize| bucket(dtype, level) > self.window / 2;
        let finest = stored.iter().position(longer).unwrap_or(stored.len());
        let from = finest.saturating_sub(1);
        let looked_at: Vec<usize> = stored.into_iter().skip(from).collect();
        looked_at.into_iter().step_by(LEVELS_BETWEEN).rev()
    }

    /// Where no window of these parts begins that passes.
    fn excluded(&self, signal: &Signal, parts: &[Stretch]) -> Result<IndexRanges, OpError> {
        let reach = signal.views_reach().map_err(store_error)?;
        let dtype = signal.dtype();
        let mut excluded = IndexRanges::new();
        for level in self.levels(dtype, reach) {
            let bucket = bucket(dtype, level);
            let mut found = Vec::new();
            for part in parts {
                let starts = part.range.start..part.range.end - self.window + 1;
                let starts = without(starts, &excluded).into_iter();
                // Samples of windows that may pass, and what lies between.
                let needed = starts.map(|starts| starts.start..starts.end - 1 + self.window);
                let between = ROWS_BETWEEN * bucket;
                let widened = needed.map(|range| range.start..range.end + between);
                for range in union(widened.collect()) {
                    let mut at = range.start;
                    let end = range.end - between;
                    while at < end {
                        let piece = at..end.min(at + ROWS_AT_ONCE * bucket);
                        at = piece.end;
                        let rows = signal.bucket_extremes(level, piece).map_err(store_error)?;
                        found.extend(self.predicate.excluded(&rows, self.window)?);
                    }
                }
            }
            found.append(&mut excluded);
            excluded = union(found);
        }
        Ok(excluded)
    }
}

impl StoredRecording {
    /// The recording without what only windows need that cannot pass a filter, or why all is read.
    pub(crate) fn skipping(&self, filter: WindowFilter) -> Result<SharedRecording, String> {
        if let Some((commit, _)) = self.pinned {
            return Err(format!(
                "the plan was sent and reads commit {commit}, and views are those of the newest"
            ));
        }
        let ranges = self.ranges.as_ref().map_or(1, Vec::len);
        if ranges > MOST_VIEWED_RANGES {
            return Err(format!(
                "{ranges} ranges are selected, and looking up the extremes of more than {MOST_VIEWED_RANGES} takes longer than reading"
            ));
        }
        let mut skipping = self.clone();
        skipping.filter = Some(Arc::new(filter));
        Ok(SharedRecording::new(skipping))
    }

    pub(crate) fn signal_name(&self) -> &str {
        self.signal.name()
    }
}

/// What of a signal need not be read.
pub(crate) struct SkipMap {
    filter: Arc<WindowFilter>,
    /// Where no window that passes begins.
    excluded: IndexRanges,
    min_skipped: i64,
}

impl SkipMap {
    /// Of what is read; why all of it has to be, if it has.
    pub(super) fn new(
        filter: &Arc<WindowFilter>,
        read: &ContiguousRanges,
    ) -> Result<Arc<Self>, String> {
        let (signal, total) = (read.signal(), read.total());
        let size = signal.dtype().size() as u64;
        if total * size < MIN_READ_BYTES {
            return Err(format!(
                "{total} samples are read as fast as stored extremes are looked up"
            ));
        }
        // Views are a cache: what cannot be looked up is read.
        let excluded = filter.excluded(signal, read.parts());
        let excluded = excluded.map_err(|error| error.to_string())?;
        let (filter, min_skipped) = (Arc::clone(filter), MIN_SKIPPED_BYTES / size);
        let map = Self {
            filter,
            excluded,
            min_skipped: min_skipped.cast_signed(),
        };
        let skipped = match map.excluded.is_empty() {
            true => 0,
            false => total - samples_in(signal, &map.kept(read)),
        };
        if skipped < (total / MIN_SKIPPED_PART).max(1) {
            return Err(format!(
                "stored extremes show of {skipped} of {total} samples that no window with them passes, which are too few"
            ));
        }
        Ok(Arc::new(map))
    }

    /// What `explain` says of it.
    pub(super) fn describe(&self, read: &ContiguousRanges) -> String {
        let (signal, total) = (read.signal(), read.total());
        let skipped = total - samples_in(signal, &self.kept(read));
        let reach = signal.views_reach().unwrap_or(0);
        let mut viewed = read.parts().to_vec();
        for Stretch { range, .. } in &mut viewed {
            range.end = range.end.min(reach).max(range.start);
        }
        let behind = match total - samples_in(signal, &viewed) {
            0 => String::new(),
            behind => format!("; the last {behind} have none yet and are read"),
        };
        format!(
            "{skipped} of {total} samples are skipped: their stored extremes show that no window with them passes filter({}){behind}",
            self.filter.shown
        )
    }

    /// What of a contiguous range is skipped, in order.
    pub(super) fn skipped(&self, of: &ContiguousRange) -> Vec<Range<i64>> {
        let WindowFilter { window, hop, .. } = *self.filter;
        let (range, first) = (&of.range, self.first_window(of));
        let mut skipped = Vec::new();
        let room = range.end - first - window;
        // Why there is no window at all, the samples tell.
        if room < 0 {
            return skipped;
        }
        let last = first + room / hop * hop;
        let mut skip = |range: Range<i64>| {
            if range.end - range.start >= self.min_skipped {
                skipped.push(range);
            }
        };
        // All before is read or skipped.
        let mut done = range.start;
        for starts in without(first..last + 1, &self.excluded) {
            let from = first + (starts.start - first + hop - 1) / hop * hop;
            let to = first + (starts.end - 1 - first) / hop * hop;
            // Windows may begin only beside it.
            if from > to {
                continue;
            }
            skip(done..from);
            done = done.max(to + window);
        }
        skip(done..range.end);
        skipped
    }

    /// Start of the first window of a contiguous range.
    fn first_window(&self, of: &ContiguousRange) -> i64 {
        let RangeOrigin { anchor, first } = of.origin;
        let grid = match self.filter.counted_from_anchor {
            true => anchor,
            false => first,
        };
        let ahead = of.range.start - grid.min(of.range.start);
        let hop = self.filter.hop;
        of.range.start + (hop - ahead % hop) % hop
    }

    /// What is left to read.
    pub(super) fn kept(&self, read: &ContiguousRanges) -> Vec<Stretch> {
        let mut kept: Vec<Stretch> = Vec::new();
        for range in read.clone() {
            let skipped = self.skipped(&range);
            let run = range.run;
            let ranges = without(range.range, &skipped);
            kept.extend(ranges.into_iter().map(|range| Stretch { run, range }));
        }
        kept
    }
}
