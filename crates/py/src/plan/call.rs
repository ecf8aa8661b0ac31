//! Python functions at work.
//!
//! For each block the run's thread attaches to the interpreter once. It shows the function the block as an array,
//! without a copy and for most blocks without making one ([`Lent`]), and leaves nothing behind that needs the
//! interpreter again where that is cheaper: what a function returns of what it was given is a part of the same memory,
//! and few values are copied to the run's own; longer results are taken over.
//!
//! Between blocks the interpreter is free. To stay attached would save a quarter of a microsecond a block, and keep
//! everybody else from running Python, signal handlers among them, for as long as the operators in between compute or
//! wait for their disk: nobody can take the interpreter from a thread that runs no Python code.

use isochrony_flow::ops::{in_unit, pass_where};
use isochrony_flow::{
    Bound as BoundOp, Cause, Contract, Frames, Held, Item, Next, OpError, OpErrorKind, Operator,
    Out, PlanError, Port, PortType,
};
use isochrony_segment::{Bool8, Buffer, DType, SigSeg, StreamId};
use pyo3::prelude::*;

use super::function::{PythonOperator, Use, failed, unitless};
use crate::errors::Error;
use crate::memory::{self, Block, Lent, Returned};
use crate::processes::{Answer, Remote, Work};

/// An operator that calls a Python function.
pub(super) struct Calling {
    of: PythonOperator,
    /// Stream of what comes out.
    stream: Option<StreamId>,
    lent: Lent,
    /// Calls it in worker processes; else it is called here.
    remote: Option<Remote>,
}

/// What a function is to return of a block.
#[derive(Clone, Copy)]
struct Wanted {
    dtype: DType,
    rows: usize,
    /// Values of a row; None where only single values will do.
    columns: Option<usize>,
}

impl Calling {
    pub(super) fn new(of: PythonOperator, remote: Option<Remote>) -> Self {
        Self {
            of,
            stream: None,
            lent: Lent::default(),
            remote,
        }
    }

    /// Values as the function sees them, where those are not what came in.
    fn in_unit(
        &self,
        buffer: &Buffer,
        dtype: DType,
        stream: StreamId,
        out: &mut Out<'_>,
    ) -> Result<Option<(Buffer, DType)>, OpError> {
        if self.of.counts || stream.get().calibration.is_identity() {
            return Ok(None);
        }
        in_unit(buffer, dtype, stream, out).map(Some)
    }

    fn of_frames(
        &mut self,
        frames: &Frames,
        wanted: Option<Wanted>,
        out: &mut Out<'_>,
    ) -> Result<Option<Buffer>, OpError> {
        let (buffer, dtype) = (frames.buffer(), frames.dtype());
        let made = self.in_unit(buffer, dtype, frames.stream_id(), out)?;
        let (buffer, dtype) = made.as_ref().map_or((buffer, dtype), |(b, d)| (b, *d));
        let block = Block {
            buffer,
            dtype,
            rows: frames.count() as usize,
            columns: Some(frames.width()),
            stride: frames.stride(),
        };
        self.call(&block, frames.start(), wanted, out)
    }

    fn of_samples(
        &mut self,
        samples: &SigSeg,
        wanted: Option<Wanted>,
        out: &mut Out<'_>,
    ) -> Result<Option<Buffer>, OpError> {
        let (joined, dtype) = (samples.materialise()?, samples.dtype());
        let Some(buffer) = joined.buffers().next() else {
            return Ok(None);
        };
        let made = self.in_unit(buffer, dtype, samples.stream_id(), out)?;
        let (buffer, dtype) = made.as_ref().map_or((buffer, dtype), |(b, d)| (b, *d));
        let block = Block {
            buffer,
            dtype,
            rows: samples.len() as usize,
            columns: None,
            stride: 1,
        };
        self.call(&block, samples.start(), wanted, out)
    }

