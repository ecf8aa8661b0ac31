//! Resamples a signal at the times of another stream's samples.
//!
//! Clocks give the times of every reference sample and of every 64th signal sample from the start of the contiguous
//! range, with straight lines between. They are queried in blocks; results do not depend on cuts.

mod interpolation_buffer;

use std::collections::VecDeque;
use std::ops::Range;
use std::slice::from_ref;
use std::sync::Arc;

use isochrony_dsp::interpolate::Interpolation;
use isochrony_expr::Expr;
use isochrony_segment::{Calibration, DType, SigSeg, StreamId};
use smallvec::SmallVec;

use super::join::same_grid;
use crate::operators::filters::sample_input::SampleInput;
use crate::operators::general::compiled::CompiledExpr;
use crate::operators::wrong_input;
use interpolation_buffer::{InterpolationBuffer, LookupResult, MARK_SPACING};

use crate::operator;
use crate::plan::rows::clock_of;
use crate::{
    Alignment, Break, Clock, Contract, InputBounds, Inputs, Item, Next, OpError, OpErrorKind,
    Operator, OperatorProperties, Out, PlanError, Port, PortType, json,
};

const MAX_TIMES: i64 = 4096;

/// Sample period if indices serve as times.
const INDEX_PERIOD: i64 = 1 << 20;

