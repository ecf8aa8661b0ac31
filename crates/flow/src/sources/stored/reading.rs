//! How a pass reads samples: strategy and piece length.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use isochrony_store::machine::choose;
use isochrony_store::{Signal, SignalReader, Strategy, Stretch};

use super::StoredRecording;
use super::contiguous::{ContiguousRanges, join_adjacent};
use super::pass::{PreviousEnd, StoredPass};
use super::skip::SkipMap;
use crate::OpError;
use crate::plan::error::store_error;
use crate::sources::segment_cutter::SegmentCutter;

impl StoredRecording {
    pub(super) fn reader(
        &self,
        signal: &Signal,
        parts: &[Stretch],
        segment: u64,
    ) -> Result<SignalReader, OpError> {
        let (strategy, piece) = self.pieces(signal, parts, segment);
        SignalReader::new(signal, parts, piece, strategy).map_err(store_error)
    }

    pub(super) fn pass_with(
        &self,
        reader: SignalReader,
        read: ContiguousRanges,
        before: PreviousEnd,
        segment: u64,
    ) -> StoredPass {
        StoredPass {
            signal: read.signal().clone(),
            reader,
            cut: SegmentCutter::new(segment),
            stream: self.stream(),
            total: read.total(),
            ranges: read,
            contiguous: 0..0,
            skips: None,
            skipped: VecDeque::new(),
            before,
            pending: None,
            announces_start: false,
        }
    }

    pub(super) fn pieces(
        &self,
        signal: &Signal,
        parts: &[Stretch],
        segment: u64,
    ) -> (Strategy, i64) {
        let strategy = self.strategy(signal, parts);
        // One segment, so that decoded samples are still cached for operators.
        let bytes = if signal.is_decoded() {
            0
        } else {
            strategy.piece_bytes()
        };
        let wanted = (bytes / signal.dtype().size() as u64) as i64;
        // Whole segments, so cuts do not depend on the strategy.
        let segment = SegmentCutter::new(segment).segment();
        let piece = (wanted / segment).max(1).saturating_mul(segment);
        (strategy, piece)
    }

    pub(super) fn strategy(&self, signal: &Signal, parts: &[Stretch]) -> Strategy {
        (self.io).unwrap_or_else(|| choose(signal, parts))
    }

    /// None: all is read.
    pub(super) fn skips(&self, read: &ContiguousRanges) -> Option<Arc<SkipMap>> {
        SkipMap::new(self.filter.as_ref()?, read).ok()
    }

    pub(super) fn explain_skipping(
        &self,
        signal: &Signal,
        parts: Vec<Stretch>,
        selection: Option<Arc<[Range<i64>]>>,
    ) -> (String, Vec<Stretch>) {
        let Some(filter) = &self.filter else {
            return (String::new(), parts);
        };
        let read = ContiguousRanges::new(signal.clone(), join_adjacent(parts));
        let read = read.of_selection(selection);
        let name = signal.name();
        match SkipMap::new(filter, &read) {
            Ok(skips) => (
                format!("{name}: {}\n", skips.describe(&read)),
                skips.kept(&read),
            ),
            Err(why) => (
                format!("{name}: all is read: {why}\n"),
                read.parts().to_vec(),
            ),
        }
    }
}
