//! `isochrony.Executor`: tasklets that are Python functions or plans.
//!
//! Python's half wraps a function so that it is given selections and gives back pieces of arrays; this half owns the run.
//! Workers hold the interpreter while they call Python code, and never while they wait, read, write or run a plan.

mod report;
mod scans;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use isochrony_flow::{Gathered, Plan, RunOptions};
use isochrony_segment::Buffer;
use isochrony_store::Scratch;
use isochrony_tasklets::{Cause, Context, Executor, Options, Order, Part, Returned, Tasklet};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use serde_json::json;

use crate::errors::{Error, Raised, Result};
use crate::handle::Shared;
use crate::key::Stretch;
use crate::memory;
use crate::plan::{NativePlan, object};
use crate::selection::Selection;

use scans::Written;
pub(crate) use scans::check_scans;

/// A tasklet as Python describes it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Described<'py> {
    name: String,
    function_name: String,
    /// What else makes the function or the plan what it is.
    identity: String,
    /// Called with a list of selections; gives what it returned as JSON (None: nothing; False: no JSON) and pieces of
    /// outputs: number, offset, array.
    call: Option<Py<PyAny>>,
    plan: Option<Bound<'py, NativePlan>>,
    inputs: Vec<Bound<'py, Selection>>,
    outputs: Vec<Bound<'py, Selection>>,
    after: Vec<String>,
}

/// How they are run, as Python has checked it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    workers: usize,
    scratch: u64,
    given: bool,
    prefetch: u64,
    keep_going: bool,
    keep_every_s: f64,
    journal: Option<PathBuf>,
}

impl Asked {
    fn options(self) -> Options {
        let mut options = Options::default();
        options.workers = self.workers;
        options.scratch = self.scratch;
        options.order = if self.given {
            Order::Given
        } else {
            Order::Disk
        };
        options.prefetch = self.prefetch;
        options.keep_going = self.keep_going;
        options.keep_every = Duration::try_from_secs_f64(self.keep_every_s).unwrap_or_default();
        options.journal = self.journal;
        options
    }
}

/// The order of tasklets, in words.
#[pyfunction]
pub(crate) fn explain_tasklets(
    py: Python<'_>,
    tasklets: Vec<Described<'_>>,
    asked: Asked,
    resume: bool,
) -> Result<String> {
    let results = Arc::new(PyDict::new(py).unbind());
    let executor = executor(tasklets, asked, &results)?;
    Ok(py.detach(|| executor.explain(resume))?)
}

/// Runs tasklets; results of plans that no journal can keep go to `results`. `progress` is called with bytes done and in
/// all, tasklets done and in all.
#[pyfunction]
pub(crate) fn run_tasklets<'py>(
    py: Python<'py>,
    tasklets: Vec<Described<'py>>,
    asked: Asked,
    resume: bool,
    results: Bound<'py, PyDict>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let executor = executor(tasklets, asked, &Arc::new(results.unbind()))?;
    let (done, raised) = py.detach(|| {
        let mut raised = None;
        let done = executor.run(resume, &mut |so_far| {
            let looked = Python::attach(|py| -> PyResult<()> {
                py.check_signals()?;
                match &progress {
                    Some(progress) => {
                        let far = (
                            so_far.bytes,
                            so_far.total_bytes,
                            so_far.tasklets,
                            so_far.total_tasklets,
                        );
                        progress.call1(py, far).map(drop)
                    }
                    None => Ok(()),
                }
            });
            raised = looked.err();
            raised.is_none()
        });
        (done, raised)
    });
    match (done, raised) {
        // What was finished is kept; the report is the next run's to tell.
        (_, Some(error)) => Err(error.into()),
        (Ok(done), None) => Ok(report::described(py, &done)?),
        (Err(failure), None) => Err(report::failed(py, *failure)),
    }
}

fn executor(
    tasklets: Vec<Described<'_>>,
    asked: Asked,
    results: &Arc<Py<PyDict>>,
) -> Result<Executor> {
    let mut executor = Executor::new(asked.options())?.around(known_to_python);
    let written = Written::new(&tasklets);
    for one in tasklets {
        let name = one.name.clone();
        if let Some(plan) = &one.plan {
            written.check(&name, plan.get().plan())?;
        }
        let homes: Vec<Home> = (one.inputs.iter().map(|input| input.get()))
            .map(|input| (Arc::clone(&input.shared), input.scratch.clone()))
            .collect();
        let mut tasklet = match (one.call, one.plan) {
            (Some(call), _) => Tasklet::new(one.name, one.function_name, move |context| {
                called(&call, &homes, context)
            }),
            (None, Some(plan)) => {
                let (plan, results) = (plan.get().plan().clone(), Arc::clone(results));
                Tasklet::new(one.name, one.function_name, move |context| {
                    planned(&plan, &results, context)
                })
            }
            (None, None) => Tasklet::new(one.name, one.function_name, |_| Ok(Returned::Nothing)),
        }
        .identified(one.identity);
        for input in &one.inputs {
            tasklet = tasklet.reads(part(&name, "inputs", input.get())?);
        }
        for output in &one.outputs {
            tasklet = tasklet.writes(part(&name, "outputs", output.get())?);
        }
        executor.add(one.after.into_iter().fold(tasklet, Tasklet::after));
    }
    Ok(executor)
}

