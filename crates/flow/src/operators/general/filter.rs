//! Keeps windows or rows that satisfy a predicate.

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::filter_record_batch;
use isochrony_expr::{Expr, Shape};
use isochrony_segment::{Bool8, DType};

use super::compiled::{CompiledExpr, contract, expression_cost_ns};
use crate::operator;
use crate::operators::fan_in::aligned_items::AlignedItems;
use crate::operators::{forward_where, wrong_input};
use crate::plan::rows::{Fields, RowExpression};
use crate::{
    Alignment, Break, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    ParameterUpdate, PlanError, Port, PortType, RowAxis,
};

operator! {
    /// Passes windows or rows for which an expression is true.
    ///
    /// # Inputs
    /// Windows, shape (n, N), or rows.
    ///
    /// `others`: windows of the same length, hop and timebase, as further arguments of the expression.
    ///
    /// # Returns
    /// The windows or rows that pass, unchanged and without a copy. No edges, no delay; what is removed is not a gap.
    ///
    /// # Conventions
    /// Values are in the signal's unit. An expression with state starts again at a break. A row of
    /// which a field is unknown (null) does not pass. Directly behind the windows of a stored signal, comparisons of
    /// `max`, `min` or the greatest magnitude with a number are first made with the stored extremes: ranges without a
    /// window that passes are not read. Results are the same to the bit; see `explain`.
    ///
    /// # Errors
    /// An expression that does not give one bool per window or row; a field that does not exist; input of another kind.
    pub struct Filter = "filter" (Inputs::AtLeast(1)) {
        /// One bool per window, such as `s.std() > 10`, or per row, such as `r.mean > 3`.
        predicate: Option<Expr> = "expression" { adjustable: true },
    }
    state {
        compiled: CompiledExpr,
        aligned_items: AlignedItems,
        flags: Vec<Bool8>,
        row_expression: Option<RowExpression>,
    }
}

impl Operator for Filter {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        if let (PortType::Rows { fields, .. }, 1) = (*port, inputs.len()) {
            return self.bind_rows(port, fields);
        }
        if !matches!(port, PortType::Frames { .. }) {
            return Err(wrong_input(
                "filter",
                "windows or rows",
                port,
                "put rewindow(...) before it, or make rows",
            ));
        }
        let program = self
            .compiled
            .bind("filter", self.predicate.as_ref(), inputs)?;
        let output = program.output();
        if output.dtype != DType::Bool || output.shape == Shape::Sample {
            return Err(PlanError::Predicate {
                expression: program.to_string(),
                mend: match output.shape {
                    Shape::Sample => "reduce it to one bool per window with .any() or .all()",
                    _ => "compare it with something",
                },
            });
        }
        self.aligned_items = AlignedItems::new(inputs.len());
        let properties = OperatorProperties::new([*port])
            .contract(contract(&program))
            .cost_ns(expression_cost_ns(self.predicate.as_ref()))
            .row_axis(RowAxis::FromInput);
        let align = match inputs.len() {
            1 => Alignment::Single,
            _ => Alignment::Window,
        };
        Ok(properties.align(align).data_dependent())
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if !self.aligned_items.is_complete(port, item)? {
            return Ok(Next::Consumed);
        }
        if let (Item::Rows(rows), Some(row_expression)) = (&*item, &mut self.row_expression) {
            let (flags, nulls) = row_expression.run(rows.batch())?;
            let flags = BooleanBuffer::from_iter(flags.as_slice().iter().map(|&flag| flag != 0));
            let flags = BooleanArray::new(flags, nulls);
            return Ok(match flags.true_count() {
                0 => Next::Consumed,
                all if all == flags.len() => Next::Forward,
                _ => {
                    let passed = filter_record_batch(rows.batch(), &flags);
                    *item = rows.with_batch(passed.map_err(OpErrorKind::from)?).into();
                    Next::Forward
                }
            });
        }
        let Item::Frames(frames) = &*item else {
            return Err(OpErrorKind::WrongItem {
                expected: "frames",
                got: item.kind(),
            }
            .into());
        };
        let count = frames.count() as usize;
        if self.flags.len() < count {
            self.flags.resize(count, Bool8::default());
        }
        let flags = &mut self.flags[..count];
        let others = self.aligned_items.others();
        let items = std::iter::once(&*item).chain(others);
        self.compiled
            .run_items(items, bytemuck::cast_slice_mut(flags))?;
        // Copies no values.
        let frames = frames.clone();
        forward_where(&frames, flags, out)
    }

    fn set(
        &mut self,
        params: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<ParameterUpdate, OpError> {
        match self.row_expression {
            Some(_) => Ok(ParameterUpdate::Rebuild),
            None => self.compiled.set(params.get("predicate")),
        }
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.compiled.reset();
        Ok(())
    }
}

impl Filter {
    fn bind_rows(
        &mut self,
        port: &PortType,
        fields: Fields,
    ) -> Result<OperatorProperties, PlanError> {
        let Some(predicate) = &self.predicate else {
            return Err(PlanError::MissingParameter {
                operator: "filter",
                parameter: "predicate",
                doc: "One bool per row.",
            });
        };
        let row_expression = RowExpression::bind("filter", predicate, fields)?;
        if row_expression.output() != DType::Bool {
            return Err(PlanError::Predicate {
                expression: format!("{predicate}: {}", row_expression.output()),
                mend: "compare it with something",
            });
        }
        self.row_expression = Some(row_expression);
        Ok(OperatorProperties::new([*port]).data_dependent())
    }
}
