//! Converts windows and ranges to rows.

use arrow_array::ArrayRef;
use arrow_buffer::MutableBuffer;
use arrow_schema::{DataType, Field};
use isochrony_expr::{Expr, Shape};
use isochrony_segment::DType;
use serde_json::{Map, Value};
use std::slice::from_ref;

use crate::operator;
use crate::operators::general::compiled::{CompiledExpr, expression_cost_ns};
use crate::operators::rows::{RowBuilder, flush_rows};
use crate::operators::wrong_input;
use crate::plan::rows::{Fields, columns};
use crate::{
    Contract, Frames, Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out,
    PlanError, Port, PortType, json,
};

operator! {
    /// Makes a row of each window, or of each range.
    ///
    /// # Inputs
    /// Windows, shape (n, N), or ranges, shape (n, 2).
    ///
    /// # Returns
    /// Rows: `start`, `end` (int64), `time` where the signal knows civil time, then a column for each expression: one
    /// value, or a list of as many as the window has samples. A row of a range has no further fields. No edges, no
    /// delay.
    ///
    /// # Conventions
    /// Dtypes are those that `map` gives: NumPy's, but wider where integer arithmetic could wrap. Calibrated counts are
    /// values in their unit.
    ///
    /// # Errors
    /// An expression that does not fit the types; two fields of one name; input of another kind.
    pub struct ToRows = "rows" (Inputs::Exactly(1)) {
        /// Fields by name, each an expression of the window.
        fields: Map<String, Value> = "expressions" { default: || json!({}) },
    }
    state {
        bound: Option<BoundState>,
    }
}

struct BoundState {
    rows: RowBuilder,
    columns: Vec<Column>,
}

struct Column {
    compiled: CompiledExpr,
    dtype: DType,
    /// None: a single value per row.
    width: Option<usize>,
    values: MutableBuffer,
}

impl Column {
    fn add(&mut self, frames: &Frames) -> Result<(), OpError> {
        if let Some(width) = self.width.filter(|&width| width != frames.width()) {
            return Err(OpErrorKind::ShortWindow {
                got: frames.width(),
                width,
            }
            .into());
        }
        let row = self.width.unwrap_or(1) * self.dtype.size();
        let before = self.values.len();
        self.values
            .resize(before + frames.count() as usize * row, 0);
        self.compiled
            .run(frames, &mut self.values.as_slice_mut()[before..])
    }

    fn take(&mut self) -> Result<ArrayRef, OpError> {
        let values = std::mem::take(&mut self.values);
        let column = match self.width {
            None => columns::column_from_bytes(self.dtype, values, None),
            // Windows lie in memory: their lengths fit.
            Some(width) => columns::list_column(self.dtype, width as i32, values),
        };
        Ok(column.map_err(OpErrorKind::from)?)
    }
}

pub(crate) fn expression(
    operator: &'static str,
    parameter: &'static str,
    name: &str,
    saved: &Value,
) -> Result<Expr, PlanError> {
    serde_json::from_value(saved.clone()).map_err(|why| PlanError::Parameter {
        operator,
        parameter,
        got: format!("{{{name:?}: {saved}}}"),
        legal: format!("expressions by name ({why})"),
    })
}

impl Operator for ToRows {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let port = &inputs[0];
        let width = match *port {
            PortType::Frames { width, .. } => width,
            PortType::Ranges { .. } if self.fields.is_empty() => 0,
            PortType::Ranges { .. } => {
                return Err(wrong_input(
                    "rows",
                    "windows for its fields",
                    port,
                    "a range has no samples: leave the fields out, or sync(...) samples with it",
                ));
            }
            _ => {
                return Err(wrong_input(
                    "rows",
                    "windows or ranges",
                    port,
                    "put rewindow(...) before it",
                ));
            }
        };
        let (mut columns, mut fields, mut stateful) = (Vec::new(), Vec::new(), false);
        let mut cost_ns = 0.1;
        for (name, saved) in &self.fields {
            let expr = expression("rows", "fields", name, saved)?;
            let mut compiled = CompiledExpr::default();
            let program = compiled.bind("rows", Some(&expr), from_ref(port))?;
            cost_ns += expression_cost_ns(Some(&expr));
            stateful |= program.is_stateful();
            let output = program.output();
            let one = Fields::arrow_type(output.dtype);
            let (width, data) = match output.shape {
                Shape::Sample => {
                    let item = Field::new("item", one, false);
                    let list = DataType::FixedSizeList(item.into(), width as i32);
                    (Some(width), list)
                }
                _ => (None, one),
            };
            fields.push(Field::new(name, data, false));
            columns.push(Column {
                compiled,
                dtype: output.dtype,
                width,
                values: MutableBuffer::default(),
            });
        }
        let (rows, output) = RowBuilder::bind("rows", port, fields)?;
        self.bound = Some(BoundState { rows, columns });
        let contract = match stateful {
            true => Contract::Sequential,
            false => Contract::Stateless,
        };
        Ok(OperatorProperties::new([output])
            .contract(contract)
            .cost_ns(cost_ns))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(bound) = &mut self.bound else {
            return Ok(Next::Done);
        };
        match &*item {
            Item::Frames(frames) => {
                bound.rows.add(frames);
                bound
                    .columns
                    .iter_mut()
                    .try_for_each(|column| column.add(frames))?;
                if bound.rows.is_full() {
                    self.flush(out)?;
                }
            }
            Item::Ranges(ranges) => {
                ranges
                    .ranges
                    .iter()
                    .for_each(|range| bound.rows.add_range(range));
                // Detections are rare and awaited: emit at once.
                self.flush(out)?;
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "frames or ranges",
                    got: other.kind(),
                }
                .into());
            }
        }
        Ok(Next::Consumed)
    }

    flush_rows!(|bound| {
        let columns = bound.columns.iter_mut();
        columns.for_each(|column| column.compiled.reset());
    });
}

impl ToRows {
    fn flush(&mut self, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(BoundState { rows, columns }) = &mut self.bound else {
            return Ok(());
        };
        rows.emit(columns.iter_mut().map(Column::take), out)
    }
}
