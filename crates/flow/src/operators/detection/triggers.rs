//! Two-threshold trigger on a stream of numbers.

use std::ops::Range;

use isochrony_dsp::detect::{Grid, Triggers as TriggerDetector};
use isochrony_expr::Expr;
use isochrony_segment::DType;
use isochrony_time::SampleCount;
use serde_json::Value;
use smallvec::SmallVec;
use std::slice::from_ref;

use crate::operator;
use crate::operators::filters::numbers::{NumberInput, frames_to_samples};
use crate::operators::general::compiled::CompiledExpr;
use crate::operators::kernel_error;
use crate::{
    Break, Contract, Inputs, Item, Length, Next, OpError, OpErrorKind, Operator,
    OperatorProperties, Out, ParameterUpdate, PlanError, Port, PortType, Ranges, json,
};

/// 16 KiB of doubles.
const TILE_VALUES: usize = 2048;

operator! {
    /// Detects ranges with a two-threshold trigger: a range starts where the value reaches `on` and ends before it
    /// falls below `off`.
    ///
    /// # Inputs
    /// Real samples, shape (n,), or windows of one number each; a range then covers whole windows.
    ///
    /// # Returns
    /// Ranges, shape (n, 2): start and end (exclusive) in samples, int64. `sync`, `rows` and `annotate` take them.
    /// Edges: a range ends with its gap-free range, and where a filter removed windows. Delay: until the range has
    /// ended and no other can merge with it.
    ///
    /// # Conventions
    /// ObsPy's `trigger_onset` names the last index of a range where this gives the index after it. NaN is below both
    /// thresholds. Ranges are merged before short ones are dropped.
    ///
    /// # Errors
    /// `off` above `on`; a negative time; input that is not real.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> iso.scan(np.array([0, 4, 3, 2, 0, 5, 0]), rate=1).triggers(on=4, off=3).collect()
    /// array([[1, 3],
    ///        [5, 6]])
    /// ```
    pub struct Triggers = "triggers" (Inputs::Exactly(1)) {
        /// Threshold at which a range starts.
        on: f64 = "number" { unit: Of("of the numbers' unit"), adjustable: true },
        /// Threshold below which it ends. Left out: `on`.
        off: Option<f64> = "number" { unit: Of("of the numbers' unit"), default: || json!(null), adjustable: true, positional: true },
        /// Drops ranges shorter than this.
        min_length: Length = "number" { unit: Seconds, range: (0.0, 1e9), default: || json!(0.0) },
        /// Merges ranges with this much time or less between them.
        merge: Length = "number" { unit: Seconds, range: (0.0, 1e9), default: || json!(0.0) },
    }
    state {
        values: CompiledExpr,
        tile: Vec<f64>,
        detector: Option<TriggerDetector>,
        port: Option<PortType>,
    }
}

type CompleteRanges = SmallVec<[Range<i64>; 2]>;

impl Triggers {
    fn emit_ranges(&self, ranges: CompleteRanges, out: &mut Out<'_>) -> Result<(), OpError> {
        match self.port.as_ref().and_then(PortType::stream_id) {
            Some(stream) if !ranges.is_empty() => {
                out.emit(0, &mut Item::Ranges(Ranges { stream, ranges }))
            }
            _ => Ok(()),
        }
    }

    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let mut complete = CompleteRanges::new();
        if let Some(detector) = &mut self.detector {
            detector.finish(|range| complete.push(range));
        }
        self.emit_ranges(complete, out)
    }

    fn detect(
        &mut self,
        part: &Item,
        grid: Grid,
        count: usize,
        complete: &mut CompleteRanges,
    ) -> Result<(), OpError> {
        let tile = &mut self.tile[..count];
        self.values
            .run_items([part], bytemuck::cast_slice_mut(tile))?;
        if let Some(detector) = &mut self.detector {
            detector.run(tile, grid, |range| complete.push(range));
        }
        Ok(())
    }
}

impl Operator for Triggers {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = NumberInput::real("triggers", &inputs[0])?;
        let port = input.numbers();
        let Some(stream) = port.stream_id() else {
            return Err(crate::operators::wrong_input(
                "triggers",
                "samples",
                &port,
                "give samples",
            ));
        };
        let values = Expr::input().astype(DType::F64);
        self.values
            .bind("triggers", Some(&values), from_ref(&port))?;
        self.port = Some(port);
        self.tile = vec![0.0; TILE_VALUES];
        // Whole samples, for windows too: the minimum rounded up, the merge distance down.
        let samples = |length: Length| length.count(stream.get().rate);
        let min_length = samples(self.min_length).and_then(SampleCount::ceil);
        let merge = samples(self.merge).and_then(SampleCount::floor);
        let (min_length, merge) = (min_length.unwrap_or(u64::MAX), merge.unwrap_or(u64::MAX));
        let off = self.off.unwrap_or(self.on);
        let detector = TriggerDetector::new(self.on, off, min_length, merge);
        self.detector = Some(detector.map_err(|error| kernel_error("triggers", error))?);
        let properties = OperatorProperties::new([PortType::Ranges { stream }]);
        Ok(properties
            .contract(Contract::Sequential)
            .contiguous()
            .cost_ns(0.3)
            .data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let mut complete = CompleteRanges::new();
        match &*item {
            Item::Samples(samples) => {
                let samples = samples.materialise()?;
                let mut start = samples.start();
                while start < samples.end() {
                    let end = samples.end().min(start + TILE_VALUES as i64);
                    let grid = Grid {
                        start,
                        hop: 1,
                        span: 1,
                    };
                    let part = samples.subseg(start..end)?.into();
                    self.detect(&part, grid, (end - start) as usize, &mut complete)?;
                    start = end;
                }
            }
            Item::Frames(frames) => {
                let (start, hop, span) = (frames.start(), frames.hop(), frames.window());
                // A call per window would be slow.
                let numbers = frames_to_samples(frames, 0, out)?;
                for from in (0..numbers.len()).step_by(TILE_VALUES) {
                    let count = (numbers.len() - from).min(TILE_VALUES as u64);
                    let grid = Grid {
                        start: start.saturating_add_unsigned(from * hop),
                        hop,
                        span,
                    };
                    let part = numbers.subseg(from as i64..(from + count) as i64)?.into();
                    self.detect(&part, grid, count as usize, &mut complete)?;
                }
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples or frames",
                    got: other.kind(),
                }
                .into());
            }
        }
        self.emit_ranges(complete, out)?;
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, _: Port, _: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.flush(out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let open = self.detector.as_ref().and_then(TriggerDetector::open_from);
        open.map_or(upto, |open| open.min(upto))
    }

    fn set(&mut self, params: &serde_json::Map<String, Value>) -> Result<ParameterUpdate, OpError> {
        let number = |name: &str| params.get(name).and_then(Value::as_f64);
        let (Some(on), Some(detector)) = (number("on"), &mut self.detector) else {
            return Ok(ParameterUpdate::Rebuild);
        };
        let off = number("off").unwrap_or(on);
        detector
            .set(on, off)
            .map_err(|error| OpErrorKind::Failed(error.into()))?;
        (self.on, self.off) = (on, number("off"));
        Ok(ParameterUpdate::Applied)
    }
}
