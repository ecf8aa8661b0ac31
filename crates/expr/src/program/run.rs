use std::mem::take;

use isochrony_segment::DType;
use smallvec::SmallVec;

use crate::kernels::{Source, Value};

use super::blocks::{Blocks, call};
use super::frames::Frames;
use super::memory;
use super::operand::Operand;
use super::scratch::{GROUP, Scratch, State, bytes, bytes_mut};
use super::steps::{
    ColumnOperand, ColumnStep, ColumnWork, Pass, Plan, ResultLocation, SampleStep, Target,
};
use super::threshold;

/// Bytes of samples per group of windows: half of a small L1 cache, for the next pass.
const GROUP_BYTES: usize = 16 << 10;

/// Bytes of a block if no step uses a register.
const BARE_BLOCK: usize = 16 << 10;

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
        if let ResultLocation::Column(column) = plan.outcome {
            let size = result.size();
            out[first * size..(first + windows) * size]
                .copy_from_slice(&bytes(&scratch.columns[column])[..windows * size]);
        }
        first += windows;
    }
}

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
            call(run, scratch.isa, operands, out);
        }
        ColumnWork::Memory(memory, place) => {
            let followed = step.operands[0].1;
            memory::advance(memory, &mut state.memories[place], followed, operands, out);
        }
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
    // Windows of samples have equal lengths; those of window values are shorter.
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
        numbers: chain_numbers,
        saved,
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
            numbers: chain_numbers,
            saved,
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
                SampleStep::Chain {
                    chain,
                    blocks: sources,
                    numbers,
                    place,
                    target,
                    dtype,
                } => match target {
                    Target::Output => {
                        let out = &mut out[at..at + room];
                        blocks.chain(chain, sources, (*place, numbers), out);
                    }
                    Target::Register(register) => {
                        let mut lines = take(&mut blocks.registers[*register]);
                        let out = &mut bytes_mut(&mut lines)[..len * dtype.size()];
                        blocks.chain(chain, sources, (*place, numbers), out);
                        blocks.registers[*register] = lines;
                    }
                },
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
    /// Returns false if ordinary steps are needed.
    fn thresholds(&mut self, pass: &Pass, window: usize, column_at: usize) -> bool {
        if pass.short.is_empty() || window < threshold::MIN_WINDOW {
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
