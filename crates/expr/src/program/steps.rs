use isochrony_segment::{DType, Sample, dispatch};

use isochrony_dsp::{Isa, Kernel, Level};

use crate::kernels::{
    BinaryFn, Chain, SelectFn, TallyFn, UnaryFn, Value, WithinFn, samples, samples_mut,
};
use crate::reduce::ReducerConstructor;

use super::operand::Operand;
use super::threshold::Condition;
use crate::{Memory, Reduction};

pub(crate) type CalibrateFn = fn(Isa, &[u8], f64, f64, &mut [u8]);

#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    Unary(UnaryFn),
    Binary(BinaryFn),
    Select(SelectFn),
    Calibrate(CalibrateFn, f64, f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Register(usize),
    Output,
}

#[derive(Debug, Clone)]
pub(crate) enum SampleStep {
    Map {
        run: Run,
        operands: [(Operand, DType); 3],
        target: Target,
        dtype: DType,
    },
    /// Fused float operations.
    Chain {
        chain: Chain,
        blocks: Vec<(Operand, DType)>,
        /// Tiles of constants are filled when scratch is allocated.
        numbers: Vec<(Operand, DType)>,
        place: usize,
        target: Target,
        dtype: DType,
    },
    /// Whether samples lie in the interval of the pass's `condition`.
    Within {
        run: WithinFn,
        condition: usize,
        operand: Operand,
        dtype: DType,
        target: Target,
    },
    /// Counts samples in that interval for a `reducer`.
    Tally {
        run: TallyFn,
        condition: usize,
        operand: Operand,
        dtype: DType,
        reducer: usize,
    },
    /// Feeds a block to a `reducer`.
    Gather {
        reducer: usize,
        operand: Operand,
        dtype: DType,
    },
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ReductionOutput {
    pub(crate) reducer: usize,
    pub(crate) wanted: Reduction,
    pub(crate) column: usize,
    pub(crate) dtype: DType,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Pass {
    /// Steps without thresholds.
    pub(crate) steps: Vec<SampleStep>,
    /// With thresholds instead of chains; may be empty.
    pub(crate) short: Vec<SampleStep>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) reducers: std::ops::Range<usize>,
    pub(crate) finishes: Vec<ReductionOutput>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnOperand {
    Column(usize),
    Constant(Value),
}

#[derive(Debug, Clone)]
pub(crate) struct ColumnStep {
    pub(crate) work: ColumnWork,
    pub(crate) operands: [(ColumnOperand, DType); 3],
    pub(crate) column: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum ColumnWork {
    Map(Run),
    Memory(Memory, usize),
    Input(usize),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Stage {
    pub(crate) columns: Vec<ColumnStep>,
    pub(crate) pass: Option<Pass>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResultLocation {
    /// Written by the last pass.
    Samples,
    Column(usize),
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) stages: Vec<Stage>,
    pub(crate) reducers: Vec<ReducerConstructor>,
    pub(crate) columns: Vec<DType>,
    /// Bytes per sample of each register's widest content.
    pub(crate) registers: Vec<usize>,
    /// Fingerprint of each stateful operation, to match another program's.
    pub(crate) memories: Vec<u64>,
    pub(crate) chains: usize,
    pub(crate) outcome: ResultLocation,
}

impl Plan {
    pub(crate) fn steps(&self) -> impl Iterator<Item = &SampleStep> {
        let passes = self.stages.iter().filter_map(|stage| stage.pass.as_ref());
        passes.flat_map(|pass| pass.steps.iter().chain(&pass.short))
    }

    pub(crate) fn walks(&self) -> usize {
        let passes = self.stages.iter().filter(|stage| stage.pass.is_some());
        passes.count()
    }

    pub(crate) fn most_conditions(&self) -> usize {
        let passes = self.stages.iter().filter_map(|stage| stage.pass.as_ref());
        passes.map(|pass| pass.conditions.len()).max().unwrap_or(0)
    }
}

/// Loop that calibrates counts of a dtype.
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
