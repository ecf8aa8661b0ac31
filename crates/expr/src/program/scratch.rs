//! Memory that a run needs, and memory that it leaves for the next one.

use bytemuck::{Pod, Zeroable};
use isochrony_dsp::Isa;

use crate::kernels::Value;
use crate::reduce::Reducer;

use super::steps::{Operand, Plan, SampleStep};
use super::threshold::Interval;

/// Bytes of a block: what the interpreter hands from loop to loop, several of them within the
/// first-level cache.
const BLOCK_BYTES: usize = 8 << 10;

/// Most samples in a block.
const MOST: usize = 4096;

/// Most windows whose values are computed together.
pub(crate) const GROUP: usize = 256;

/// One line of the cache.
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

/// Registers, columns and sums of one program: allocated once, so that running allocates nothing.
/// Nothing in it outlasts a run. One thread uses it at a time.
pub struct Scratch {
    pub(crate) id: u64,
    pub(crate) isa: Isa,
    /// Samples in a block.
    pub(crate) block: usize,
    pub(crate) registers: Vec<Lines>,
    pub(crate) columns: Vec<Lines>,
    /// Numbers of each chain, written out.
    pub(crate) numbers: Vec<Lines>,
    /// What the chain at hand saves.
    pub(crate) saved: Lines,
    pub(crate) reducers: Vec<Box<dyn Reducer>>,
    /// Intervals of a pass's conditions for the window at hand.
    pub(crate) intervals: Vec<Interval>,
}

impl Scratch {
    pub(crate) fn new(id: u64, plan: &Plan, isa: Isa) -> Self {
        let widest = plan.registers.iter().copied().max().unwrap_or(1);
        let block = (BLOCK_BYTES / widest.max(1)).min(MOST);
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

    /// The instruction set that runs with it use; results do not depend on it.
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

/// What a program remembers of earlier windows: running means, hysteresis, counters. The engine
/// keeps one for every stream that a program follows and resets it at breaks.
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

    /// Forgets everything, as at the start of a stream or after a gap.
    pub fn reset(&mut self) {
        self.memories.fill(None);
    }
}
