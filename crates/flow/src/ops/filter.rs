//! Windows or rows of which something is true.

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBuffer;
use arrow_select::filter::filter_record_batch;
use isochrony_expr::{Expr, Shape};
use isochrony_segment::{Bool8, DType};

use super::compiled::Compiled;
use super::wrong_input;
use crate::rows::{Fields, OfRows};
use crate::{
    Bound, Break, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator, Out, PlanError,
    Port, PortType, operator,
};

operator! {
    /// Lets the windows, or rows, pass of which an expression is true; what it removes is no gap.
    ///
    /// The expression gives one bool per window, as `s.std() > 10`, of values in the signal's unit. Windows are not
    /// copied. One that remembers earlier windows (running means, hysteresis) forgets them at a break. Of rows the
    /// expression is one of their fields, as `r.mean > 3`; a row of which a field is unknown (a null) does not pass.
    pub struct Filter = "filter" (Inputs::Exactly(1)) {
        /// One bool per window or row.
        predicate: Option<Expr> = "expression" {},
    }
    state {
        compiled: Compiled,
        flags: Vec<Bool8>,
        of_rows: Option<OfRows>,
    }
}

impl Operator for Filter {
    fn bind(&mut self, inputs: &[PortType]) -> Result<Bound, PlanError> {
        let port = &inputs[0];
        if let PortType::Rows { fields, .. } = *port {
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
            .bind("filter", self.predicate.as_ref(), port)?;
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
        let contract = if program.is_stateful() {
            Contract::Sequential
        } else {
            Contract::Stateless
        };
        Ok(Bound::new([*port]).contract(contract).data_dependent())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if let (Item::Rows(rows), Some(of_rows)) = (&*item, &mut self.of_rows) {
            let (flags, nulls) = of_rows.run(rows.batch())?;
            let flags = BooleanBuffer::from_iter(flags.as_slice().iter().map(|&flag| flag != 0));
            let flags = BooleanArray::new(flags, nulls);
            return Ok(match flags.true_count() {
                0 => Next::Taken,
                all if all == flags.len() => Next::Tail,
                _ => {
                    let passed = filter_record_batch(rows.batch(), &flags);
                    *item = rows.with_batch(passed.map_err(OpErrorKind::from)?).into();
                    Next::Tail
                }
            });
        }
        let Item::Frames(frames) = item else {
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
        self.compiled
            .run(frames, bytemuck::cast_slice_mut(&mut self.flags[..count]))?;
        let flags = &self.flags[..count];
        let passes = |k: usize| bool::from(flags[k]);
        // Runs of windows that pass go on together.
        let mut at = 0;
        while at < count {
            let Some(from) = (at..count).find(|&k| passes(k)) else {
                break;
            };
            at = (from..count).find(|&k| !passes(k)).unwrap_or(count);
            if at - from == count {
                return Ok(Next::Tail);
            }
            if let Some(run) = frames.sub(from as u64..at as u64) {
                out.emit(0, &mut run.into())?;
            }
        }
        Ok(Next::Taken)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.compiled.reset();
        Ok(())
    }
}

impl Filter {
    fn bind_rows(&mut self, port: &PortType, fields: Fields) -> Result<Bound, PlanError> {
        let Some(predicate) = &self.predicate else {
            return Err(PlanError::MissingParameter {
                operator: "filter",
                parameter: "predicate",
                doc: "One bool per row.",
            });
        };
        let of_rows = OfRows::bind("filter", predicate, fields)?;
        if of_rows.output() != DType::Bool {
            return Err(PlanError::Predicate {
                expression: format!("{predicate}: {}", of_rows.output()),
                mend: "compare it with something",
            });
        }
        self.of_rows = Some(of_rows);
        Ok(Bound::new([*port]).data_dependent())
    }
}