    /// Calls the function with a block, and with the index where it starts if nothing is wanted of it. Gives what it
    /// returned, which is as wanted; nothing if nothing was.
    fn call(
        &mut self,
        block: &Block<'_>,
        start: i64,
        wanted: Option<Wanted>,
        out: &mut Out<'_>,
    ) -> Result<Option<Buffer>, OpError> {
        if let (Some(remote), Some(wanted)) = (&self.remote, wanted) {
            return remotely(&self.of, remote, block, wanted, out).map(Some);
        }
        let Self { of, lent, .. } = self;
        let raised = |error: PyErr| failed(Error::Python(error));
        Python::attach(|py| {
            let function = of.function.object.bind(py);
            let called = lent.show(py, block, |rows| {
                let Some(wanted) = wanted else {
                    function.call1((rows, start)).map_err(raised)?;
                    return Ok(None);
                };
                let result = memory::call(function, rows).map_err(raised)?;
                let returned = Returned::of(result).map_err(failed)?;
                check(of, returned.dtype, returned.rows, returned.columns, wanted)?;
                keep(returned, block.buffer, out).map(Some)
            });
            called.map_err(raised)?
        })
    }
}

/// What the function returns of a block in a worker process.
fn remotely(
    of: &PythonOperator,
    remote: &Remote,
    block: &Block<'_>,
    wanted: Wanted,
    out: &mut Out<'_>,
) -> Result<Buffer, OpError> {
    let values = block.rows.saturating_sub(1) * block.stride + block.columns.unwrap_or(1);
    let bytes = if block.rows == 0 {
        0
    } else {
        values * block.dtype.size()
    };
    let Some(input) = block.buffer.bytes().get(..bytes) else {
        let message = format!(
            "{} was given a block of another shape than its rows",
            of.function.shown
        );
        return Err(OpErrorKind::Failed(Cause::from(message)).into());
    };
    let work = Work {
        input,
        dtype: block.dtype,
        rows: block.rows,
        columns: block.columns,
        stride: block.stride,
        wanted: wanted.dtype,
        wanted_columns: wanted.columns,
    };
    let mut result = out.alloc(wanted.dtype, wanted.rows * wanted.columns.unwrap_or(1))?;
    let raised = |error| failed(Error::Python(error));
    match remote.call(&work, result.bytes_mut())? {
        Answer::Done => Ok(out.seal(result)),
        Answer::Raised(error) => Err(raised(error)),
        Answer::Shape(dtype, shape) => {
            let got = Returned::dtype_named(&dtype).map_err(failed)?;
            let (rows, columns) = Returned::shape(&shape).map_err(failed)?;
            check(of, got, rows, columns, wanted)?;
            let message = format!("{} returned {dtype} of another shape", of.function.shown);
            Err(OpErrorKind::Failed(Cause::from(message)).into())
        }
    }
}

/// What a function returned of `memory`, as memory of the run.
fn keep(returned: Returned<'_>, memory: &Buffer, out: &mut Out<'_>) -> Result<Buffer, OpError> {
    if let Some(part) = returned.part_of(memory) {
        return Ok(part);
    }
    if let Some(few) = returned.few() {
        let mut block = out.alloc(DType::U8, few.len())?;
        block.bytes_mut().copy_from_slice(few);
        return Ok(out.seal(block));
    }
    returned.adopt().map_err(failed)
}

/// Whether what came back is what was promised.
fn check(
    of: &PythonOperator,
    got: DType,
    got_rows: usize,
    got_columns: Option<usize>,
    wanted: Wanted,
) -> Result<(), OpError> {
    let Wanted {
        dtype,
        rows,
        columns,
    } = wanted;
    let flat = got_columns.is_none() && columns == Some(1);
    if got == dtype && got_rows == rows && (flat || got_columns == columns) {
        return Ok(());
    }
    let shape = |rows: usize, columns: Option<usize>| match columns {
        Some(columns) => format!("({rows}, {columns})"),
        None => format!("({rows},)"),
    };
    let either = if columns == Some(1) {
        format!("{} or ", shape(rows, None))
    } else {
        String::new()
    };
    let message = format!(
        "{} returned {} of shape {} for {rows} rows, where {dtype} of shape {either}{} was promised; {}",
        of.function.shown,
        got,
        shape(got_rows, got_columns),
        shape(rows, columns),
        if of.how == Use::Filter {
            "return one bool a window"
        } else {
            "return that, or state dtype= and width= in isochrony.py"
        }
    );
    Err(OpErrorKind::Failed(Cause::from(message)).into())
}

