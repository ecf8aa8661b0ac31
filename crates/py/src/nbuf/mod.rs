//! `isochrony.nbuffer`: streams through Python functions and native processors, on all cores.
//!
//! The Python half opens streams; this half runs them. Workers attach only to call Python code, never to wait for a
//! turn.

mod function;
mod outcome;
mod process;
mod remote;
mod streams;

use std::time::Duration;

use isochrony_nbuf::{
    Framing, Input, Merge, Options, Order, Output, Prefix, Progress, Report, StreamFailure, check,
    run,
};
use isochrony_runtime::Interrupt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::errors::{Error, Result};
use crate::plan::{tuning_json, tuning_mode};
use process::Processor;
use remote::RemoteCalls;

/// Validated by Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct NBufferOptions {
    order: String,
    workers: Option<usize>,
    memory: usize,
    buffer: Option<usize>,
    stride: Option<usize>,
    delimiter: Option<Vec<u8>>,
    /// Bytes (0: a varint), and whether the most significant comes first.
    prefix: Option<(usize, bool)>,
    max_length: Option<u64>,
    fair: bool,
    ramp: bool,
    eager: bool,
    trace: usize,
    tuning: Option<String>,
}

impl NBufferOptions {
    fn options(self) -> PyResult<Options> {
        let framing = match (self.delimiter, self.prefix) {
            (Some(delimiter), _) => Framing::Delimited(delimiter),
            (None, Some((bytes, big_endian))) => {
                let prefix = match (bytes, big_endian) {
                    (0, _) => Prefix::varint(),
                    (_, false) => Prefix::little_endian(bytes),
                    (_, true) => Prefix::big_endian(bytes),
                };
                Framing::Prefixed(match self.max_length {
                    Some(max_length) => prefix.with_max_length(max_length),
                    None => prefix,
                })
            }
            (None, None) => Framing::Stride(self.stride.unwrap_or(1024)),
        };
        let order = match self.order.as_str() {
            "none" => Order::None,
            "output" => Order::Output,
            "execution" => Order::Execution,
            _ => Order::Both,
        };
        Ok(Options {
            order,
            workers: self.workers,
            memory: self.memory,
            buffer: self.buffer,
            framing,
            merge: if self.fair {
                Merge::Fair
            } else {
                Merge::InOrder
            },
            ramp: self.ramp,
            eager: self.eager,
            trace: self.trace,
            tuning: self.tuning.as_deref().map(tuning_mode).transpose()?,
        })
    }
}

/// Runs `isochrony.nbuffer`. `outputs` creates the outputs once all else is validated. `remote` is what worker
/// processes call, with its name; None: `function` is called in this process.
#[pyfunction]
#[pyo3(signature = (inputs, outputs, destinations, processors, function, batch, initial, combine, options, progress, remote=None))]
#[allow(clippy::too_many_arguments)] // Called from one place.
pub(crate) fn nbuffer<'py>(
    py: Python<'py>,
    inputs: Vec<streams::Source<'py>>,
    outputs: &Bound<'py, PyAny>,
    destinations: usize,
    processors: Vec<String>,
    function: Option<Py<PyAny>>,
    batch: bool,
    initial: Option<Py<PyAny>>,
    combine: Option<Py<PyAny>>,
    options: NBufferOptions,
    progress: Option<Py<PyAny>>,
    remote: Option<(Py<PyAny>, String)>,
) -> Result<Bound<'py, PyDict>> {
    let options = options.options()?;
    let interrupt = Interrupt::default();
    let remote = remote
        .map(|(function, name)| {
            RemoteCalls::new(function, name, options.workers, interrupt.clone())
        })
        .transpose()?;
    let memory = streams::adopt_memory(&inputs)?;
    let views = streams::read_only_views(&inputs)?;
    let processor = Processor::new(
        &processors,
        function,
        batch,
        initial,
        combine,
        remote,
        views,
    )?;
    let inputs = streams::inputs(inputs, &memory)?;
    check(&options, &inputs, &processor, destinations)?;
    let outputs: Vec<streams::OutputStream<'py>> = outputs.call0()?.extract()?;
    let outputs = streams::outputs(outputs)?;
    let (done, raised) = watched(
        py,
        &options,
        inputs,
        &processor,
        outputs,
        progress.as_ref(),
        &interrupt,
    );
    if let Some(error) = raised {
        return Err(error.into());
    }
    let report = match &done {
        Ok(report) => report,
        Err(failure) => &failure.report,
    };
    let report = described(py, report, &processor)?;
    match done {
        Ok(_) => Ok(report),
        Err(failure) => Err(failed(py, &failure, &report)),
    }
}

