//! The interpreter: walks windows block by block and calls loops.

use std::mem::take;

use isochrony_dsp::Isa;
use isochrony_segment::DType;
use smallvec::SmallVec;

use crate::kernels::{Others, Source, Value, WithinFn};
use crate::reduce::Reducer;

use super::frames::Frames;
use super::memory;
use super::scratch::{GROUP, Lines, Scratch, State, bytes, bytes_mut};
use super::steps::{
    ColumnOperand, ColumnStep, ColumnWork, Operand, Outcome, Pass, Plan, Run, SampleStep, Target,
};
use super::threshold::{self, Interval};

/// Bytes of samples that are walked again by the next pass before later ones are touched: half of a
/// small first-level cache.
const GROUP_BYTES: usize = 16 << 10;

/// Bytes of a block where no step leaves anything in a register.
const BARE_BLOCK: usize = 16 << 10;

/// Runs a plan over windows that fit it. `out` has exactly the room for the result.
pub(crate) fn run(
    plan: &Plan,
    scratch: &mut Scratch,
    state: &mut State,
    inputs: &[Frames<'_>],
    result: DType,
    out: &mut [u8],
) {
    let steps = inputs
        .iter()
        .map(|frames| frames.hop.max(frames.window) * frames.dtype.size());
    let group = if plan.walks() > 1 {
        (GROUP_BYTES / steps.sum::<usize>().max(1)).clamp(1, GROUP)
    } else {
        GROUP
    };
    let count = inputs[0].count;
    let mut first = 0;
    while first < count {
        let windows = group.min(count - first);
        for stage in &plan.stages {
            for column in &stage.columns {
                let dtype = plan.columns[column.column];
                if let ColumnWork::Input(input) = column.work {
                    let cells = &mut scratch.columns[column.column];
                    load(
                        &inputs[input],
                        first,
                        &mut bytes_mut(cells)[..windows * dtype.size()],
                    );
                } else {
                    run_column(column, scratch, state, windows, dtype);
                }
            }
            if let Some(pass) = &stage.pass {
                for window in 0..windows {
                    run_pass(pass, scratch, inputs, first + window, window, result, out);
                }
            }
        }
        if let Outcome::Column(column) = plan.outcome {
            let size = result.size();
            out[first * size..(first + windows) * size]
                .copy_from_slice(&bytes(&scratch.columns[column])[..windows * size]);
        }
        first += windows;
    }
}

/// The values of windows from `first` on, of an input that has one a window.
fn load(frames: &Frames<'_>, first: usize, out: &mut [u8]) {
    let size = frames.dtype.size();
    for (at, cell) in out.chunks_exact_mut(size).enumerate() {
        cell.copy_from_slice(&frames.bytes[(first + at) * frames.hop * size..][..size]);
    }
}

fn run_column(
    step: &ColumnStep,
    scratch: &mut Scratch,
    state: &mut State,
    windows: usize,
    dtype: DType,
) {
    let mut column = take(&mut scratch.columns[step.column]);
    let out = &mut bytes_mut(&mut column)[..windows * dtype.size()];
    let columns = &scratch.columns;
    let operands = step.operands.map(|(operand, dtype)| match operand {
        ColumnOperand::Column(at) => Source::Block(&bytes(&columns[at])[..windows * dtype.size()]),
        ColumnOperand::Constant(value) => Source::Value(value),
    });
    match step.work {
        ColumnWork::Map(run) => {
            let [a, b, c] = operands;
            let unused = Source::Value(Value::default());
            call(run, scratch.isa, [a, b, c, unused], out);
        }
        ColumnWork::Memory(memory, place) => {
            let followed = step.operands[0].1;
            memory::advance(memory, &mut state.memories[place], followed, operands, out);
        }
        // Loaded, not computed.
        ColumnWork::Input(_) => {}
    }
    scratch.columns[step.column] = column;
}

fn run_pass(
    pass: &Pass,
    scratch: &mut Scratch,
    inputs: &[Frames<'_>],
    window: usize,
    column_at: usize,
    result: DType,
    out: &mut [u8],
) {
    let samples: SmallVec<[&[u8]; 4]> = inputs
        .iter()
        .map(|frames| frames.bytes_of(window))
        .collect();
    // Inputs of samples have windows of one length, and those of values of windows have shorter ones.
    let (mut length, mut size) = (0, 1);
    for frames in inputs {
        length = length.max(frames.window);
        size = size.max(frames.dtype.size());
    }
    let steps = if scratch.thresholds(pass, length, column_at) {
        &pass.short
    } else {
        &pass.steps
    };
    let maps = steps
        .iter()
        .any(|step| !matches!(step, SampleStep::Gather { .. } | SampleStep::Tally { .. }));
    let block = if maps {
        scratch.block
    } else {
        BARE_BLOCK / size
    };
    let Scratch {
        isa,
        registers,
        columns,
        reducers,
        intervals,
        ..
    } = scratch;
    for reducer in &mut reducers[pass.reducers.clone()] {
        reducer.reset();
    }
    let mut done = 0;
    while done < length {
        let len = block.min(length - done);
        let at = (window * length + done) * result.size();
        let room = if maps { len * result.size() } else { 0 };
        let mut blocks = Blocks {
            isa: *isa,
            samples: &samples,
            done,
            len,
            registers,
            columns,
            column_at,
            reducers,
        };
        for step in steps {
            match step {
                SampleStep::Map {
                    target: Target::Output,
                    run,
                    operands,
                    ..
                } => {
                    blocks.map(*run, operands, &mut out[at..at + room]);
                }
                SampleStep::Map {
                    target: Target::Register(register),
                    run,
                    operands,
                    dtype,
                } => {
                    let mut lines = take(&mut blocks.registers[*register]);
                    blocks.map(
                        *run,
                        operands,
                        &mut bytes_mut(&mut lines)[..len * dtype.size()],
                    );
                    blocks.registers[*register] = lines;
                }
                SampleStep::Within {
                    run,
                    condition,
                    operand,
                    dtype,
                    target,
                } => {
                    let interval = intervals[*condition];
                    match target {
                        Target::Output => {
                            let out = &mut out[at..at + room];
                            blocks.within(*run, interval, *operand, *dtype, out);
                        }
                        Target::Register(register) => {
                            let mut lines = take(&mut blocks.registers[*register]);
                            let out = &mut bytes_mut(&mut lines)[..len];
                            blocks.within(*run, interval, *operand, *dtype, out);
                            blocks.registers[*register] = lines;
                        }
                    }
                }
                SampleStep::Tally {
                    run,
                    condition,
                    operand,
                    dtype,
                    reducer,
                } => {
                    let at = intervals[*condition];
                    if let Source::Block(block) = blocks.source(*operand, *dtype) {
                        let passing = run(blocks.isa, block, at.low, at.high, at.outside);
                        blocks.reducers[*reducer].tally(passing, len as u64);
                    }
                }
                SampleStep::TallyCompared {
                    run,
                    operands,
                    reducer,
                } => {
                    let [a, b] = operands.map(|(operand, dtype)| blocks.source(operand, dtype));
                    let passing = run(blocks.isa, a, b);
                    blocks.reducers[*reducer].tally(passing, len as u64);
                }
                SampleStep::Gather {
                    reducer,
                    operand,
                    dtype,
                } => {
                    blocks.gather(*reducer, *operand, *dtype);
                }
            }
        }
        done += len;
    }
    for finish in &pass.finishes {
        let value = reducers[finish.reducer].finish(finish.wanted);
        let column = bytes_mut(&mut columns[finish.column]);
        let size = finish.dtype.size();
        column[column_at * size..][..size].copy_from_slice(&value.0[..size]);
    }
}

impl Scratch {
    /// Finds the intervals of a pass's conditions for the window at hand; false if the ordinary
    /// steps must be taken.
    fn thresholds(&mut self, pass: &Pass, window: usize, column_at: usize) -> bool {
        if pass.short.is_empty() || window < threshold::SHORTEST {
            return false;
        }
        self.intervals.clear();
        for condition in &pass.conditions {
            let number = |operand: Operand, dtype: DType| match operand {
                Operand::Column(at) => {
                    let mut value = Value::default();
                    let cells = bytes(&self.columns[at]);
                    let size = dtype.size();
                    value.0[..size].copy_from_slice(&cells[column_at * size..][..size]);
                    value
                }
                Operand::Constant(value) => value,
                Operand::Input(_) | Operand::Register(_) => Value::default(),
            };
            match condition.interval(number) {
                Some(interval) => self.intervals.push(interval),
                None => return false,
            }
        }
        true
    }
}

/// What steps see of one block.
struct Blocks<'a> {
    isa: Isa,
    /// Samples of the window at hand, of each input.
    samples: &'a [&'a [u8]],
    /// Where the block begins in them, and its length.
    done: usize,
    len: usize,
    registers: &'a mut [Lines],
    columns: &'a [Lines],
    /// Row of the window at hand in the columns.
    column_at: usize,
    reducers: &'a mut [Box<dyn Reducer>],
}

