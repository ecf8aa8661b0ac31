//! Skips ranges of a stored signal in which no window passes the filter after the scan (zone maps, data skipping).
//!
//! A [`WindowFilter`] filters windows by their extremes, such as `s.max() > 1000`. Before a pass, view rows are looked
//! up from the coarsest level down to where a window holds two buckets, each only where windows may still pass. This
//! gives the indices at which no passing window begins ([`predicate`]). A [`SkipMap`], built once per execution, turns
//! them, per contiguous range and window grid, into ranges that no possibly passing window needs.
//!
//! Lists are bounded by [`MAX_RANGES`]; the excess is read, and so are short ranges and what views do not cover.
//!
//! A pass emits [`SourceEvent::Skipped`](crate::SourceEvent::Skipped) for a skipped range: `rewindow` restarts after it
//! on the same grid, and later operators see removed windows, so results are bit-identical.

mod index_ranges;
mod predicate;

use std::collections::VecDeque;
use std::ops::Range;
use std::slice::from_ref;
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

/// Looking up shorter buckets takes a noticeable part of the reading time.
const MIN_BUCKET_BYTES: i64 = 8 << 10;
/// Shorter ranges are read: restarting after them takes as long.
const MIN_SKIPPED_BYTES: u64 = 64 << 10;
/// 16 MiB. Also the resolution of look-ups, which matters from 64 GiB on.
const MAX_RANGES: usize = 1 << 20;
/// Less is read as a whole: looking up views takes as long.
const MIN_READ_BYTES: u64 = 4 << 20;
/// All is read if less than this fraction can be skipped.
const MIN_SKIPPED_PART: u64 = 64;
const ROWS_AT_ONCE: i64 = 1 << 16;
/// Fewer rows between ranges are looked up with them.
const ROWS_BETWEEN: i64 = 1 << 12;
/// Levels skipped between look-ups: buckets 64 times as long.
const LEVELS_BETWEEN: usize = 2;

#[derive(Debug)]
pub(crate) struct WindowFilter {
    window: i64,
    hop: i64,
    /// From the start of the contiguous range, read or not.
    counted_from_anchor: bool,
    predicate: ExtremesPredicate,
    shown: String,
}

impl WindowFilter {
    /// None if extremes never exclude a window.
    pub(crate) fn new(
        (window, hop, counted_from_anchor): (u64, u64, bool),
        predicate: &Expr,
        dtype: DType,
        calibration: &Calibration,
    ) -> Option<Self> {
        // Views store magnitudes of complex counts: they do not determine values.
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

    /// Coarsest first, down to the longest buckets of which a window holds two. `reach`: end of the views.
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

    fn excluded(
        &self,
        signal: &Signal,
        ranges: &[ContiguousRange],
        most: usize,
    ) -> Result<IndexRanges, OpError> {
        let reach = signal.views_reach().map_err(store_error)?;
        let mut excluded = IndexRanges::new();
        for level in self.levels(signal.dtype(), reach) {
            let starts = ranges.iter().flat_map(|ContiguousRange { range, .. }| {
                without(range.start..range.end - self.window + 1, &excluded)
            });
            let mut found = self.excluded_at(level, signal, starts, most)?;
            let is_full = found.len() >= most;
            found.append(&mut excluded);
            excluded = union(found);
            if is_full {
                break;
            }
        }
        Ok(excluded)
    }

    fn excluded_at(
        &self,
        level: usize,
        signal: &Signal,
        starts: impl Iterator<Item = Range<i64>>,
        most: usize,
    ) -> Result<Vec<Range<i64>>, OpError> {
        let bucket = bucket(signal.dtype(), level);
        let needed = starts.map(|starts| starts.start..starts.end - 1 + self.window);
        let between = ROWS_BETWEEN * bucket;
        let widened = needed.map(|range| range.start..range.end + between);
        let rows_at_once = ROWS_AT_ONCE.min(most as i64);
        let mut found = Vec::new();
        for range in union(widened.collect()) {
            let mut at = range.start;
            let end = range.end - between;
            while at < end && found.len() < most {
                let piece = at..end.min(at + rows_at_once * bucket);
                at = piece.end;
                let rows = signal.bucket_extremes(level, piece).map_err(store_error)?;
                found.extend(self.predicate.excluded(&rows, self.window)?);
            }
        }
        Ok(found)
    }

    fn skipped(
        &self,
        of: &ContiguousRange,
        excluded: &[Range<i64>],
        min_skipped: i64,
    ) -> Vec<Range<i64>> {
        let Self { window, hop, .. } = *self;
        let (range, first) = (&of.range, self.first_window(of));
        let mut skipped = Vec::new();
        let room = range.end - first - window;
        // Without any window, reading the samples tells why.
        if room < 0 {
            return skipped;
        }
        let last = first + room / hop * hop;
        let mut skip = |range: Range<i64>| {
            if range.end - range.start >= min_skipped {
                skipped.push(range);
            }
        };
        let mut done = range.start;
        for starts in without(first..last + 1, excluded) {
            let from = first + (starts.start - first + hop - 1) / hop * hop;
            let to = first + (starts.end - 1 - first) / hop * hop;
            // Windows begin only beside it.
            if from > to {
                continue;
            }
            skip(done..from);
            done = done.max(to + window);
        }
        skip(done..range.end);
        skipped
    }

    fn first_window(&self, of: &ContiguousRange) -> i64 {
        let RangeOrigin { anchor, first } = of.origin;
        let grid = match self.counted_from_anchor {
            true => anchor,
            false => first,
        };
        let ahead = of.range.start - grid.min(of.range.start);
        of.range.start + (self.hop - ahead % self.hop) % self.hop
    }
}

impl StoredRecording {
    /// The recording without skippable samples, or why all is read.
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

pub(crate) struct SkipMap {
    skipped: Vec<IndexRanges>,
    samples: u64,
    shown: String,
}

impl SkipMap {
    pub(super) fn new(filter: &WindowFilter, read: &ContiguousRanges) -> Result<Arc<Self>, String> {
        Self::with_most(filter, read, MAX_RANGES)
    }

