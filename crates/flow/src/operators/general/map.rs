//! Computes an expression of every window or sample.

use isochrony_expr::{Expr, Shape};
use isochrony_segment::{Calibration, DType, SigSeg, StreamId};

use super::compiled::{CompiledExpr, contract, expression_cost_ns, row_width};
use crate::operator;
use crate::operators::fan_in::aligned_items::AlignedItems;
use crate::operators::wrong_input;
use crate::{
    Alignment, Break, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    ParameterUpdate, PlanError, Port, PortType, RowAxis,
};

operator! {
    /// Computes an expression of each window, or of each sample.
    ///
    /// # Inputs
    /// Windows, shape (n, N), or samples, shape (n,).
    ///
    /// `others`: windows (or samples) of the same timebase, as further arguments of the expression.
    ///
    /// # Returns
    /// One row per window: one value, shape (n, 1), or as many as the window has samples, shape (n, N). Of samples,
    /// samples, shape (n,). The dtype is NumPy's for the expression, but integer arithmetic that does not wrap
    /// gives the narrowest dtype that holds every result, int64 at most. No edges, no delay.
    ///
    /// # Conventions
    /// Calibrated counts are values in their unit. What not all inputs have at the same indices is left out; a row of
    /// one value is combined with every sample of another input's window.
    ///
    /// # Errors
    /// An expression that does not fit the types of its inputs; inputs with different types of items.
    pub struct Map = "map" (Inputs::AtLeast(1)) {
        /// What to compute, such as `s - s.mean()`.
        expression: Option<Expr> = "expression" { adjustable: true },
    }
    state {
        compiled: CompiledExpr,
        aligned_items: AlignedItems,
        result: Option<(DType, StreamId)>,
        width: usize,
    }
}

impl Operator for Map {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        let program = self
            .compiled
            .bind("map", self.expression.as_ref(), inputs)?;
        let output = program.output();
        let stream = match port.stream_id() {
            // The result's unit is unknown.
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
            PortType::Frames { window, hop, .. } => {
                self.width = row_width(&program, inputs);
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
        self.aligned_items = AlignedItems::new(inputs.len());
        let properties = OperatorProperties::new([result])
            .contract(contract(&program))
            .cost_ns(expression_cost_ns(self.expression.as_ref()))
            .row_axis(RowAxis::FromInput);
        Ok(match inputs.len() {
            1 => properties.in_step(),
            _ => properties.align(Alignment::Window).data_dependent(),
        })
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some((dtype, stream)) = self.result else {
            return Ok(Next::Done);
        };
        if !self.aligned_items.is_complete(port, item)? {
            return Ok(Next::Consumed);
        }
        let others = self.aligned_items.others();
        let widths = std::iter::once(&*item)
            .chain(others)
            .filter_map(|item| match item {
                Item::Frames(frames) => Some(frames.width()),
                _ => None,
            });
        let width = match self.width {
            1 => 1,
            // A short last window has fewer.
            most => widths.max().unwrap_or(most),
        };
        let values = match &*item {
            Item::Frames(frames) => frames.count() as usize * width,
            other => other.samples() as usize,
        };
        let mut block = out.alloc(dtype, values)?;
        self.compiled
            .run_items(std::iter::once(&*item).chain(others), block.bytes_mut())?;
        let values = out.seal(block);
        *item = match &*item {
            Item::Frames(frames) => {
                let rows = frames.with_rows(values, dtype, width, stream);
                let Some(rows) = rows else {
                    return Err(OpErrorKind::WrongItem {
                        expected: "a row for each window",
                        got: "fewer",
                    }
                    .into());
                };
                rows.into()
            }
            Item::Samples(samples) => SigSeg::new(values, samples.start(), dtype, stream)?.into(),
            _ => Item::Taken,
        };
        Ok(Next::Forward)
    }

    fn set(
        &mut self,
        params: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<ParameterUpdate, OpError> {
        self.compiled.set(params.get("expression"))
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.compiled.reset();
        Ok(())
    }
}
