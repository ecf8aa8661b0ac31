//! Programs: expressions compiled for a dtype, and how they run.

mod blocks;
mod chains;
mod columns;
mod frames;
mod groups;
mod input;
mod memory;
mod needs;
mod plan;
mod run;
mod scratch;
mod search;
mod steps;
mod threshold;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use isochrony_dsp::Isa;
use isochrony_segment::{Calibration, DType, Sample};
use smallvec::SmallVec;

use crate::lower::lower;
use crate::{Expr, ExprError, Graph, Shape, Type};

pub use frames::Frames;
pub use input::Input;
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
    /// Dtype of each input, and whether it has a value per sample or per window.
    inputs: SmallVec<[Type; 2]>,
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
        Self::compile_inputs(expr, &[Input::samples(input)])
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
        Self::compile_inputs(expr, &[Input::samples(input).calibrated(calibration)])
    }

    /// Types and plans an expression of several inputs; [`Expr::input_at`] is each in the expression.
    ///
    /// ```
    /// use isochrony_expr::{Expr, Frames, Input, Program};
    /// use isochrony_segment::DType;
    ///
    /// let (s, gain) = (Expr::input(), Expr::input_at(1));
    /// let inputs = [Input::samples(DType::F32), Input::values(DType::F32)];
    /// let program = Program::compile_inputs(&(s * gain), &inputs)?;
    /// let (mut scratch, mut state) = (program.scratch(), program.state());
    /// let (samples, gains) = ([1.0f32, 2.0, 3.0, 4.0], [10.0f32, 100.0]);
    /// let windows = [Frames::new(&samples, 2, 2)?, Frames::new(&gains, 1, 1)?];
    /// let mut out = [0f32; 4];
    /// program.run_inputs(&mut scratch, &mut state, &windows, bytemuck::cast_slice_mut(&mut out))?;
    /// assert_eq!(out, [10.0, 20.0, 300.0, 400.0]);
    /// # Ok::<(), isochrony_expr::ExprError>(())
    /// ```
    ///
    /// # Errors
    /// As [`compile`](Self::compile), and [`ExprError::InputCount`].
    pub fn compile_inputs(expr: &Expr, inputs: &[Input<'_>]) -> Result<Self, ExprError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let graph = expr.graph();
        let lowered = lower(&graph, inputs)?;
        let output = lowered.nodes.type_of(lowered.root);
        let Some(plan) = plan::plan(&lowered) else {
            // Lowering found a loop for every node, so that only a defect here comes to this.
            return Err(ExprError::UnsupportedOperand {
                at: graph.to_string(),
                op: "compile",
                operands: inputs
                    .iter()
                    .map(|input| input.dtype.name())
                    .collect::<Vec<_>>()
                    .join(" and "),
                mend: "report this expression as a defect",
            });
        };
        Ok(Self(Arc::new(Compiled {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            graph,
            inputs: inputs
                .iter()
                .map(|&Input { dtype, shape, .. }| Type { dtype, shape })
                .collect(),
            output,
            plan,
        })))
    }

    /// The dtype of the samples that it takes: of its first input.
    #[must_use]
    pub fn input(&self) -> DType {
        self.0
            .inputs
            .first()
            .map_or(DType::F64, |input| input.dtype)
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
        !self.0.plan.memories.is_empty()
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

    /// What it knows when it takes the place of another program: of memories that both have, what that one knew.
    #[must_use]
    pub fn state_after(&self, before: &Self, known: &State) -> State {
        let mut state = self.state();
        for (memory, of) in state.memories.iter_mut().zip(&self.0.plan.memories) {
            let same = before.0.plan.memories.iter().position(|other| other == of);
            *memory = same.and_then(|at| *known.memories.get(at)?);
        }
        state
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
        self.run_inputs(scratch, state, std::slice::from_ref(frames), out)
    }

    /// [`run_bytes`](Self::run_bytes) over the same windows of each input; those of an input that has one value a
    /// window are of length 1.
    ///
    /// # Errors
    /// As [`run_bytes`](Self::run_bytes), and [`ExprError::InputCount`], [`ExprError::InputFrames`].
    pub fn run_inputs(
        &self,
        scratch: &mut Scratch,
        state: &mut State,
        frames: &[Frames<'_>],
        out: &mut [u8],
    ) -> Result<(), ExprError> {
        let Compiled {
            id,
            inputs,
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
        let (Some(first), true) = (frames.first(), frames.len() == inputs.len()) else {
            return Err(ExprError::InputCount {
                at: self.0.graph.to_string(),
                expected: inputs.len(),
                got: frames.len(),
            });
        };
        let sampled = frames
            .iter()
            .zip(inputs)
            .find(|(_, input)| input.shape == Shape::Sample);
        let window = sampled.map_or(1, |(frames, _)| frames.window);
        for (place, (frames, input)) in frames.iter().zip(inputs).enumerate() {
            if frames.dtype != input.dtype {
                return Err(ExprError::InputDType {
                    expected: input.dtype,
                    got: frames.dtype,
                });
            }
            let window = if input.shape == Shape::Sample {
                window
            } else {
                1
            };
            if (frames.count, frames.window) != (first.count, window) {
                return Err(ExprError::InputFrames {
                    input: place,
                    expected: (first.count, window),
                    got: (frames.count, frames.window),
                });
            }
        }
        let results = match output.shape {
            Shape::Sample => first.count.saturating_mul(window),
            _ => first.count,
        };
        let expected = results.saturating_mul(output.dtype.size());
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
            inputs,
            output,
            ..
        } = &*self.0;
        let inputs: Vec<&str> = inputs.iter().map(|input| input.dtype.name()).collect();
        write!(f, "{graph}: {} -> {output}", inputs.join(", "))
    }
}
