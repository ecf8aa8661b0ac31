//! Programs: expressions compiled for a dtype, and how they run.

mod chains;
mod columns;
mod frames;
mod memory;
mod needs;
mod pairs;
mod plan;
mod run;
mod scratch;
mod search;
mod steps;
mod threshold;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isochrony_dsp::Isa;
use isochrony_segment::{Calibration, DType, Sample};

use crate::lower::lower;
use crate::{Expr, ExprError, Graph, Shape, Type};

pub use frames::Frames;
pub(crate) use scratch::{Lines, bytes, bytes_mut, lines};
pub use scratch::{Scratch, State};

use steps::Plan;

/// An expression compiled for samples of one dtype. Cheap to clone; threads share it, each with
/// a [`Scratch`] of its own.
///
/// ```
/// use isochrony_expr::{Expr, Frames, Program};
/// use isochrony_segment::{Bool8, DType};
///
/// let s = Expr::input();
/// let program = Program::compile(&(s.std().gt(10)), DType::I16)?;
/// let (mut scratch, mut state) = (program.scratch(), program.state());
/// let samples = [1i16, 2, 1, 2, 100, -100, 100, -100];
/// let mut loud = [Bool8::default(); 2];
/// program.run(&mut scratch, &mut state, &Frames::new(&samples, 4, 4)?, &mut loud)?;
/// assert_eq!(loud.map(bool::from), [false, true]);
/// # Ok::<(), isochrony_expr::ExprError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Program(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    id: u64,
    graph: Graph,
    input: DType,
    output: Type,
    plan: Plan,
}

impl Program {
    /// Types and plans an expression for samples of `input`.
    ///
    /// # Errors
    /// [`ExprError::UnsupportedOperand`], [`ExprError::MissingDType`], [`ExprError::NeedsSamples`],
    /// [`ExprError::NeedsWindows`], [`ExprError::NeedsConstant`], [`ExprError::ParameterRange`],
    /// [`ExprError::ConstantOutOfRange`], [`ExprError::NoInput`]; each names the operation.
    pub fn compile(expr: &Expr, input: DType) -> Result<Self, ExprError> {
        Self::with(expr.graph(), input, None)
    }

    /// As [`compile`](Self::compile), for counts that the program calibrates as it reads them: the
    /// expression sees f64 in the calibration's unit (c128 for complex counts), the same bits as
    /// of a segment converted before. Counts that are values already are seen as they are.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn compile_calibrated(
        expr: &Expr,
        input: DType,
        calibration: &Calibration,
    ) -> Result<Self, ExprError> {
        Self::with(expr.graph(), input, Some(calibration))
    }

    fn with(
        graph: Graph,
        input: DType,
        calibration: Option<&Calibration>,
    ) -> Result<Self, ExprError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let lowered = lower(&graph, input, calibration)?;
        let output = lowered.nodes.type_of(lowered.root);
        let Some(plan) = plan::plan(&lowered) else {
            // Lowering found a loop for every node, so that only a defect here comes to this.
            return Err(ExprError::UnsupportedOperand {
                at: graph.to_string(),
                op: "compile",
                operands: input.name().into(),
                mend: "report this expression as a defect",
            });
        };
        Ok(Self(Arc::new(Compiled {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            graph,
            input,
            output,
            plan,
        })))
    }

    /// The dtype of the samples that it takes.
    #[must_use]
    pub fn input(&self) -> DType {
        self.0.input
    }

    /// What it gives: a dtype, and whether per window or per sample.
    #[must_use]
    pub fn output(&self) -> Type {
        self.0.output
    }

    /// Whether it needs windows: it reduces, or follows values from window to window. One that does
    /// not may be given a stretch of samples in any pieces.
    #[must_use]
    pub fn needs_windows(&self) -> bool {
        !self.0.plan.columns.is_empty()
    }

    /// Whether results depend on earlier windows: then windows must come in order, with one state.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        self.0.plan.memories > 0
    }

    /// Memory for running it, on the CPU's best instruction set.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        self.scratch_on(Isa::best())
    }

    /// Memory for running it on a chosen instruction set; same bits on all.
    #[must_use]
    pub fn scratch_on(&self, isa: Isa) -> Scratch {
        Scratch::new(self.0.id, &self.0.plan, isa)
    }

    /// What it knows at the start of a stream.
    #[must_use]
    pub fn state(&self) -> State {
        State::new(self.0.id, &self.0.plan)
    }

    /// Number of results for these windows: one a window, or one for each sample of each window.
    #[must_use]
    pub fn results(&self, frames: &Frames<'_>) -> usize {
        match self.0.output.shape {
            Shape::Sample => frames.count.saturating_mul(frames.window),
            _ => frames.count,
        }
    }

    /// Runs over windows; `out` gets one row of results per window, in order. Allocates nothing.
    ///
    /// # Errors
    /// [`ExprError::InputDType`], [`ExprError::OutputDType`], [`ExprError::OutputLength`],
    /// [`ExprError::ForeignScratch`].
    pub fn run<T: Sample>(
        &self,
        scratch: &mut Scratch,
        state: &mut State,
        frames: &Frames<'_>,
        out: &mut [T],
    ) -> Result<(), ExprError> {
        let expected = self.0.output.dtype;
        if T::DTYPE != expected {
            return Err(ExprError::OutputDType {
                expected,
                got: T::DTYPE,
            });
        }
        self.run_bytes(scratch, state, frames, bytemuck::cast_slice_mut(out))
    }

    /// [`run`](Self::run) into the bytes of the output, in native order.
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`ExprError::Misaligned`].
    pub fn run_bytes(
        &self,
        scratch: &mut Scratch,
        state: &mut State,
        frames: &Frames<'_>,
        out: &mut [u8],
    ) -> Result<(), ExprError> {
        let Compiled {
            id,
            input,
            output,
            plan,
            ..
        } = &*self.0;
        if scratch.id != *id {
            return Err(ExprError::ForeignScratch { what: "scratch" });
        }
        if state.id != *id {
            return Err(ExprError::ForeignScratch { what: "state" });
        }
        if frames.dtype != *input {
            return Err(ExprError::InputDType {
                expected: *input,
                got: frames.dtype,
            });
        }
        let expected = self.results(frames).saturating_mul(output.dtype.size());
        if out.len() != expected {
            return Err(ExprError::OutputLength {
                expected,
                got: out.len(),
            });
        }
        if !out.as_ptr().addr().is_multiple_of(output.dtype.align()) {
            return Err(ExprError::Misaligned {
                what: "output",
                dtype: output.dtype,
            });
        }
        run::run(plan, scratch, state, frames, output.dtype, out);
        Ok(())
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Compiled {
            graph,
            input,
            output,
            ..
        } = &*self.0;
        write!(f, "{graph}: {input} -> {output}")
    }
}
