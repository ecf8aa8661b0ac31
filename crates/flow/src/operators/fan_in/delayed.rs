//! Delays feedback in a loop.

use isochrony_expr::{Expr, ExprError, Frames, Program};
use isochrony_segment::{Calibration, DType, SigSeg, StreamId, dispatch};
use serde_json::Value;

use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Alignment, Break, Contract, Inputs, Item, Next, OpError, OpErrorKind, Operator,
    OperatorProperties, Out, PlanError, Port, PortType, Workspace,
};

operator! {
    /// Repeats what `feedback` received so many windows or samples before; part of `Plan.feedback`.
    ///
    /// # Inputs
    /// Samples, or windows, that drive the loop.
    ///
    /// # Returns
    /// For each input window the values fed back `by` windows earlier, of the stated dtype, shape (n, N); for samples
    /// shape (n,). Edges: the first ones of each gap-free range are `initial`.
    ///
    /// # Errors
    /// The input is neither samples nor windows; `initial` of another length than what is fed back.
    pub struct Delayed = "delayed" (Inputs::Exactly(1)) {
        /// Delay of the loop.
        by: u64 = "integer" { unit: Items, range: (1.0, 1e9), default: || Value::from(1) },
        /// First values: a number, or one for each value of a window.
        initial: Value = "numbers" { default: || Value::from(0.0) },
        /// Type of the values.
        dtype: Option<DType> = "text" {
            choices: &["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64", "complex64", "complex128"],
            default: || Value::from("float64"),
        },
    }
    state {
        first: Vec<u8>,
        /// Fed back or initial rows that wait, from offset `at` on.
        rows: Vec<u8>,
        at: usize,
        result: Option<(DType, StreamId)>,
        width: usize,
        /// Next index of the contiguous range.
        expected: Option<i64>,
    }
}

impl Delayed {
    fn parameter_error(&self, legal: &str) -> PlanError {
        PlanError::Parameter {
            operator: "delayed",
            parameter: "initial",
            got: self.initial.to_string(),
            legal: legal.into(),
        }
    }

    /// Initial values as bytes, and their number.
    fn initial_row(&self, dtype: DType) -> Result<(Vec<u8>, usize), PlanError> {
        let numbers: Option<Vec<f64>> = match &self.initial {
            Value::Array(list) => list.iter().map(Value::as_f64).collect(),
            one => one.as_f64().map(|one| vec![one]),
        };
        let Some(numbers) = numbers.filter(|numbers| !numbers.is_empty()) else {
            return Err(self.parameter_error("a number or a list of numbers"));
        };
        let convert = || -> Result<(Vec<u8>, bool), ExprError> {
            let to = Program::compile(&Expr::input().astype(dtype), DType::F64)?;
            let from = Program::compile(&Expr::input().real().astype(DType::F64), dtype)?;
            let mut back = vec![0.0f64; numbers.len()];
            dispatch!(dtype, T => {
                let mut row = vec![T::default(); numbers.len()];
                let doubles = Frames::stretch(&numbers);
                to.run(&mut to.scratch(), &mut to.state(), &doubles, &mut row)?;
                let values = Frames::stretch(&row);
                from.run(&mut from.scratch(), &mut from.state(), &values, &mut back)?;
                Ok((bytemuck::cast_slice(&row).to_vec(), back == numbers))
            })
        };
        let (row, exact) = convert().map_err(|error| PlanError::Expression {
            operator: "delayed",
            error,
        })?;
        // Rounded to single precision, as everywhere.
        if !exact && !matches!(dtype, DType::F32 | DType::C64) {
            return Err(self.parameter_error(&format!("numbers that {dtype} has")));
        }
        Ok((row, numbers.len()))
    }

    fn start(&mut self) {
        self.at = 0;
        self.rows.clear();
        for _ in 0..self.by {
            self.rows.extend_from_slice(&self.first);
        }
    }
}

impl Operator for Delayed {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let dtype = self.dtype.unwrap_or(DType::F64);
        (self.first, self.width) = self.initial_row(dtype)?;
        let of_values = |stream: StreamId| {
            let stream = stream.get().clone();
            stream.with_calibration(Calibration::default()).intern()
        };
        let output = match inputs[0] {
            PortType::Samples { stream, .. } if self.width == 1 => PortType::Samples {
                dtype,
                stream: of_values(stream),
            },
            PortType::Samples { .. } => {
                return Err(self.parameter_error("one number, since samples are fed back"));
            }
            PortType::Frames {
                stream,
                window,
                hop,
                ..
            } => PortType::Frames {
                dtype,
                stream: of_values(stream),
                window,
                hop,
                width: self.width,
            },
            ref other => {
                return Err(wrong_input(
                    "feedback",
                    "samples or windows",
                    other,
                    "feed back before they become rows",
                ));
            }
        };
        let row = self.first.len() as u64;
        let workspace = Workspace::check("feedback", "by", self.by, row)?;
        self.result = output.stream_id().map(|stream| (dtype, stream));
        Ok(OperatorProperties::new([output])
            .contract(Contract::Sequential)
            .workspace(workspace)
            .align(Alignment::Loop { delay: self.by }))
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some((dtype, stream)) = self.result else {
            return Ok(Next::Done);
        };
        if port == 1 {
            self.store(item)?;
            return Ok(Next::Consumed);
        }
        let Some((start, next)) = item.extent() else {
            return Ok(Next::Consumed);
        };
        if self.expected.replace(next) != Some(start) {
            self.start();
        }
        let count = match &*item {
            Item::Frames(frames) => frames.count(),
            other => other.samples(),
        };
        // The engine asks for no more than was fed back.
        let bytes = count as usize * self.first.len();
        let mut block = out.alloc(dtype, count as usize * self.width)?;
        block
            .bytes_mut()
            .copy_from_slice(&self.rows[self.at..self.at + bytes]);
        self.at += bytes;
        let values = out.seal(block);
        *item = match &*item {
            Item::Frames(frames) => {
                let rows = frames.with_rows(values, dtype, self.width, stream);
                rows.map_or(Item::Taken, Item::from)
            }
            _ => SigSeg::new(values, start, dtype, stream)?.into(),
        };
        Ok(Next::Forward)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.expected = None;
        Ok(())
    }
}

impl Delayed {
    fn store(&mut self, item: &Item) -> Result<(), OpError> {
        // Move data only if less than the space freed: each byte moves about once.
        if self.at > self.rows.len() / 2 {
            self.rows.drain(..self.at);
            self.at = 0;
        }
        match item {
            Item::Frames(frames) => {
                let size = frames.dtype().size();
                let bytes = frames.buffer().bytes();
                for row in 0..frames.count() as usize {
                    let from = row * frames.stride() * size;
                    self.rows
                        .extend_from_slice(&bytes[from..from + frames.width() * size]);
                }
            }
            Item::Samples(samples) => {
                for buffer in samples.buffers() {
                    self.rows.extend_from_slice(buffer.bytes());
                }
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "samples or frames",
                    got: other.kind(),
                }
                .into());
            }
        }
        Ok(())
    }
}
