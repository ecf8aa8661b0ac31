//! An expression compiled for an operator's inputs.

use isochrony_expr::{
    Binary, Expr, ExprError, Frames, Input, Op, Program, Scratch, Shape, State, Unary,
};
use serde_json::Value;
use smallvec::SmallVec;

use crate::operators::fan_in::zip::one_grid;
use crate::operators::wrong_input;
use crate::{Contract, Item, OpError, OpErrorKind, ParameterUpdate, PlanError, PortType};

#[derive(Default)]
pub(crate) struct CompiledExpr(Option<BoundState>);

struct BoundState {
    program: Program,
    scratch: Scratch,
    state: State,
    /// To compile again.
    operator: &'static str,
    ports: SmallVec<[PortType; 2]>,
}

/// Values per row; 1 for samples.
fn width(port: &PortType) -> usize {
    match *port {
        PortType::Frames { width, .. } => width,
        _ => 1,
    }
}

impl CompiledExpr {
    /// Compiles for ports matched by index; calibrated counts become values. Rows of one value combine with longer
    /// ones.
    pub(crate) fn bind(
        &mut self,
        operator: &'static str,
        expr: Option<&Expr>,
        ports: &[PortType],
    ) -> Result<Program, PlanError> {
        if ports.len() > 1 {
            one_grid(operator, ports)?;
        }
        let widest = ports.iter().map(width).max().unwrap_or(1);
        let mut inputs: SmallVec<[Input<'_>; 2]> = SmallVec::new();
        for (at, port) in ports.iter().enumerate() {
            let (Some(dtype), Some(stream)) = (port.dtype(), port.stream()) else {
                let mend = "compute on samples before they are counted";
                return Err(wrong_input(operator, "samples or windows", port, mend));
            };
            let input = match width(port) {
                width if width == widest => Input::samples(dtype),
                1 => Input::values(dtype),
                _ => {
                    return Err(PlanError::InputsDiffer {
                        operator,
                        first: ports[0].to_string(),
                        port: at,
                        other: port.to_string(),
                        mend: "give inputs whose windows have equally many values, or one value",
                    });
                }
            };
            inputs.push(input.calibrated(&stream.calibration));
        }
        let Some(expr) = expr else {
            let mend = "give it an expression";
            return Err(wrong_input(operator, "an expression", &ports[0], mend));
        };
        let parameter_error = |error: ExprError| PlanError::Expression { operator, error };
        let program = Program::compile_inputs(expr, &inputs).map_err(parameter_error)?;
        self.0 = Some(BoundState {
            scratch: program.scratch(),
            state: program.state(),
            program: program.clone(),
            operator,
            ports: ports.into(),
        });
        Ok(program)
    }

    /// For one input; `out` has a row of results per window.
    pub(crate) fn run(&mut self, frames: &crate::Frames, out: &mut [u8]) -> Result<(), OpError> {
        self.run_windows(&[windows(frames)?], out)
    }

    /// For matching windows, or contiguous samples, of all inputs.
    pub(crate) fn run_items<'a>(
        &mut self,
        items: impl IntoIterator<Item = &'a Item>,
        out: &mut [u8],
    ) -> Result<(), OpError> {
        let mut all: SmallVec<[Frames<'_>; 4]> = SmallVec::new();
        for item in items {
            all.push(match item {
                Item::Frames(frames) => windows(frames)?,
                Item::Samples(samples) => {
                    let len = samples.len() as usize;
                    let bytes = samples.buffers().next().map(|buffer| buffer.bytes());
                    Frames::from_bytes(bytes.unwrap_or_default(), samples.dtype(), len, len, 1)?
                }
                other => {
                    return Err(OpErrorKind::WrongItem {
                        expected: "samples or frames",
                        got: other.kind(),
                    }
                    .into());
                }
            });
        }
        self.run_windows(&all, out)
    }

    fn run_windows(&mut self, windows: &[Frames<'_>], out: &mut [u8]) -> Result<(), OpError> {
        if let Some(bound) = &mut self.0 {
            let BoundState {
                program,
                scratch,
                state,
                ..
            } = bound;
            program.run_inputs(scratch, state, windows, out)?;
        }
        Ok(())
    }

    /// Replaces the expression by one of the same type; equal subexpressions keep their state.
    pub(crate) fn set(&mut self, saved: Option<&Value>) -> Result<ParameterUpdate, OpError> {
        let expr = saved.and_then(|saved| serde_json::from_value::<Expr>(saved.clone()).ok());
        let (Some(expr), Some(before)) = (expr, self.0.take()) else {
            return Ok(ParameterUpdate::Rebuild);
        };
        let program = self.bind(before.operator, Some(&expr), &before.ports);
        let program = program.map_err(|error| OpErrorKind::Failed(error.into()))?;
        if let Some(bound) = &mut self.0 {
            bound.state = program.state_after(&before.program, &before.state);
        }
        Ok(ParameterUpdate::Applied)
    }

    pub(crate) fn reset(&mut self) {
        if let Some(bound) = &mut self.0 {
            bound.state.reset();
        }
    }
}

pub(crate) fn contract(program: &Program) -> Contract {
    match program.is_stateful() {
        true => Contract::Sequential,
        false => Contract::Stateless,
    }
}

pub(crate) fn row_width(program: &Program, ports: &[PortType]) -> usize {
    match program.output().shape {
        Shape::Sample => ports.iter().map(width).max().unwrap_or(1),
        _ => 1,
    }
}

fn windows(frames: &crate::Frames) -> Result<Frames<'_>, ExprError> {
    Frames::from_bytes(
        frames.buffer().bytes(),
        frames.dtype(),
        frames.width(),
        frames.stride(),
        frames.count() as usize,
    )
}

const TRANSCENDENTAL: [Unary; 11] = [
    Unary::Exp,
    Unary::Expm1,
    Unary::Log,
    Unary::Log1p,
    Unary::Log2,
    Unary::Log10,
    Unary::Sin,
    Unary::Cos,
    Unary::Tan,
    Unary::Tanh,
    Unary::Angle,
];

/// Expected time per value of the inputs.
pub(crate) fn expression_cost_ns(expr: Option<&Expr>) -> f64 {
    let Some(expr) = expr else {
        return 0.0;
    };
    let graph = expr.graph();
    let costs = graph.nodes().iter().map(|node| match node.op() {
        Op::Input(_) | Op::Field(_) | Op::Constant(..) => 0.0,
        Op::Binary(Binary::Pow) => 4.0,
        Op::Unary(op) if TRANSCENDENTAL.contains(&op) => 1.5,
        _ => 0.15,
    });
    costs.sum()
}
