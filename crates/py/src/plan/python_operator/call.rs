//! Calls a Python function with blocks.
//!
//! The thread attaches once per block and shows it without a copy, mostly in an existing array ([`ArrayLender`]).
//! Results that are short or views of the input keep no Python object.
//!
//! Between blocks the thread detaches: staying attached would save 0.25 us per block, but lock other threads out of
//! Python.

use std::sync::Arc;

use isochrony_flow::operators::{forward_where, in_unit};
use isochrony_flow::{
    Break, Contract, Frames, Item, Next, OpError, OpErrorKind, Operator, OperatorFactory,
    OperatorProperties, Out, PlanError, Port, PortType, Rows,
};
use isochrony_segment::{Bool8, Buffer, DType, SigSeg, StreamId};
use isochrony_workers::RemoteFunction;
use pyo3::prelude::*;

use super::function_result::{ReturnType, call_in_worker_process, check, into_buffer};

use super::declaration::{FunctionRole, PythonOperator};
use crate::interpreter::attach;
use crate::memory::{self, ArrayLender, Block, ReturnedArray};
use crate::plan::columns::{batch_from_result, bool_per_row, break_notice, table};
use crate::plan::function::{Function, unitless};
use crate::plan::nesting::Nesting;
use crate::plan::operator_error::{failed, raised};

pub(super) struct FunctionCaller {
    of: PythonOperator,
    stream: Option<StreamId>,
    width: usize,
    lender: ArrayLender,
    remote: Option<RemoteFunction>,
    called: Option<RunFunctions>,
}

struct RunFunctions {
    function: Arc<Py<PyAny>>,
    make_state: Option<Arc<Py<PyAny>>>,
    on_break: Option<Arc<Py<PyAny>>>,
    state: Option<Py<PyAny>>,
    inside: Arc<Nesting>,
}

impl RunFunctions {
    /// Created at the start of a gap-free range.
    fn state<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        if let (Some(make), None) = (&self.make_state, &self.state) {
            self.state = Some(make.call0(py)?);
        }
        Ok(self.state.as_ref().map(|state| state.bind(py).clone()))
    }
}

impl FunctionCaller {
    pub(super) fn unbound(of: PythonOperator) -> Self {
        Self {
            of,
            stream: None,
            width: 0,
            lender: ArrayLender::default(),
            remote: None,
            called: None,
        }
    }

    pub(super) fn new(
        of: PythonOperator,
        remote: Option<RemoteFunction>,
        nesting: &Nesting,
    ) -> Result<Self, OpError> {
        let function = of.function.object.get()?;
        let other = |function: &Option<Function>| {
            let function = function.as_ref();
            function.map(|function| function.object.get()).transpose()
        };
        let called = RunFunctions {
            inside: nesting.inside(&function),
            make_state: other(&of.state)?,
            on_break: other(&of.on_break)?,
            state: None,
            function,
        };
        Ok(Self {
            remote,
            called: Some(called),
            ..Self::unbound(of)
        })
    }

    /// If the function gets values.
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
        wanted: Option<ReturnType>,
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

    fn per_window(&self, frames: &Frames, dtype: DType, columns: usize) -> ReturnType {
        let given = frames.width();
        ReturnType {
            dtype,
            rows: frames.count() as usize,
            columns: Some(columns),
            short: (given != self.width).then_some((given, self.width)),
        }
    }