impl Blocks<'_> {
    fn source(&self, operand: Operand, dtype: DType) -> Source<'_> {
        match operand {
            Operand::Input(input) => {
                let size = dtype.size();
                Source::Block(&self.samples[input][self.done * size..(self.done + self.len) * size])
            }
            Operand::Register(at) => {
                Source::Block(&bytes(&self.registers[at])[..self.len * dtype.size()])
            }
            Operand::Column(at) => {
                let size = dtype.size();
                let mut value = Value::default();
                let cell = &bytes(&self.columns[at])[self.column_at * size..][..size];
                value.0[..size].copy_from_slice(cell);
                Source::Value(value)
            }
            Operand::Constant(value) => Source::Value(value),
        }
    }

    fn map(&self, run: Run, operands: &[(Operand, DType); 4], out: &mut [u8]) {
        let operands = operands.map(|(operand, dtype)| self.source(operand, dtype));
        call(run, self.isa, operands, out);
    }

    fn within(&self, run: WithinFn, at: Interval, operand: Operand, dtype: DType, out: &mut [u8]) {
        if let Source::Block(block) = self.source(operand, dtype) {
            run(self.isa, block, at.low, at.high, at.outside, out);
        }
    }

    fn gather(&mut self, reducer: usize, operand: Operand, dtype: DType) {
        // Not `source`, which borrows the reducers, too.
        let size = dtype.size();
        let block = match operand {
            Operand::Register(at) => &bytes(&self.registers[at])[..self.len * size],
            Operand::Input(input) => {
                &self.samples[input][self.done * size..(self.done + self.len) * size]
            }
            Operand::Column(_) | Operand::Constant(_) => return,
        };
        self.reducers[reducer].update(self.isa, block);
    }
}

