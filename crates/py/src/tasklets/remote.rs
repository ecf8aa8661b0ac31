//! Runs tasklets' functions in worker processes.
//!
//! This process reads inputs into shared memory, and stages outputs. The thread attaches only for returned values and
//! exceptions.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;
use std::thread;

use isochrony_segment::{Buffer, SegmentError};
use isochrony_store::Selection;
use isochrony_tasklets::{Cause, ReturnValue, TaskletContext};
use isochrony_workers::{
    CallContext, InputSegment, PortableFunction, ProcessPool, RemoteFunction, TaskletCall,
    TaskletInput, TaskletOutput,
};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use super::description::Callbacks;
use super::local::PythonFunction;
use crate::signal::selection::time_of_first;
use crate::workers;

pub(super) struct RemoteTasklet {
    pub(super) function: PythonFunction,
    pub(super) processes: Arc<ProcessPool>,
    pub(super) portable: Arc<PortableFunction>,
    pub(super) shown: String,
    /// Runs in the caller's thread, which handles signals.
    pub(super) in_caller: bool,
}

impl RemoteTasklet {
    pub(super) fn call(&self, context: &mut TaskletContext<'_>) -> Result<ReturnValue, Cause> {
        let call_context = CallContext {
            worker: (!self.in_caller).then(|| context.worker()),
            caller: self.in_caller.then(|| thread::current().id()),
            interrupt: Some(context.interrupt().clone()),
            watch: None,
            check_signals: workers::check_signals,
        };
        let pool = Arc::clone(context.pool());
        let allocate = |len| pool.take(len);
        let answer = tasklet_call(context, &allocate).map(|call| {
            let (processes, function) = (Arc::clone(&self.processes), Arc::clone(&self.portable));
            RemoteFunction::of_tasklet(processes, function, &self.shown, call_context)
                .call_tasklet(&call)
        });
        // Also after a failure, since it is not called again.
        self.portable.release();
        let result = match answer? {
            Ok(result) => result,
            Err(error) => {
                let cause = workers::cause(error);
                if let Some(error) = cause.downcast_ref::<PyErr>() {
                    crate::interpreter::attach(|py| self.function.ends.check(py, error, context));
                }
                return Err(cause);
            }
        };
        for (output, start, block) in result.written {
            context.write_block(output, start.cast_signed(), block, true)?;
        }
        match result.returned {
            None => Ok(ReturnValue::Nothing),
            Some(pickled) => self.returned(&pickled, context),
        }
    }

    fn returned(&self, pickled: &[u8], context: &TaskletContext<'_>) -> Result<ReturnValue, Cause> {
        let Callbacks {
            on_result, results, ..
        } = &*self.function.calls;
        let (kept, text) = crate::interpreter::attach(|py| -> PyResult<(bool, Option<String>)> {
            let pickled = PyBytes::new(py, pickled);
            let given = (
                &self.function.objects.0,
                results,
                pickled,
                context.is_journaled(),
            );
            on_result.bind(py).call1(given)?.extract()
        })?;
        Ok(match text {
            _ if !kept => ReturnValue::NotSerializable,
            None => ReturnValue::Nothing,
            Some(text) => ReturnValue::Json(text),
        })
    }
}

fn tasklet_call<'a>(
    context: &'a TaskletContext<'_>,
    allocate: &'a dyn Fn(usize) -> Result<Buffer, SegmentError>,
) -> Result<TaskletCall<'a>, Cause> {
    let inputs = (0..context.inputs()).map(|input| taken(&context.input(input)?));
    let outputs = (0..context.outputs()).map(|output| {
        let (len, dtype) = context.output(output)?;
        Ok(TaskletOutput {
            metadata: json!({"name": context.output_name(output)?, "dtype": dtype.name()}),
            samples: len.unsigned_abs(),
            sample_size: dtype.size() as u64,
        })
    });
    Ok(TaskletCall {
        name: context.name(),
        inputs: inputs.collect::<Result<_, Cause>>()?,
        outputs: outputs.collect::<Result<_, Cause>>()?,
        allocate,
    })
}

fn taken(selection: &Selection) -> Result<TaskletInput, Cause> {
    let signal = selection.signal();
    let (calibration, rate) = (signal.calibration(), signal.rate());
    let ranges = selection
        .parts()
        .iter()
        .map(|part| (part.range.start, part.range.end));
    let metadata = json!({
        "name": signal.name(),
        "unit": signal.unit(),
        "dtype": signal.dtype().name(),
        "scale": calibration.scale(),
        "offset": calibration.offset(),
        "rate": [rate.num(), rate.den()],
        "ranges": ranges.collect::<Vec<_>>(),
    });
    let segments = selection.segments().map(|segment| {
        let segment = segment?;
        // Only functions that ask for times need them in range.
        let time = time_of_first(signal, &segment).ok().flatten();
        Ok(InputSegment {
            start: segment.start(),
            samples: segment.len(),
            time: time.map_or(Value::Null, |time| time.json()),
            buffers: segment.buffers().cloned().collect(),
        })
    });
    Ok(TaskletInput {
        metadata,
        segments: segments.collect::<Result<_, Cause>>()?,
    })
}

#[derive(Default)]
pub(super) struct FunctionPlacement {
    lines: Vec<(String, usize)>,
    by_words: HashMap<String, usize>,
}

const PLAN: &str = "plan(s) run natively, without the interpreter";
const INLINE: &str = "Python function(s) run in this process, one at a time, as asked for";
const THREADS: &str = "Python function(s) run in threads of this process, one at a time but where they let go of the interpreter";
const CLUSTER: &str = "Python function(s) run in workers of the cluster, or in this process where they read scratch or what is not committed";

/// There may be thousands of functions.
const MAX_LINES: usize = 20;

impl FunctionPlacement {
    pub(super) fn of(
        &mut self,
        on_workers: &str,
        function: &Option<PythonFunction>,
        processes: &Option<Arc<ProcessPool>>,
        shown: &str,
    ) -> Option<(Arc<ProcessPool>, Arc<PortableFunction>)> {
        let ("processes", Some(called), Some(processes)) = (on_workers, function, processes) else {
            self.note(match on_workers {
                "" => PLAN,
                "inline" => INLINE,
                "cluster" => CLUSTER,
                _ => THREADS,
            });
            return None;
        };
        match processes.tasklet_function(workers::host_function(&called.function)) {
            Ok(portable) => {
                let words = portable.description();
                self.note(&format!(
                    "Python function(s) run in worker processes: {words}"
                ));
                Some((Arc::clone(processes), portable))
            }
            Err(why) => {
                self.note(&format!(
                    "Python function(s) run in threads of this process: {shown} {why}"
                ));
                None
            }
        }
    }

    fn note(&mut self, words: &str) {
        let at = self.by_words.get(words).copied().unwrap_or_else(|| {
            self.lines.push((words.to_owned(), 0));
            self.by_words.insert(words.to_owned(), self.lines.len() - 1);
            self.lines.len() - 1
        });
        self.lines[at].1 += 1;
    }

    pub(super) fn lines(self) -> Vec<String> {
        let more = self.lines.len().saturating_sub(MAX_LINES);
        let shown = self.lines.into_iter().take(MAX_LINES);
        let mut lines: Vec<String> = shown
            .map(|(words, count)| format!("{count} {words}"))
            .collect();
        if more > 0
            && let Some(last) = lines.last_mut()
        {
            let _ = write!(last, "; and {more} more like these");
        }
        lines
    }
}