    fn of_samples(
        &mut self,
        samples: &SigSeg,
        wanted: Option<ReturnType>,
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

    /// Without `wanted` it also gets the start index, and its result is dropped.
    fn call(
        &mut self,
        block: &Block<'_>,
        start: i64,
        wanted: Option<ReturnType>,
        out: &mut Out<'_>,
    ) -> Result<Option<Buffer>, OpError> {
        if let (Some(remote), Some(wanted)) = (&self.remote, wanted) {
            return call_in_worker_process(&self.of, remote, block, wanted, out).map(Some);
        }
        let Self {
            of, lender, called, ..
        } = self;
        let Some(called) = called else {
            return Ok(None);
        };
        attach(|py| {
            let _inside = called.inside.enter();
            let state = called.state(py).map_err(raised)?;
            let function = called.function.bind(py);
            let shown = lender.show(py, block, |rows| {
                let Some(wanted) = wanted else {
                    function.call1((rows, start)).map_err(raised)?;
                    return Ok(None);
                };
                let result = match state {
                    None => memory::call(function, rows),
                    Some(state) => function.call1((rows, state)),
                };
                let result = result.map_err(raised)?;
                let returned = ReturnedArray::of(result).map_err(failed)?;
                check(of, returned.dtype, returned.rows, returned.columns, wanted)?;
                into_buffer(returned, block.buffer, out).map(Some)
            });
            shown.map_err(raised)?
        })
    }

    /// As a table; `each` also gets the start index.
    fn of_rows(&mut self, rows: &Rows) -> Result<Option<Rows>, OpError> {
        let Self { of, called, .. } = self;
        let Some(called) = called else {
            return Ok(None);
        };
        let shown = &of.function.shown;
        attach(|py| {
            let _inside = called.inside.enter();
            let table = table(py, rows.batch()).map_err(raised)?;
            let state = called.state(py).map_err(raised)?;
            let function = called.function.bind(py);
            if of.role == FunctionRole::Each {
                let start = rows.covers().map(|covers| covers.start);
                function.call1((table, start)).map_err(raised)?;
                return Ok(Some(rows.clone()));
            }
            let result = match state {
                None => function.call1((&table,)),
                Some(state) => function.call1((&table, state)),
            };
            let result = result.map_err(raised)?;
            match of.role {
                FunctionRole::MapRows(fields) => {
                    let columns = batch_from_result(py, &result, fields, rows.batch(), shown)?;
                    Ok(Some(rows.with_batch(columns)))
                }
                _ => Ok(rows.filtered(&bool_per_row(result, rows.count() as usize, shown)?)?),
            }
        })
    }
}

impl Operator for FunctionCaller {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let of = &self.of;
        let [port] = inputs else {
            return Err(PlanError::Inputs {
                operator: of.name(),
                expected: "1".into(),
                got: inputs.len(),
            });
        };
        self.stream = port.stream_id().map(unitless);
        if let PortType::Frames { width, .. } = *port {
            self.width = width;
        }
        let bound = match (of.role, *port, self.stream) {
            (FunctionRole::Each, ..) => OperatorProperties::new([*port]),
            (FunctionRole::MapRows(fields), PortType::Rows { stream, .. }, _) => {
                OperatorProperties::new([PortType::Rows { fields, stream }])
            }
            (FunctionRole::Filter, PortType::Frames { .. } | PortType::Rows { .. }, _) => {
                OperatorProperties::new([*port]).data_dependent()
            }
            (
                FunctionRole::Map(dtype, width),
                PortType::Frames { window, hop, .. },
                Some(stream),
            ) => OperatorProperties::new([PortType::Frames {
                dtype,
                stream,
                window,
                hop,
                width,
            }]),
            (FunctionRole::Map(dtype, _), PortType::Samples { .. }, Some(stream)) => {
                OperatorProperties::new([PortType::Samples { dtype, stream }])
            }
            (FunctionRole::Filter, ..) => return Err(of.wrong_input(port, "windows or rows")),
            _ => return Err(of.wrong_input(port, "samples or windows")),
        };
        let rows = matches!(port, PortType::Rows { .. });
        let bound = match of.sequential || of.role == FunctionRole::Each || rows {
            true => bound.contract(Contract::Sequential),
            false => bound,
        };
        Ok(bound.in_interpreter())
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        match (&*item, self.of.role) {
            (Item::Frames(frames), FunctionRole::Filter) => {
                let wanted = self.per_window(frames, DType::Bool, 1);
                match self.of_frames(frames, Some(wanted), out)? {
                    Some(flags) => {
                        forward_where(frames, flags.samples::<Bool8>().unwrap_or_default(), out)
                    }
                    None => Ok(Next::Consumed),
                }
            }
            (Item::Frames(frames), FunctionRole::Map(dtype, width)) => {
                let wanted = self.per_window(frames, dtype, width);
                let rows = self.of_frames(frames, Some(wanted), out)?;
                if let (Some(rows), Some(stream)) = (rows, self.stream)
                    && let Some(rows) = frames.with_rows(rows, dtype, width, stream)
                {
                    *item = rows.into();
                }
                Ok(Next::Forward)
            }
            (Item::Samples(samples), FunctionRole::Map(dtype, _)) => {
                let wanted = ReturnType {
                    dtype,
                    rows: samples.len() as usize,
                    columns: None,
                    short: None,
                };
                let values = self.of_samples(samples, Some(wanted), out)?;
                if let (Some(values), Some(stream)) = (values, self.stream) {
                    *item = SigSeg::new(values, samples.start(), dtype, stream)?.into();
                }
                Ok(Next::Forward)
            }
            (Item::Frames(frames), FunctionRole::Each) => {
                self.of_frames(frames, None, out)?;
                Ok(Next::Forward)
            }
            (Item::Samples(samples), FunctionRole::Each) => {
                self.of_samples(samples, None, out)?;
                Ok(Next::Forward)
            }
            (Item::Ranges(ranges), FunctionRole::Each) => {
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
                Ok(Next::Forward)
            }
            (Item::Rows(rows), _) => Ok(match self.of_rows(rows)? {
                Some(rows) => {
                    *item = rows.into();
                    Next::Forward
                }
                None => Next::Consumed,
            }),
            (other, _) => Err(OpErrorKind::WrongItem {
                expected: "samples, frames or rows",
                got: other.kind(),
            }
            .into()),
        }
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        let Some(called) = &mut self.called else {
            return Ok(());
        };
        if called.make_state.is_none() && called.on_break.is_none() {
            return Ok(());
        }
        attach(|py| {
            let _inside = called.inside.enter();
            called.state = None;
            match &called.on_break {
                Some(function) => {
                    let told = break_notice(py, why, 0).and_then(|why| function.call1(py, (why,)));
                    told.map(drop).map_err(raised)
                }
                None => Ok(()),
            }
        })
    }
}