fn call(run: Run, isa: Isa, [a, b, c, d]: [Source<'_>; 4], out: &mut [u8]) {
    /// Loops of one operand always get a block: what is constant was folded, and what belongs to
    /// windows has loops over windows.
    fn block(source: Source<'_>) -> &[u8] {
        match source {
            Source::Block(block) => block,
            Source::Value(_) => &[],
        }
    }
    /// The second operand of a pair whose first one is a block.
    fn value(source: Source<'_>) -> Value {
        match source {
            Source::Block(_) => Value::default(),
            Source::Value(value) => value,
        }
    }
    match run {
        Run::Unary(run) => run(isa, block(a), out),
        Run::Calibrate(run, scale, offset) => run(isa, block(a), scale, offset, out),
        Run::Choose(run) => run(isa, a, b, c, d, out),
        Run::Lift(run) => run(isa, block(a), b, out),
        Run::Pair(run) => {
            let others = match (b, c) {
                (Source::Value(first), Source::Value(second)) => Others::Numbers(first, second),
                (Source::Value(first), Source::Block(second)) => Others::Second(first, second),
                (Source::Block(first), second) => Others::First(first, value(second)),
            };
            run(isa, block(a), others, out);
        }
        Run::Binary(run) => run(isa, a, b, out),
        Run::Select(run) => run(isa, a, b, c, out),
    }
}