    fn with_most(
        filter: &WindowFilter,
        read: &ContiguousRanges,
        most: usize,
    ) -> Result<Arc<Self>, String> {
        let (signal, total) = (read.signal(), read.total());
        let size = signal.dtype().size() as u64;
        if total * size < MIN_READ_BYTES {
            return Err(format!(
                "{total} samples are read as fast as stored extremes are looked up"
            ));
        }
        let min_skipped = (MIN_SKIPPED_BYTES / size).max(total / most as u64);
        let min_skipped = min_skipped.cast_signed();
        let ranges: Vec<ContiguousRange> = read.at_least(min_skipped).collect();
        if ranges.is_empty() {
            return Err(format!(
                "no range between gaps has {min_skipped} samples, and shorter ones are read as fast as they are skipped"
            ));
        }
        // Views are a cache: what cannot be looked up is read.
        let excluded = filter.excluded(signal, &ranges, most);
        let excluded = excluded.map_err(|error| error.to_string())?;
        let mut skipped = vec![IndexRanges::new(); read.parts().len()];
        if !excluded.is_empty() {
            for range in &ranges {
                skipped[range.part].extend(filter.skipped(range, &excluded, min_skipped));
            }
        }
        let all = skipped.iter().flatten();
        let samples = all.map(|range| range.end - range.start).sum::<i64>();
        let samples = samples.cast_unsigned();
        if samples < (total / MIN_SKIPPED_PART).max(1) {
            return Err(format!(
                "stored extremes show of {samples} of {total} samples that no window with them passes, which are too few"
            ));
        }
        let shown = filter.shown.clone();
        Ok(Arc::new(Self {
            skipped,
            samples,
            shown,
        }))
    }

    pub(super) fn describe(&self, read: &ContiguousRanges) -> String {
        let (signal, total) = (read.signal(), read.total());
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
            "{} of {total} samples are skipped: their stored extremes show that no window with them passes filter({}){behind}",
            self.samples, self.shown
        )
    }

    pub(super) fn skipped(&self, of: &ContiguousRange) -> VecDeque<Range<i64>> {
        let (all, range) = (&self.skipped[of.part], &of.range);
        let from = all.partition_point(|one| one.end <= range.start);
        let within = all[from..].iter().take_while(|one| one.start < range.end);
        within
            .map(|one| one.start.max(range.start)..one.end.min(range.end))
            .collect()
    }

    pub(super) fn kept(&self, read: &ContiguousRanges) -> Vec<Stretch> {
        let parts = read.numbered_parts().flat_map(|(number, part)| {
            let (run, range) = (part.run, part.range.clone());
            let kept = without(range, &self.skipped[number]).into_iter();
            kept.map(move |range| Stretch { run, range })
        });
        // Only a gap may remain between two skipped ranges.
        let has_samples = |part: &Stretch| samples_in(read.signal(), from_ref(part)) > 0;
        parts.filter(has_samples).collect()
    }
}

#[cfg(test)]
mod tests;