operator! {
    /// Resamples this plan's samples at the times of another's, so that both can be zipped.
    ///
    /// # Inputs
    /// Real samples, shape (n,).
    ///
    /// `to`: samples at whose times to resample.
    ///
    /// # Returns
    /// Samples with the indices of `to`, shape (n,), float64, in this plan's unit. Edges: values that need samples
    /// beyond a gap, a clock step or an end are left out; gaps of `to` stay. No delay in time.
    ///
    /// # Conventions
    /// Signals of one store have their own clocks; times are those of both clocks, to the nanosecond. In memory,
    /// without clocks, indices are times. A sine of amplitude A at w radians per sample has an error of at most A w² /
    /// 8 ("linear") or 3 A w⁴ / 128 ("cubic"): 5e-4 A and 4e-7 A at a hundredth of the rate. NaN spreads to the values
    /// that need it. Frequencies above half the rate of `to` alias: use `lowpass` first. Cut windows after the zip,
    /// which knows where the gap-free ranges of `to` begin.
    ///
    /// # Errors
    /// The input is not real samples; the two have no time in common.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> here, there = iso.scan(np.arange(5.0) ** 2, rate=10), iso.scan(np.zeros(9), rate=10)
    /// >>> here.align(there, method="linear").collect()
    /// array([ 0.,  1.,  4.,  9., 16.])
    /// ```
    pub struct Align = "align" (Inputs::Exactly(2)) {
        /// Interpolation: a line through two samples, or a cubic through four.
        method: String = "text" { choices: &["linear", "cubic"], default: || json!("cubic") },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    method: Interpolation,
    /// Of signal and reference; None: equal indices are equal times.
    clocks: Option<[Arc<dyn Clock>; 2]>,
    /// The signal's, in ns.
    period: f64,
    values: CompiledExpr,
    stream: StreamId,
    /// Contiguous ranges of the signal that may still be needed.
    buffers: VecDeque<InterpolationBuffer>,
    /// Reference samples that wait for an answer, and times of the first of them.
    waiting: VecDeque<Range<i64>>,
    times: Vec<i64>,
    /// Indices of `times`.
    times_range: Range<i64>,
    /// Index up to which the reference has arrived.
    upto: i64,
    /// Time up to which the signal has arrived.
    signal_upto: i64,
    open_inputs: usize,
    ended: bool,
}

impl BoundState {
    fn times(&self, of: usize, indices: &[i64], times: &mut [i64]) -> Result<(), OpError> {
        match &self.clocks {
            Some(clocks) => {
                let known = clocks[of].times(indices, times);
                known.map_err(|cause| OpErrorKind::Failed(cause).into())
            }
            None => {
                let indices = times.iter_mut().zip(indices);
                indices.for_each(|(time, index)| *time = index.saturating_mul(INDEX_PERIOD));
                Ok(())
            }
        }
    }

    fn add(&mut self, samples: &SigSeg) -> Result<(), OpError> {
        let samples = samples.materialise()?;
        if samples.is_empty() {
            return Ok(());
        }
        let mut ends = [0; 2];
        self.times(0, &[samples.start(), samples.end() - 1], &mut ends)?;
        let continues = self.buffers.back().is_some_and(|buffer| {
            // As integers: doubles round present-day times to 256 ns.
            let step = ends[0].saturating_sub(buffer.last) as f64;
            let steady = (step - self.period).abs() <= 1e-3 * self.period + 2.0;
            !buffer.complete && buffer.end() == samples.start() && steady
        });
        if !continues {
            self.complete_last();
            // Unknown times match nothing.
            if ends.contains(&i64::MIN) {
                return Ok(());
            }
            self.buffers
                .push_back(InterpolationBuffer::new(samples.start(), ends[0]));
        }
        let Some(mut buffer) = self.buffers.pop_back() else {
            return Ok(());
        };
        let from = buffer.values.len();
        buffer.values.resize(from + samples.len() as usize, 0.0);
        let into = bytemuck::cast_slice_mut(&mut buffer.values[from..]);
        self.values.run_items([&Item::Samples(samples)], into)?;
        let marks = buffer.marks.len()..buffer.values.len().div_ceil(MARK_SPACING);
        let indices: Vec<i64> = marks
            .map(|mark| buffer.start + (mark * MARK_SPACING) as i64)
            .collect();
        let known = buffer.marks.len();
        buffer.marks.resize(known + indices.len(), 0);
        self.times(0, &indices, &mut buffer.marks[known..])?;
        buffer.last = ends[1];
        self.buffers.push_back(buffer);
        Ok(())
    }

    fn complete_last(&mut self) {
        if let Some(last) = self.buffers.back_mut() {
            last.complete = true;
        }
    }

    fn find(&mut self, time: i64) -> LookupResult {
        if time == i64::MIN {
            return LookupResult::Missing;
        }
        // Times rise within a contiguous range. If a clock was set back, fewer values are found.
        while let Some(first) = self.buffers.front()
            && first.complete
            && first.last < time
        {
            self.buffers.pop_front();
        }
        match self.buffers.front_mut() {
            Some(buffer) => buffer.find(time, self.method),
            None if self.ended || time < self.signal_upto => LookupResult::Missing,
            None => LookupResult::Pending,
        }
    }

    fn raise_signal(&mut self, upto: i64) -> Result<(), OpError> {
        // What follows does not continue the last samples.
        if self.buffers.back().is_some_and(|last| last.end() < upto) {
            self.complete_last();
        }
        let mut time = [upto];
        if upto != i64::MAX {
            self.times(0, &[upto], &mut time)?;
        }
        self.signal_upto = self.signal_upto.max(time[0]);
        Ok(())
    }

    /// Looks up times of the first waiting samples, at most one block.
    fn look_up_times(&mut self, range: &Range<i64>) -> Result<(), OpError> {
        if self.times_range.start == range.start && !self.times_range.is_empty() {
            return Ok(());
        }
        let end = range.end.min(range.start.saturating_add(MAX_TIMES));
        self.times_range = range.start..end;
        let indices: Vec<i64> = self.times_range.clone().collect();
        let mut times = std::mem::take(&mut self.times);
        times.clear();
        times.resize(indices.len(), 0);
        let known = self.times(1, &indices, &mut times);
        self.times = times;
        known
    }

    fn emit_available(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        while let Some(range) = self.waiting.front().cloned() {
            self.look_up_times(&range)?;
            let times = std::mem::take(&mut self.times);
            let mut block = out.alloc(DType::F64, times.len())?;
            let values = block.samples_mut::<f64>();
            // Runs of consecutive values, and number of times answered.
            let mut runs: SmallVec<[Range<usize>; 4]> = SmallVec::new();
            let mut done = 0;
            for &time in &times {
                match self.find(time) {
                    LookupResult::Value(value) => {
                        values[done] = value;
                        match runs.last_mut() {
                            Some(run) if run.end == done => run.end += 1,
                            _ => runs.push(done..done + 1),
                        }
                    }
                    LookupResult::Missing => {}
                    LookupResult::Pending => break,
                }
                done += 1;
            }
            if let (Some(buffer), Some(&time)) = (self.buffers.front_mut(), times.get(done)) {
                buffer.discard_before(time);
            }
            let finished = done == times.len();
            self.times = times;
            let buffer = out.seal(block);
            for run in runs {
                let size = size_of::<f64>();
                let start = range.start + run.start as i64;
                if let Some(values) = buffer.slice(run.start * size..run.end * size) {
                    let samples = SigSeg::new(values, start, DType::F64, self.stream)?;
                    out.emit(0, &mut samples.into())?;
                }
            }
            let next = range.start + done as i64;
            self.times.drain(..done);
            self.times_range.start = next;
            match next == range.end {
                true => drop(self.waiting.pop_front()),
                false => self.waiting[0].start = next,
            }
            if !finished {
                break;
            }
        }
        let held = self.buffers.iter().map(|buffer| buffer.values.len());
        out.holds((held.sum::<usize>() * size_of::<f64>()) as u64)
    }
}

impl Operator for Align {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let &[signal, reference] = inputs else {
            return Err(PlanError::Inputs {
                operator: "align",
                expected: "2".into(),
                got: inputs.len(),
            });
        };
        SampleInput::real("align", &signal)?;
        let (Some(own), PortType::Samples { stream: other, .. }) = (signal.stream_id(), reference)
        else {
            return Err(wrong_input(
                "align",
                "samples to align to",
                &reference,
                match reference {
                    PortType::Frames { .. } => "align before rewindow(...)",
                    _ => "give samples to align to",
                },
            ));
        };
        // Arrays in memory share a timebase, also at different rates.
        let is_same_grid = same_grid(own, other);
        let clocks = match (is_same_grid, clock_of(own), clock_of(other)) {
            (true, ..) => None,
            (false, Some(a), Some(b)) => Some([a, b]),
            _ => {
                return Err(PlanError::InputsDiffer {
                    operator: "align",
                    first: signal.to_string(),
                    port: 1,
                    other: reference.to_string(),
                    mend: "they have different timebases or rates and one of them knows no civil time by which they could \
                           meet; store both with start=",
                });
            }
        };
        let mut values = CompiledExpr::default();
        let doubles = Expr::input().astype(DType::F64);
        values.bind("align", Some(&doubles), from_ref(&signal))?;
        let (from, to) = (own.get(), other.get());
        let unit = from.calibration.unit();
        let mut stream = to.clone();
        stream.name = from.name.clone();
        let stream = stream
            .with_calibration(Calibration::identity(unit))
            .intern();
        self.bound = Some(BoundState {
            method: match self.method.as_str() {
                "linear" => Interpolation::Linear,
                _ => Interpolation::Cubic,
            },
            period: match clocks {
                Some(_) => 1e9 / from.rate.to_f64(),
                None => INDEX_PERIOD as f64,
            },
            clocks,
            values,
            stream,
            buffers: VecDeque::new(),
            waiting: VecDeque::new(),
            times: Vec::new(),
            times_range: 0..0,
            upto: i64::MIN,
            signal_upto: i64::MIN,
            open_inputs: 2,
            ended: false,
        });
        let dtype = DType::F64;
        let properties = OperatorProperties::new([PortType::Samples { dtype, stream }])
            .align(Alignment::Resampled);
        Ok(properties
            .contract(Contract::Sequential)
            .cost_ns(15.0)
            .data_dependent())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(Next::Done);
        };
        let Item::Samples(samples) = &*item else {
            return Err(OpErrorKind::WrongItem {
                expected: "samples",
                got: item.kind(),
            }
            .into());
        };
        if port == 0 {
            bound.add(samples)?;
        } else if !samples.is_empty() {
            bound.waiting.push_back(samples.range());
            bound.upto = samples.end();
        }
        bound.emit_available(out)?;
        Ok(Next::Consumed)
    }

    fn raise_bounds(
        &mut self,
        port: Port,
        bounds: InputBounds,
        out: &mut Out<'_>,
    ) -> Result<(), OpError> {
        let (Some(bound), upto) = (&mut self.bound, bounds.input) else {
            return Ok(());
        };
        match port {
            _ if upto == i64::MIN => return Ok(()),
            0 => bound.raise_signal(upto)?,
            _ => bound.upto = bound.upto.max(upto),
        }
        bound.emit_available(out)
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        if let (Some(bound), Break::Rewind) = (&mut self.bound, why) {
            (bound.upto, bound.signal_upto) = (i64::MIN, i64::MIN);
        }
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(());
        };
        bound.open_inputs -= 1;
        // Queued items follow the end of their input: only the last end counts.
        if bound.open_inputs == 0 {
            bound.complete_last();
            bound.ended = true;
            bound.emit_available(out)?;
        }
        Ok(())
    }

    fn progress(&mut self, _: Port, _: i64) -> i64 {
        let Some(bound) = &self.bound else {
            return i64::MIN;
        };
        let first = bound.waiting.front().map(|range| range.start);
        first.unwrap_or(bound.upto)
    }
}
