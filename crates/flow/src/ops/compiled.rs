//! An expression as an operator holds it: compiled for its input, with the memory that it runs in.

use isochrony_expr::{Expr, ExprError, Program, Scratch, State};

use crate::{Frames, OpError, PlanError, PortType};

/// What an operator was asked to compute, and what became of it once its input was known.
#[derive(Default)]
pub(crate) struct Compiled(Option<Ready>);

struct Ready {
    program: Program,
    scratch: Scratch,
    state: State,
}

impl Compiled {
    /// Compiles an expression for what flows through a port; calibrated counts are seen as values in their unit.
    pub(crate) fn bind(
        &mut self,
        operator: &'static str,
        expr: Option<&Expr>,
        port: &PortType,
    ) -> Result<Program, PlanError> {
        let refused = |error: ExprError| PlanError::Expression { operator, error };
        let (Some(dtype), Some(stream), Some(expr)) = (port.dtype(), port.stream(), expr) else {
            return Err(super::wrong_input(
                operator,
                "samples or windows",
                port,
                "compute on samples before they are counted",
            ));
        };
        let program =
            Program::compile_calibrated(expr, dtype, &stream.calibration).map_err(refused)?;
        self.0 = Some(Ready {
            scratch: program.scratch(),
            state: program.state(),
            program: program.clone(),
        });
        Ok(program)
    }

    /// Runs over a block of windows; `out` has a row of results for each.
    pub(crate) fn run(&mut self, frames: &Frames, out: &mut [u8]) -> Result<(), OpError> {
        let Some(Ready {
            program,
            scratch,
            state,
        }) = &mut self.0
        else {
            return Ok(());
        };
        let windows = isochrony_expr::Frames::from_bytes(
            frames.buffer().bytes(),
            frames.dtype(),
            frames.width(),
            frames.stride(),
            frames.count() as usize,
        )?;
        program.run_bytes(scratch, state, &windows, out)?;
        Ok(())
    }

    /// Runs over one stretch of samples, for expressions without reductions.
    pub(crate) fn run_stretch(&mut self, bytes: &[u8], out: &mut [u8]) -> Result<(), OpError> {
        let Some(Ready {
            program,
            scratch,
            state,
        }) = &mut self.0
        else {
            return Ok(());
        };
        let dtype = program.input();
        let len = bytes.len() / dtype.size();
        let stretch = isochrony_expr::Frames::from_bytes(bytes, dtype, len, len, 1)?;
        program.run_bytes(scratch, state, &stretch, out)?;
        Ok(())
    }

    /// Forgets what was remembered of earlier windows.
    pub(crate) fn reset(&mut self) {
        if let Some(ready) = &mut self.0 {
            ready.state.reset();
        }
    }
}
