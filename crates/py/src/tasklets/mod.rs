//! `isochrony.Executor`: tasklets that are Python functions or plans.
//!
//! The Python half adapts functions to selections and arrays; this half executes. Workers attach only to call Python
//! code.

mod description;
mod local;
mod output_buffer;
mod plan_tasklets;
mod remote;
mod report;
mod scans;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isochrony_tasklets::{Executor, ReturnValue, SignalRange, Tasklet};
use isochrony_workers::ProcessPool;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Error, PackageError, Result};
use crate::plan::Nesting;
use crate::signal::selection::Selection;
use crate::workers::process_pool;

use description::{Callbacks, ExecutorSettings, TaskletDescription};
use local::{EndingError, InputStore, PythonFunction};
use plan_tasklets::PlanRegistry;
use remote::{FunctionPlacement, RemoteTasklet};
use report::ReportExtras;
use scans::WrittenRanges;
pub(crate) use scans::check_scans;

/// Explains the order of tasklets.
#[pyfunction]
pub(crate) fn explain_tasklets(
    py: Python<'_>,
    tasklets: Vec<TaskletDescription<'_>>,
    settings: ExecutorSettings,
    resume: bool,
    calls: (Py<PyAny>, Py<PyAny>),
) -> Result<String> {
    let results = PyDict::new(py).unbind();
    let (call, on_result) = calls;
    let calls = Callbacks {
        call,
        on_result,
        results,
    };
    let made = executor(tasklets, settings, calls, None)?;
    let mut text = crate::interpreter::detach(py, || made.executor.explain(resume))?;
    for place in made.places {
        text += &place;
        text.push('\n');
    }
    Ok(text)
}

/// `progress`, `stop` and `is_joining` of [`run_tasklets`].
type Watchers = (Option<Py<PyAny>>, Option<Py<PyAny>>, Option<Py<PyAny>>);

/// Executes tasklets. Returned values, and results of plans that no journal can keep, go to `results`. `progress` gets
/// bytes done and in total, tasklets done and in total; `stop` is called if the run ends before its tasklets, and ends
/// what functions wait for; tuning measures nothing until `is_joining` returns false.
#[pyfunction]
pub(crate) fn run_tasklets<'py>(
    py: Python<'py>,
    tasklets: Vec<TaskletDescription<'py>>,
    settings: ExecutorSettings,
    resume: bool,
    calls: (Py<PyAny>, Py<PyAny>),
    results: Py<PyDict>,
    watchers: Watchers,
) -> Result<Bound<'py, PyDict>> {
    let (progress, stop, is_joining) = watchers;
    let (call, on_result) = calls;
    let calls = Callbacks {
        call,
        on_result,
        results,
    };
    let pause = is_joining.map(|is_joining| (is_joining, Arc::new(AtomicBool::new(true))));
    let flag = pause.as_ref().map(|(_, flag)| Arc::clone(flag));
    let run = executor(tasklets, settings, calls, flag)?;
    let (done, raised, processes) = crate::interpreter::detach(py, || {
        let mut raised = None;
        let done = run.executor.run(resume, &mut |so_far| {
            let looked = crate::interpreter::attach(|py| -> PyResult<()> {
                py.check_signals()?;
                if let Some((is_joining, flag)) = &pause
                    && flag.load(Ordering::Relaxed)
                {
                    flag.store(is_joining.call0(py)?.is_truthy(py)?, Ordering::Relaxed);
                }
                match &progress {
                    Some(progress) => {
                        let far = (
                            so_far.bytes.done(),
                            so_far.bytes.total().unwrap_or(0),
                            so_far.tasklets.done(),
                            so_far.tasklets.total().unwrap_or(0),
                        );
                        progress.call1(py, far).map(drop)
                    }
                    None => Ok(()),
                }
            });
            if looked.is_err()
                && let Some(stop) = &stop
            {
                // Its exception matters less than the reason for the call.
                let _ = crate::interpreter::attach(|py| stop.call0(py));
            }
            raised = looked.err();
            raised.is_none()
        });
        let processes = run.processes.as_ref().map(|processes| processes.close());
        (done, raised, processes.unwrap_or_default())
    });
    let extras = ReportExtras {
        places: run.places,
        processes,
    };
    match (done, raised.or_else(|| run.ends.take())) {
        // Finished tasklets are kept; the next run reports them.
        (_, Some(error)) => Err(error.into()),
        (Ok(done), None) => Ok(report::described(py, &done, &extras)?),
        (Err(failure), None) => Err(report::failed(py, *failure, &extras)),
    }
}

