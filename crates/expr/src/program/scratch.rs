//! Scratch memory and state of programs.

use bytemuck::{Pod, Zeroable};
use isochrony_dsp::Isa;

use crate::kernels::Value;
use crate::reduce::Reducer;

use super::operand::Operand;
use super::steps::{Plan, SampleStep};
use super::threshold::Interval;

/// Several blocks fit the L1 cache.
const BLOCK_BYTES: usize = 8 << 10;

const MAX_BLOCK_SAMPLES: usize = 4096;

pub(crate) const GROUP: usize = 256;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
pub(crate) struct Line([u8; 64]);

/// Bytes aligned to cache lines, and so for every dtype.
pub(crate) type Lines = Vec<Line>;

pub(crate) fn lines(bytes: usize) -> Lines {
    vec![Line([0; 64]); bytes.div_ceil(64)]
}

pub(crate) fn bytes(lines: &Lines) -> &[u8] {
    bytemuck::cast_slice(lines)
}

pub(crate) fn bytes_mut(lines: &mut Lines) -> &mut [u8] {
    bytemuck::cast_slice_mut(lines)
}

/// Registers, columns and sums of a program, allocated once. Nothing persists between runs. For one thread at a time.
pub struct Scratch {
    pub(crate) id: u64,
    pub(crate) isa: Isa,
    pub(crate) block: usize,
    pub(crate) registers: Vec<Lines>,
    pub(crate) columns: Vec<Lines>,
    pub(crate) numbers: Vec<Lines>,
    pub(crate) saved: Lines,
    pub(crate) reducers: Vec<Box<dyn Reducer>>,
    pub(crate) intervals: Vec<Interval>,
}

impl Scratch {
    pub(crate) fn new(id: u64, plan: &Plan, isa: Isa) -> Self {
        let widest = plan.registers.iter().copied().max().unwrap_or(1);
        let block = (BLOCK_BYTES / widest.max(1)).min(MAX_BLOCK_SAMPLES);
        let mut numbers = vec![Lines::new(); plan.chains];
        let mut saved = 0;
        for step in plan.steps() {
            if let SampleStep::Chain {
                chain,
                numbers: of,
                place,
                ..
            } = step
            {
                saved = saved.max(chain.saved_bytes());
                let mut tiles = lines(chain.number_bytes());
                for (at, &(operand, dtype)) in of.iter().enumerate() {
                    if let Operand::Constant(value) = operand {
                        chain.fill(at, value, dtype, bytes_mut(&mut tiles));
                    }
                }
                numbers[*place] = tiles;
            }
        }
        Self {
            id,
            isa,
            block,
            registers: plan
                .registers
                .iter()
                .map(|size| lines(size * block))
                .collect(),
            columns: plan
                .columns
                .iter()
                .map(|dtype| lines(dtype.size() * GROUP))
                .collect(),
            numbers,
            saved: lines(saved),
            intervals: Vec::with_capacity(plan.most_conditions()),
            reducers: plan.reducers.iter().map(|make| make()).collect(),
        }
    }

    /// Instruction set of runs; results do not depend on it.
    #[must_use]
    pub fn isa(&self) -> Isa {
        self.isa
    }
}

impl std::fmt::Debug for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scratch")
            .field("isa", &self.isa)
            .field("registers", &self.registers.len())
            .field("columns", &self.columns.len())
            .field("reducers", &self.reducers.len())
            .finish()
    }
}

/// State from earlier windows: running means, hysteresis, counters. One per stream, reset at breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub(crate) id: u64,
    pub(crate) memories: Vec<Option<Value>>,
}

impl State {
    pub(crate) fn new(id: u64, plan: &Plan) -> Self {
        Self {
            id,
            memories: vec![None; plan.memories.len()],
        }
    }

    /// Resets, as at the start of a stream or after a gap.
    pub fn reset(&mut self) {
        self.memories.fill(None);
    }
}
