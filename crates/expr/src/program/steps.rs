//! What a program does, in order: the result of planning, read by the interpreter.

use isochrony_segment::{DType, Sample, dispatch};

use isochrony_dsp::{Isa, Kernel, Level};

use crate::kernels::{
    BinaryFn, Chain, SelectFn, TallyFn, UnaryFn, Value, WithinFn, samples, samples_mut,
};
use crate::reduce::Make;

use super::threshold::Condition;
use crate::{Memory, Reduction};

pub(crate) type CalibrateFn = fn(Isa, &[u8], f64, f64, &mut [u8]);

/// A loop and its constants.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    Unary(UnaryFn),
    Binary(BinaryFn),
    Select(SelectFn),
    Calibrate(CalibrateFn, f64, f64),
}

/// Where a loop over samples finds an operand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operand {
    /// The samples of an input.
    Input(usize),
    /// A block that an earlier step left.
    Register(usize),
    /// A value of the window at hand.
    Column(usize),
    /// A constant.
    Constant(Value),
}

/// Where a loop over samples leaves its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Register(usize),
    Output,
}

/// One loop over a block of samples.
#[derive(Debug, Clone)]
pub(crate) enum SampleStep {
    Map {
        run: Run,
        operands: [(Operand, DType); 3],
        target: Target,
        dtype: DType,
    },
    /// Any number of operations on floats.
    Chain {
        chain: Chain,
        blocks: Vec<(Operand, DType)>,
        /// Of those that are constants tiles are written when memory is made.
        numbers: Vec<(Operand, DType)>,
        /// Which of the scratch memory's chains it is.
        place: usize,
        target: Target,
        dtype: DType,
    },
    /// Whether samples lie in the interval of the pass's `condition`-th condition.
    Within {
        run: WithinFn,
        condition: usize,
        operand: Operand,
        dtype: DType,
        target: Target,
    },
    /// The program's `reducer`-th reducer learns how many samples lie in that interval.
    Tally {
        run: TallyFn,
        condition: usize,
        operand: Operand,
        dtype: DType,
        reducer: usize,
    },
    /// The program's `reducer`-th reducer takes in a block.
    Gather {
        reducer: usize,
        operand: Operand,
        dtype: DType,
    },
}

/// A reduction's way from its reducer to its column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Finish {
    pub(crate) reducer: usize,
    pub(crate) wanted: Reduction,
    pub(crate) column: usize,
    pub(crate) dtype: DType,
}

/// One walk over the samples of a window.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pass {
    /// As the nodes have it.
    pub(crate) steps: Vec<SampleStep>,
    /// The same with thresholds instead of chains; empty if there are none.
    pub(crate) short: Vec<SampleStep>,
    pub(crate) conditions: Vec<Condition>,
    /// The program's reducers that begin and end with this pass.
    pub(crate) reducers: std::ops::Range<usize>,
    pub(crate) finishes: Vec<Finish>,
}

/// Where a loop over windows finds an operand.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnOperand {
    Column(usize),
    Constant(Value),
}

/// One loop over the windows at hand.
#[derive(Debug, Clone)]
pub(crate) struct ColumnStep {
    pub(crate) work: ColumnWork,
    pub(crate) operands: [(ColumnOperand, DType); 3],
    pub(crate) column: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnWork {
    Map(Run),
    /// A memory and its place in the state.
    Memory(Memory, usize),
    /// The values of an input that has one a window.
    Input(usize),
}

/// Values of windows, then the pass over samples that needs them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stage {
    pub(crate) columns: Vec<ColumnStep>,
    pub(crate) pass: Option<Pass>,
}

/// Where the result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Written by the last pass.
    Samples,
    /// In a column.
    Column(usize),
}

/// All that the interpreter needs.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) stages: Vec<Stage>,
    pub(crate) reducers: Vec<Make>,
    /// Dtype of each column.
    pub(crate) columns: Vec<DType>,
    /// Bytes of a sample of the widest content of each register.
    pub(crate) registers: Vec<usize>,
    /// What each memory is of: alike for memories that two programs have in common.
    pub(crate) memories: Vec<u64>,
    pub(crate) chains: usize,
    pub(crate) outcome: Outcome,
}

impl Plan {
    /// All steps of all passes.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &SampleStep> {
        let passes = self.stages.iter().filter_map(|stage| stage.pass.as_ref());
        passes.flat_map(|pass| pass.steps.iter().chain(&pass.short))
    }

    /// How often samples are walked.
    pub(crate) fn walks(&self) -> usize {
        let passes = self.stages.iter().filter(|stage| stage.pass.is_some());
        passes.count()
    }

    /// Conditions of the pass that has most.
    pub(crate) fn most_conditions(&self) -> usize {
        let passes = self.stages.iter().filter_map(|stage| stage.pass.as_ref());
        passes.map(|pass| pass.conditions.len()).max().unwrap_or(0)
    }
}

/// The loop that turns counts of a dtype into physical values.
pub(crate) fn calibrate(dtype: DType) -> CalibrateFn {
    fn run<T: Sample>(isa: Isa, counts: &[u8], scale: f64, offset: f64, out: &mut [u8]) {
        isa.run_narrow(Calibrate::<T> {
            counts: samples(counts),
            scale,
            offset,
            out: samples_mut(out),
        });
    }
    dispatch!(dtype, T => run::<T> as CalibrateFn)
}

struct Calibrate<'a, T: Sample> {
    counts: &'a [T],
    scale: f64,
    offset: f64,
    out: &'a mut [T::Physical],
}

impl<T: Sample> Kernel for Calibrate<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run<L: Level>(self, _level: L) {
        for (value, &count) in self.out.iter_mut().zip(self.counts) {
            *value = count.calibrate(self.scale, self.offset);
        }
    }
}
