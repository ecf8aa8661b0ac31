//! Programs: expressions compiled for a dtype.

mod blocks;
mod chains;
mod columns;
mod frames;
mod fused_chain;
mod groups;
mod input;
mod memory;
mod needs;
mod operand;
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

/// An expression compiled for samples of one dtype. Cheap to clone; threads share it, each with its own [`Scratch`].
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
pub struct Program(Arc<CompiledProgram>);

#[derive(Debug)]
struct CompiledProgram {
    id: u64,
    graph: Graph,
    inputs: SmallVec<[Type; 2]>,
    output: Type,
    plan: Plan,
}

impl Program {
    /// Compiles an expression for samples of `input`.
    ///
    /// # Errors
    /// [`ExprError::UnsupportedOperand`], [`ExprError::MissingDType`], [`ExprError::NeedsSamples`],
    /// [`ExprError::NeedsWindows`], [`ExprError::NeedsConstant`], [`ExprError::ParameterRange`],
    /// [`ExprError::ConstantOutOfRange`], [`ExprError::NoInput`]; each names the operation.
    pub fn compile(expr: &Expr, input: DType) -> Result<Self, ExprError> {
        Self::compile_inputs(expr, &[Input::samples(input)])
    }

    /// As [`compile`](Self::compile), for counts that the program calibrates ([`Input::calibrated`]), with the bits of
    /// a calibrated segment.
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

    /// Compiles an expression of several inputs, [`Expr::input_at`].
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
            // Unreachable: lowering found a loop for every node.
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
        Ok(Self(Arc::new(CompiledProgram {
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

    /// Dtype of its first input.
    #[must_use]
    pub fn input(&self) -> DType {
        self.0
            .inputs
            .first()
            .map_or(DType::F64, |input| input.dtype)
    }

    /// Dtype and shape of the result.
    #[must_use]
    pub fn output(&self) -> Type {
        self.0.output
    }

    /// Whether it reduces or has state. Otherwise it accepts samples in any pieces.
    #[must_use]
    pub fn needs_windows(&self) -> bool {
        !self.0.plan.columns.is_empty()
    }

    /// Whether results depend on earlier windows: these must come in order, with one state.
    #[must_use]
    pub fn is_stateful(&self) -> bool {
        !self.0.plan.memories.is_empty()
    }

    /// Memory for runs, on the best instruction set.
    #[must_use]
    pub fn scratch(&self) -> Scratch {
        self.scratch_on(Isa::best())
    }

    /// Memory for runs on an instruction set; the same bits on all.
    #[must_use]
    pub fn scratch_on(&self, isa: Isa) -> Scratch {
        Scratch::new(self.0.id, &self.0.plan, isa)
    }

    /// State at the start of a stream.
    #[must_use]
    pub fn state(&self) -> State {
        State::new(self.0.id, &self.0.plan)
    }

    /// State when it replaces another program; common parts keep theirs.
    #[must_use]
    pub fn state_after(&self, before: &Self, known: &State) -> State {
        let mut state = self.state();
        for (memory, of) in state.memories.iter_mut().zip(&self.0.plan.memories) {
            let same = before.0.plan.memories.iter().position(|other| other == of);
            *memory = same.and_then(|at| *known.memories.get(at)?);
        }
        state
    }

    /// Number of results: one per window, or per sample of each window.
    #[must_use]
    pub fn results(&self, frames: &Frames<'_>) -> usize {
        match self.0.output.shape {
            Shape::Sample => frames.count.saturating_mul(frames.window),
            _ => frames.count,
        }
    }

    /// Runs over windows; `out` gets the results in order. Allocates nothing.
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

    /// As [`run`](Self::run), into bytes in native order.
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

    /// As [`run_bytes`](Self::run_bytes), over the same windows of each input; windows of values have length 1.
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
        let CompiledProgram {
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
        let CompiledProgram {
            graph,
            inputs,
            output,
            ..
        } = &*self.0;
        let inputs: Vec<&str> = inputs.iter().map(|input| input.dtype.name()).collect();
        write!(f, "{graph}: {} -> {output}", inputs.join(", "))
    }
}
