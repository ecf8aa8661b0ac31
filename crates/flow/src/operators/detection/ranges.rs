//! Merges windows into ranges.

use std::ops::Range;

use smallvec::SmallVec;

use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PlanError, Port, PortType, json,
};

operator! {
    /// Merges windows that touch or overlap into ranges of indices.
    ///
    /// # Inputs
    /// Windows of any kind, or ranges.
    ///
    /// # Returns
    /// Ranges, shape (n, 2): start and end (exclusive) in samples, int64. `sync`, `rows` and `annotate` take them. No
    /// edges; a range is known when the next one does not join it.
    ///
    /// # Conventions
    /// Ranges never join across a gap or a clock step. Widened ranges may reach into a gap; none starts before index 0.
    ///
    /// # Errors
    /// The input is neither windows nor ranges.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> loud = iso.scan(np.arange(12) % 6, rate=100).rewindow(2).filter(lambda s: s.max() > 1)
    /// >>> loud.ranges().collect()
    /// array([[ 2,  6],
    ///        [ 8, 12]])
    /// ```
    pub struct ToRanges = "ranges" (Inputs::Exactly(1)) {
        /// Ranges with this many samples or fewer between them become one.
        join: u64 = "integer" { unit: Samples, range: (0.0, 70368744177664.0), default: || json!(0) },
        /// Samples by which each range starts earlier.
        before: u64 = "integer" { unit: Samples, range: (0.0, 70368744177664.0), default: || json!(0) },
        /// Samples by which each range ends later.
        after: u64 = "integer" { unit: Samples, range: (0.0, 70368744177664.0), default: || json!(0) },
    }
    state {
        /// The last range, which may grow.
        open: Option<Range<i64>>,
        port: Option<PortType>,
    }
}

type CompleteRanges = SmallVec<[Range<i64>; 2]>;

impl ToRanges {
    /// Ranges come in order of start.
    fn add(&mut self, range: Range<i64>, complete: &mut CompleteRanges) {
        let start = range.start.saturating_sub_unsigned(self.before).max(0);
        let end = range.end.saturating_add_unsigned(self.after);
        match &mut self.open {
            Some(open) if start <= open.end.saturating_add_unsigned(self.join) => {
                open.end = open.end.max(end);
            }
            open => complete.extend(open.replace(start..end)),
        }
    }

    fn emit_ranges(&self, ranges: CompleteRanges, out: &mut Out<'_>) -> Result<(), OpError> {
        let stream = self.port.as_ref().and_then(PortType::stream_id);
        match stream {
            Some(stream) if !ranges.is_empty() => {
                out.emit(0, &mut Item::Ranges(crate::Ranges { stream, ranges }))
            }
            _ => Ok(()),
        }
    }

    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let last = self.open.take().into_iter().collect();
        self.emit_ranges(last, out)
    }
}

impl Operator for ToRanges {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let stream = inputs.first().and_then(PortType::stream_id);
        let Some(stream) = stream else {
            return Err(crate::operators::wrong_input(
                "ranges",
                "windows",
                inputs.first().unwrap_or(&PortType::Count),
                "put it before what counts",
            ));
        };
        self.port = inputs.first().copied();
        let properties = OperatorProperties::new([PortType::Ranges { stream }]);
        Ok(properties
            .contract(Contract::Sequential)
            .cost_ns(0.1)
            .data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let mut complete = CompleteRanges::new();
        match &*item {
            Item::Frames(frames) => {
                let reach = frames.window() + self.before + self.after + self.join;
                if frames.hop() <= reach {
                    self.add(frames.start()..frames.end(), &mut complete);
                } else {
                    for k in 0..frames.count() {
                        let start = frames.window_start(k);
                        let end = start.saturating_add_unsigned(frames.window());
                        self.add(start..end, &mut complete);
                    }
                }
            }
            Item::Samples(samples) => self.add(samples.range(), &mut complete),
            Item::Ranges(ranges) => {
                for range in &ranges.ranges {
                    self.add(range.clone(), &mut complete);
                }
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "frames",
                    got: other.kind(),
                }
                .into());
            }
        }
        self.emit_ranges(complete, out)?;
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        match why {
            // A filter removed items; the indices tell how many.
            Break::Removed => Ok(()),
            _ => self.flush(out),
        }
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let next = upto.saturating_sub_unsigned(self.before);
        self.open.as_ref().map_or(next, |open| open.start.min(next))
    }
}