/// Whether one of these native processors has output.
#[pyfunction]
pub(crate) fn makes_output(processors: Vec<String>) -> Result<bool> {
    Ok(process::parse(&processors)?.is_some_and(|native| native.makes_output()))
}

fn watched(
    py: Python<'_>,
    options: &Options,
    inputs: Vec<Input<'_>>,
    processor: &Processor,
    outputs: Vec<Output<'_>>,
    progress: Option<&Py<PyAny>>,
    interrupt: &Interrupt,
) -> (std::result::Result<Report, StreamFailure>, Option<PyErr>) {
    crate::interpreter::detach(py, || {
        let mut raised = None;
        let mut watch = |so_far: &Progress| {
            if raised.is_some() {
                return false;
            }
            let looked = crate::interpreter::attach(|py| -> PyResult<()> {
                py.check_signals()?;
                match progress {
                    Some(progress) => {
                        let total = so_far.total().unwrap_or(0);
                        progress.call1(py, (so_far.done(), total)).map(drop)
                    }
                    None => Ok(()),
                }
            });
            raised = looked.err();
            if raised.is_some() {
                interrupt.request();
            }
            raised.is_none()
        };
        let done = run(options, inputs, processor, outputs, &mut watch);
        processor.close();
        (done, raised)
    })
}

fn failed(py: Python<'_>, failure: &StreamFailure, report: &Bound<'_, PyDict>) -> Error {
    let offset = failure.error.offset();
    let raised = match Error::of_nbuf(&failure.error, &failure.partial()) {
        Error::Python(error) => return error.into(),
        ours => PyErr::from(ours),
    };
    let value = raised.value(py);
    let _ = value.setattr("_report", report);
    let _ = value.setattr("offset", offset);
    raised.into()
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn described<'py>(
    py: Python<'py>,
    report: &Report,
    processor: &Processor,
) -> PyResult<Bound<'py, PyDict>> {
    let described = PyDict::new(py);
    described.set_item("complete", report.complete)?;
    described.set_item("bytes", report.bytes)?;
    described.set_item("records", report.records)?;
    described.set_item("buffers", report.buffers)?;
    described.set_item("buffer_bytes", report.buffer_bytes)?;
    described.set_item("peak_bytes", report.peak_bytes)?;
    described.set_item("elapsed_s", seconds(report.elapsed))?;
    let inputs = report
        .inputs
        .iter()
        .map(|input| (&input.name, input.bytes, input.short_record, input.ended));
    described.set_item("inputs", inputs.collect::<Vec<_>>())?;
    let outputs = report
        .outputs
        .iter()
        .map(|output| (&output.name, output.bytes));
    described.set_item("outputs", outputs.collect::<Vec<_>>())?;
    let workers = PyList::empty(py);
    for worker in &report.workers {
        let states = &worker.states;
        let times = [
            states.read_wait,
            states.read,
            states.execute_wait,
            states.execute,
            states.write_wait,
            states.write,
        ];
        let trace = worker.trace.iter().map(|visit| {
            let state = format!("{:?}", visit.state).to_lowercase();
            (
                visit.buffer,
                state,
                seconds(visit.start),
                seconds(visit.end),
            )
        });
        let [read_wait, read, execute_wait, execute, write_wait, write] = times.map(seconds);
        let waits_and_works = (
            worker.work.items,
            worker.bytes,
            read_wait,
            read,
            execute_wait,
            execute,
            write_wait,
            write,
            PyTuple::new(py, trace.collect::<Vec<_>>())?,
        );
        workers.append(waits_and_works)?;
    }
    described.set_item("workers", workers)?;
    described.set_item("results", outcome::results(py, &processor.outcomes())?)?;
    described.set_item("tuning", report.tuning.as_ref().map(tuning_json))?;
    described.set_item("result", processor.total(py, report.complete)?)?;
    Ok(described)
}
