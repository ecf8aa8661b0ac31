//! One block of samples, and the application of steps to it.

use std::mem::take;

use isochrony_dsp::Isa;
use isochrony_segment::DType;

use crate::kernels::{Chain, MAX_BLOCKS, Source, Value, WithinFn};
use crate::reduce::Reducer;

use super::operand::Operand;
use super::scratch::{Lines, bytes, bytes_mut};
use super::steps::Run;
use super::threshold::Interval;

pub(super) struct Blocks<'a> {
    pub(super) isa: Isa,
    pub(super) samples: &'a [&'a [u8]],
    /// Start of the block in the window.
    pub(super) done: usize,
    pub(super) len: usize,
    pub(super) registers: &'a mut [Lines],
    pub(super) columns: &'a [Lines],
    pub(super) column_at: usize,
    pub(super) reducers: &'a mut [Box<dyn Reducer>],
    pub(super) numbers: &'a mut [Lines],
    pub(super) saved: &'a mut Lines,
}

impl Blocks<'_> {
    pub(super) fn source(&self, operand: Operand, dtype: DType) -> Source<'_> {
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

    pub(super) fn chain(
        &mut self,
        chain: &Chain,
        sources: &[(Operand, DType)],
        (place, numbers): (usize, &[(Operand, DType)]),
        out: &mut [u8],
    ) {
        let (mut tiles, mut saved) = (take(&mut self.numbers[place]), take(self.saved));
        // Numbers are constant within a window.
        let new = if self.done == 0 { numbers } else { &[] };
        for (at, &(operand, dtype)) in new.iter().enumerate() {
            if let Operand::Column(_) = operand
                && let Source::Value(value) = self.source(operand, dtype)
            {
                chain.fill(at, value, dtype, bytes_mut(&mut tiles));
            }
        }
        let mut blocks = [&[][..]; MAX_BLOCKS];
        for (block, &(operand, dtype)) in blocks.iter_mut().zip(sources) {
            if let Source::Block(source) = self.source(operand, dtype) {
                *block = source;
            }
        }
        let room = &mut bytes_mut(&mut saved)[..chain.saved_bytes()];
        let tiled = &bytes(&tiles)[..chain.number_bytes()];
        chain.run(self.isa, &blocks, tiled, room, self.len, out);
        self.numbers[place] = tiles;
        *self.saved = saved;
    }

    pub(super) fn map(&self, run: Run, operands: &[(Operand, DType); 3], out: &mut [u8]) {
        let operands = operands.map(|(operand, dtype)| self.source(operand, dtype));
        call(run, self.isa, operands, out);
    }

    pub(super) fn within(
        &self,
        run: WithinFn,
        at: Interval,
        operand: Operand,
        dtype: DType,
        out: &mut [u8],
    ) {
        if let Source::Block(block) = self.source(operand, dtype) {
            run(self.isa, block, at.low, at.high, at.outside, out);
        }
    }

    pub(super) fn gather(&mut self, reducer: usize, operand: Operand, dtype: DType) {
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

pub(super) fn call(run: Run, isa: Isa, [a, b, c]: [Source<'_>; 3], out: &mut [u8]) {
    /// Unary loops need a block: constants are folded, and window values have column loops.
    fn block(source: Source<'_>) -> &[u8] {
        match source {
            Source::Block(block) => block,
            Source::Value(_) => &[],
        }
    }
    match run {
        Run::Unary(run) => run(isa, block(a), out),
        Run::Calibrate(run, scale, offset) => run(isa, block(a), scale, offset, out),
        Run::Binary(run) => run(isa, a, b, out),
        Run::Select(run) => run(isa, a, b, c, out),
    }
}
