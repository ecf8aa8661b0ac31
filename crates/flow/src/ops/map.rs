//! Something computed of every window or sample.

use isochrony_expr::{Expr, Shape};
use isochrony_segment::{Calibration, DType, SigSeg, StreamId};

use super::compiled::Compiled;
use super::wrong_input;
use crate::{
    Bound, Break, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, Out, PlanError,
    Port, PortType, operator,
};

operator! {
    /// Computes an expression of every window, or of every sample where it asks for no windows.
    ///
    /// Of windows it gives one row each: a single value, as of `s.max()`, or as many as the window has samples, as of
    /// `s - s.mean()`. Of samples it gives samples. Dtypes are NumPy's; calibrated counts are values in their unit.
    pub struct Map = "map" (Inputs::Exactly(1)) {
        /// What to compute.
        expression: Option<Expr> = "expression" {},
    }
    state {
        compiled: Compiled,
        result: Option<(DType, StreamId)>,
        /// Values of a row.
        width: usize,
    }
}

impl Operator for Map {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        let port = &inputs[0];
        let program = self.compiled.bind("map", self.expression.as_ref(), port)?;
        let output = program.output();
        let stream = match port.stream_id() {
            // The unit of what comes out is not known.
            Some(stream) => stream
                .get()
                .clone()
                .with_calibration(Calibration::default())
                .intern(),
            None => {
                return Err(wrong_input(
                    "map",
                    "samples or windows",
                    port,
                    "map before counting",
                ));
            }
        };
        let dtype = output.dtype;
        let result = match *port {
            PortType::Frames {
                window, hop, width, ..
            } => {
                self.width = if output.shape == Shape::Sample {
                    width
                } else {
                    1
                };
                PortType::Frames {
                    dtype,
                    stream,
                    window,
                    hop,
                    width: self.width,
                }
            }
            _ if program.needs_windows() || output.shape != Shape::Sample => {
                return Err(wrong_input(
                    "map",
                    "windows for this expression",
                    port,
                    "put rewindow(...) before it",
                ));
            }
            _ => PortType::Samples { dtype, stream },
        };
        self.result = Some((dtype, stream));
        let contract = if program.is_stateful() {
            Contract::Sequential
        } else {
            Contract::Stateless
        };
        Ok(Bound::new([result]).contract(contract))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some((dtype, stream)) = self.result else {
            return Ok(Next::Done);
        };
        match item {
            Item::Frames(frames) => {
                let values = frames.count() as usize * self.width;
                let mut block = out.alloc(dtype, values)?;
                self.compiled.run(frames, block.bytes_mut())?;
                let rows = frames.with_rows(out.seal(block), dtype, self.width, stream);
                let Some(rows) = rows else {
                    return Err(OpErrorKind::WrongItem {
                        expected: "a row for each window",
                        got: "fewer",
                    }
                    .into());
                };
                *item = rows.into();
            }
            Item::Samples(samples) => {
                let mut block = out.alloc(dtype, samples.len() as usize)?;
                let mut rest = block.bytes_mut();
                let size = samples.dtype().size();
                for buffer in samples.materialise()?.buffers() {
                    let (head, tail) = rest.split_at_mut(buffer.len() / size * dtype.size());
                    self.compiled.run_stretch(buffer.bytes(), head)?;
                    rest = tail;
                }
                *item = SigSeg::new(out.seal(block), samples.start(), dtype, stream)?.into();
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples or frames",
                    got: other.kind(),
                }
                .into());
            }
        }
        Ok(Next::Tail)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.compiled.reset();
        Ok(())
    }
}