struct PreparedExecutor {
    executor: Executor,
    ends: Arc<EndingError>,
    places: Vec<String>,
    processes: Option<Arc<ProcessPool>>,
}

fn executor(
    tasklets: Vec<TaskletDescription<'_>>,
    settings: ExecutorSettings,
    calls: Callbacks,
    tuning_pause: Option<Arc<AtomicBool>>,
) -> Result<PreparedExecutor> {
    let calls = Arc::new(calls);
    let mut options = settings.options()?;
    options.tuning_pause = tuning_pause;
    // A function notices Ctrl-C in the main thread; a plan needs another thread.
    options.in_caller = tasklets.iter().all(|one| one.plan.is_none());
    let (workers, in_caller) = (options.workers, options.in_caller);
    let mut executor = Executor::new(options)?.with_thread_wrapper(known_to_python);
    let written = WrittenRanges::new(&tasklets);
    let ends = Arc::new(EndingError::default());
    let away = (tasklets.iter()).any(|one| one.on_workers == "processes");
    let processes = away.then(|| process_pool(workers, Nesting::current().of_processes()));
    let mut places = FunctionPlacement::default();
    let mut plans = PlanRegistry::new(workers);
    for one in tasklets {
        let name = one.name.clone();
        let inputs = (one.inputs.iter()).map(|input| {
            let input = input.get();
            Ok((input.signal().timebase(), part(&name, "inputs", input)?))
        });
        let inputs: Vec<_> = inputs.collect::<Result<_>>()?;
        let homes: Vec<InputStore> = (one.inputs.iter().map(|input| input.get()))
            .map(|input| (Arc::clone(&input.shared), input.scratch.clone()))
            .collect();
        let calls = Arc::clone(&calls);
        let function = one.function.map(|function| PythonFunction {
            function: Arc::new(function),
            objects: one.objects,
            calls: Arc::clone(&calls),
            ends: Arc::clone(&ends),
        });
        let portable = places.of(&one.on_workers, &function, &processes, &one.function_name);
        let mut tasklet = match (portable, function, one.plan) {
            (Some((processes, portable)), Some(function), _) => {
                let away = RemoteTasklet {
                    function,
                    processes,
                    portable,
                    shown: one.function_name.clone(),
                    in_caller: in_caller && workers == 1,
                };
                Tasklet::new(one.name, one.function_name, move |context| {
                    away.call(context)
                })
            }
            (_, Some(function), _) => {
                let tasklet = Tasklet::new(one.name, one.function_name, move |context| {
                    function.call(&homes, context)
                });
                match one.on_workers.as_str() {
                    "inline" => tasklet.exclusive(),
                    _ => tasklet,
                }
            }
            (_, None, Some(plan)) => {
                let ranges = scans::stated(&inputs);
                written.check(&name, plan.get().plan(), &ranges)?;
                let planned = plans.of(&plan, ranges);
                Tasklet::new(one.name, one.function_name, move |context| {
                    planned.run(&calls.results, context)
                })
            }
            (_, None, None) => {
                Tasklet::new(one.name, one.function_name, |_| Ok(ReturnValue::Nothing))
            }
        }
        .identified(one.identity);
        for (_, input) in inputs {
            tasklet = tasklet.reads(input);
        }
        for output in &one.outputs {
            tasklet = tasklet.writes(part(&name, "outputs", output.get())?);
        }
        executor.add(one.after.into_iter().fold(tasklet, Tasklet::after));
    }
    Ok(PreparedExecutor {
        executor,
        ends,
        places: places.lines(),
        processes,
    })
}

/// Keeps a thread's Python state for all its calls.
fn known_to_python(work: &mut (dyn FnMut() + Send)) {
    crate::interpreter::attach(|py| crate::interpreter::detach(py, work));
}

fn part(name: &str, which: &str, selection: &Selection) -> Result<SignalRange> {
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
                return Err(PackageError::new("OptionError", "bad_option", message).into());
            }
        },
    };
    Ok(match &selection.scratch {
        Some(scratch) => SignalRange::scratch(scratch, range),
        None => SignalRange::new(&selection.shared.store, selection.signal(), range),
    })
}

impl From<isochrony_tasklets::TaskletError> for Error {
    fn from(error: isochrony_tasklets::TaskletError) -> Self {
        report::raised(error)
    }
}