/// Makes a thread known to the interpreter for as long as it works: once, and not at each call.
fn known_to_python(work: &mut (dyn FnMut() + Send)) {
    Python::attach(|py| py.detach(work));
}

/// A selection as one range of indices.
fn part(name: &str, which: &str, selection: &Selection) -> Result<Part> {
    let range = match selection.selection.parts() {
        [one] => one.range.clone(),
        several => match selection.selection.index_range() {
            Some(range) => range,
            None if several.is_empty() => 0..0,
            None => {
                let message = format!(
                    "{which} of tasklet {name:?} are refused: the selection of {:?} by time is {} ranges of indices; give each as an input of its own",
                    selection.signal().name(),
                    several.len()
                );
                return Err(Raised::new("OptionError", "bad_option", message).into());
            }
        },
    };
    Ok(match &selection.scratch {
        Some(scratch) => Part::scratch(scratch, range),
        None => Part::new(&selection.shared.store, selection.signal(), range),
    })
}

/// The open store of an input, and the temporary signal that it is.
type Home = (Arc<Shared>, Option<Scratch>);

/// Calls a Python function, wrapped.
fn called(
    call: &Py<PyAny>,
    homes: &[Home],
    context: &mut Context<'_>,
) -> std::result::Result<Returned, Cause> {
    type Pieces<T> = Vec<(usize, i64, T)>;
    let selections = (0..homes.len()).map(|input| context.input(input));
    let selections = selections.collect::<std::result::Result<Vec<_>, Cause>>()?;
    let (returned, pieces) = Python::attach(|py| -> PyResult<(Returned, Pieces<Buffer>)> {
        let inputs = PyList::empty(py);
        for (selection, (shared, scratch)) in selections.into_iter().zip(homes) {
            let range = selection.index_range().unwrap_or_default();
            let selection = Selection::new(selection, Stretch::Index(range), shared);
            inputs.append(match scratch {
                Some(scratch) => selection.of_scratch(scratch),
                None => selection,
            })?;
        }
        let given = call.bind(py).call1((inputs,))?;
        let (kept, text, pieces): (bool, Option<String>, Pieces<Bound<'_, PyAny>>) =
            given.extract()?;
        let returned = match text {
            _ if !kept => Returned::Unkept,
            None => Returned::Nothing,
            Some(text) => Returned::Json(text),
        };
        let pieces = pieces.into_iter().map(|(output, offset, array)| {
            let (buffer, _) = memory::adopt(&array, false).map_err(PyErr::from)?;
            Ok((output, offset, buffer))
        });
        Ok((returned, pieces.collect::<PyResult<_>>()?))
    })?;
    for (output, offset, buffer) in pieces {
        context.write_bytes(output, offset, Box::new(Samples(buffer)))?;
    }
    Ok(returned)
}

/// A buffer as bytes.
struct Samples(Buffer);

impl AsRef<[u8]> for Samples {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Runs a plan; what comes out is the output, or the result.
fn planned(
    plan: &Plan,
    results: &Py<PyDict>,
    context: &mut Context<'_>,
) -> std::result::Result<Returned, Cause> {
    let mut options = RunOptions::default();
    let stop = Arc::clone(context.stop());
    options.interrupt = Some(&stop);
    let (gathered, _) = plan.collect_with(&options)?;
    if context.outputs() > 0 {
        let Gathered::Array(array) = gathered else {
            return Err(format!(
                "the plan gives {}, which are no samples; end it with samples or windows",
                plan.port()
            )
            .into());
        };
        let (len, dtype) = context.output(0)?;
        let values = array.bytes.len() / array.dtype.size();
        if array.dtype != dtype || values as i64 != len {
            return Err(format!(
                "the plan gives {values} values of {}, but its output is {len} of {dtype}; declare what it gives",
                array.dtype
            )
            .into());
        }
        context.write_bytes(0, 0, Box::new(array.bytes))?;
        return Ok(Returned::Nothing);
    }
    Ok(match gathered {
        Gathered::Count(count) => Returned::Value(json!(count)),
        other => {
            Python::attach(|py| -> PyResult<()> {
                let (object, _) = object(py, plan, other).map_err(PyErr::from)?;
                results.bind(py).set_item(context.name(), object)
            })?;
            Returned::Unkept
        }
    })
}

impl From<isochrony_tasklets::TaskletError> for Error {
    fn from(error: isochrony_tasklets::TaskletError) -> Self {
        report::raised(error)
    }
}
