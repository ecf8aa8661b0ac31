//! A Python function of records in worker processes.
//!
//! A buffer's records go there, and results return, in one message. Only accumulators and exceptions need this
//! process's interpreter.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

use isochrony_nbuf::{BufferOutput, Cause, LocatedError, RecordBlock};
use isochrony_runtime::Interrupt;
use isochrony_workers::{
    CallContext, PortableFunction, ProcessPool, RecordCall, RecordResult, RemoteFunction,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{PackageError, Result};
use crate::plan::Nesting;
use crate::workers;

pub(super) type Accumulator = Option<Py<PyAny>>;

pub(super) struct RemoteCalls {
    pool: Arc<ProcessPool>,
    function: Arc<PortableFunction>,
    name: String,
    interrupt: Interrupt,
    next_worker: AtomicUsize,
}

pub(super) struct RemoteWorker {
    function: RemoteFunction,
    lengths: Vec<u64>,
}

impl RemoteCalls {
    /// `function`: of records, or `isochrony.nbuffering.record_calls.AccumulatingFunction`.
    pub(super) fn new(
        function: Py<PyAny>,
        name: String,
        workers: Option<usize>,
        interrupt: Interrupt,
    ) -> Result<Self> {
        let workers = workers.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get));
        let pool = workers::process_pool(workers, Nesting::current().of_processes());
        let portable = pool.function(workers::host_function(&Arc::new(function)));
        let function = portable.map_err(|why| {
            let message = format!(
                "on_workers=\"processes\" is refused: {name} {why}; give on_workers=\"inline\""
            );
            PackageError::new("OptionError", "bad_option", message)
        })?;
        Ok(Self {
            pool,
            function,
            name,
            interrupt,
            next_worker: AtomicUsize::new(0),
        })
    }

    /// In the worker's thread: starts its process.
    pub(super) fn worker(&self) -> RemoteWorker {
        let context = CallContext {
            worker: Some(self.next_worker.fetch_add(1, Ordering::Relaxed)),
            caller: None,
            interrupt: Some(self.interrupt.clone()),
            watch: None,
            check_signals: workers::check_signals,
        };
        let (pool, function) = (Arc::clone(&self.pool), Arc::clone(&self.function));
        RemoteWorker {
            function: RemoteFunction::of_records(pool, function, &self.name, context),
            lengths: Vec::new(),
        }
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }
}

impl RemoteWorker {
    pub(super) fn execute(
        &mut self,
        batch: bool,
        sum: &mut Accumulator,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> std::result::Result<(), Cause> {
        self.lengths.clear();
        if batch {
            self.lengths.push(block.bytes.len() as u64);
        } else {
            let lengths = block.records().map(|record| record.len() as u64);
            self.lengths.extend(lengths);
        }
        let call = RecordCall {
            bytes: block.bytes,
            lengths: &self.lengths,
            outputs: out.output_count(),
        };
        let result = self.function.call_records(&call).map_err(workers::cause)?;
        let failed_at = self.write(&result, batch, block, out)?;
        if let Some(exception) = &result.failure {
            if !batch {
                // Discards only the output of the failed record.
                out.begin_record();
            }
            let why: Cause = Box::new(workers::rebuild(exception));
            return Err(match self.lengths.get(result.completed as usize) {
                Some(length) if !batch => Box::new(LocatedError {
                    offset: block.offset + failed_at as u64,
                    length: *length,
                    why,
                }),
                _ => why,
            });
        }
        if let Some(pickled) = &result.accumulator {
            let unpickled = crate::interpreter::attach(|py| {
                let loads = py.import("pickle")?.getattr("loads")?;
                Ok::<_, PyErr>(loads.call1((PyBytes::new(py, pickled),))?.unbind())
            });
            *sum = Some(unpickled?);
        }
        Ok(())
    }

    /// Returns where the next record begins in the block.
    fn write(
        &self,
        result: &RecordResult,
        batch: bool,
        block: &RecordBlock<'_>,
        out: &mut BufferOutput<'_>,
    ) -> std::result::Result<usize, Cause> {
        let mut pieces = result.pieces.iter().peekable();
        let (mut at, mut taken) = (0, 0);
        for (record, length) in self.lengths[..result.completed as usize].iter().enumerate() {
            let end = at + *length as usize;
            if !batch {
                out.begin_record();
            }
            while let Some(piece) = pieces.next_if(|piece| piece.record == record as u64) {
                let bytes = match piece.length {
                    None => &block.bytes[at..end],
                    Some(length) => {
                        let start = taken;
                        taken += length as usize;
                        &result.bytes[start..taken]
                    }
                };
                out.write(piece.output as usize, bytes)?;
            }
            at = end;
        }
        Ok(at)
    }
}