impl Operator for Calling {
    fn bind(&mut self, inputs: &[PortType]) -> Result<BoundOp, PlanError> {
        let of = &self.of;
        let [port] = inputs else {
            return Err(PlanError::Inputs {
                operator: of.name(),
                expected: "1".into(),
                got: inputs.len(),
            });
        };
        self.stream = port.stream_id().map(unitless);
        let bound = match (of.how, *port, self.stream) {
            (Use::Each, ..) => BoundOp::new([*port]),
            (Use::Filter, PortType::Frames { .. }, _) => BoundOp::new([*port]).data_dependent(),
            (Use::Map(dtype, width), PortType::Frames { window, hop, .. }, Some(stream)) => {
                BoundOp::new([PortType::Frames {
                    dtype,
                    stream,
                    window,
                    hop,
                    width,
                }])
            }
            (Use::Map(dtype, _), PortType::Samples { .. }, Some(stream)) => {
                BoundOp::new([PortType::Samples { dtype, stream }])
            }
            (Use::Filter, ..) => return Err(of.wrong_input(port, "windows")),
            _ => return Err(of.wrong_input(port, "samples or windows")),
        };
        let bound = match of.sequential || of.how == Use::Each {
            true => bound.contract(Contract::Sequential),
            false => bound,
        };
        Ok(bound.in_interpreter())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        match (&*item, self.of.how) {
            (Item::Frames(frames), Use::Filter) => {
                let wanted = Wanted {
                    dtype: DType::Bool,
                    rows: frames.count() as usize,
                    columns: Some(1),
                };
                match self.of_frames(frames, Some(wanted), out)? {
                    Some(flags) => {
                        pass_where(frames, flags.samples::<Bool8>().unwrap_or_default(), out)
                    }
                    None => Ok(Next::Taken),
                }
            }
            (Item::Frames(frames), Use::Map(dtype, width)) => {
                let wanted = Wanted {
                    dtype,
                    rows: frames.count() as usize,
                    columns: Some(width),
                };
                let rows = self.of_frames(frames, Some(wanted), out)?;
                if let (Some(rows), Some(stream)) = (rows, self.stream)
                    && let Some(rows) = frames.with_rows(rows, dtype, width, stream)
                {
                    *item = rows.into();
                }
                Ok(Next::Tail)
            }
            (Item::Samples(samples), Use::Map(dtype, _)) => {
                let wanted = Wanted {
                    dtype,
                    rows: samples.len() as usize,
                    columns: None,
                };
                let values = self.of_samples(samples, Some(wanted), out)?;
                if let (Some(values), Some(stream)) = (values, self.stream) {
                    *item = SigSeg::new(values, samples.start(), dtype, stream)?.into();
                }
                Ok(Next::Tail)
            }
            (Item::Frames(frames), Use::Each) => {
                self.of_frames(frames, None, out)?;
                Ok(Next::Tail)
            }
            (Item::Samples(samples), Use::Each) => {
                self.of_samples(samples, None, out)?;
                Ok(Next::Tail)
            }
            (Item::Ranges(ranges), Use::Each) => {
                let ends: Vec<[i64; 2]> = ranges
                    .ranges
                    .iter()
                    .map(|range| [range.start, range.end])
                    .collect();
                let start = ends.first().map_or(0, |first| first[0]);
                let block = Block {
                    buffer: &Buffer::copy_of(ends.as_flattened())?,
                    dtype: DType::I64,
                    rows: ends.len(),
                    columns: Some(2),
                    stride: 2,
                };
                self.call(&block, start, None, out)?;
                Ok(Next::Tail)
            }
            (other, _) => Err(OpErrorKind::WrongItem {
                expected: "samples or frames",
                got: other.kind(),
            }
            .into()),
        }
    }
}
