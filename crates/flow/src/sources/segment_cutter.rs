//! Cuts samples into segments of the plan's length.

use isochrony_dsp::prefetch_start;
use isochrony_segment::SigSeg;

use crate::{Break, OpError, RangeOrigin, SourceEvent};

/// Holds the rest of the last samples; segments are given by reference.
pub(crate) struct SegmentCutter {
    rest: Option<SigSeg>,
    segment: i64,
    end: Option<i64>,
}

impl SegmentCutter {
    pub(crate) fn new(segment: u64) -> Self {
        Self {
            rest: None,
            segment: i64::try_from(segment.max(1)).unwrap_or(i64::MAX),
            end: None,
        }
    }

    pub(crate) fn segment(&self) -> i64 {
        self.segment
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_none()
    }

    /// Takes samples of the contiguous range that begins at `anchor`. Returns the `RangeStart` before them, unless they
    /// continue the last ones.
    pub(crate) fn enter(&mut self, samples: SigSeg, anchor: i64) -> Option<SourceEvent> {
        let from = samples.start();
        self.rest = Some(samples);
        if self.end == Some(from) {
            return None;
        }
        let why = self.end.map(|end| Break::Gap(end..from));
        let origin = RangeOrigin {
            anchor,
            first: from,
        };
        Some(SourceEvent::RangeStart { origin, why })
    }

    pub(crate) fn put(&mut self, samples: SigSeg) {
        self.rest = Some(samples);
    }

    pub(crate) fn pull(&mut self) -> Result<Option<SourceEvent>, OpError> {
        if let Some(rest) = &mut self.rest {
            let cut = rest.start().saturating_add(self.segment);
            if cut < rest.end() {
                self.end = Some(cut);
                let front = rest.split_front(cut)?;
                if let Some(buffer) = front.buffers().next() {
                    prefetch_start(buffer.bytes());
                }
                return Ok(Some(SourceEvent::Item(front.into())));
            }
        }
        let Some(last) = self.rest.take() else {
            return Ok(None);
        };
        self.end = Some(last.end());
        Ok(Some(SourceEvent::Item(last.into())))
    }
}
