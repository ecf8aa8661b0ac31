//! Functions of tasklets in worker processes.
//!
//! Inputs are read here, so that they are as the run sees them, and copied into memory that the process shares; outputs come
//! back from there and are staged as those of any function. The worker's thread needs the interpreter only for what a
//! function returned or raised.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use isochrony_store::Selection;
use isochrony_tasklets::{Cause, ReturnValue, TaskletContext};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use super::Callbacks;
use super::local::PythonFunction;
use crate::processes::{
    InputSegment, Processes, Remote, RemoteCall, RemoteInput, RemoteOutput, RemoteResult,
    Travelling, Unanswered,
};
use crate::selection::time_of_first;

/// A function that is called in worker processes.
pub(super) struct RemoteFunction {
    pub(super) function: PythonFunction,
    pub(super) processes: Arc<Processes>,
    pub(super) travelling: Arc<Travelling>,
    pub(super) shown: String,
    /// Its thread is the caller's, in which signals are to be looked for.
    pub(super) in_caller: bool,
}

impl RemoteFunction {
    pub(super) fn call(&self, context: &mut TaskletContext<'_>) -> Result<ReturnValue, Cause> {
        let worker = (!self.in_caller).then(|| context.worker());
        let (processes, function) = (&self.processes, &self.travelling);
        let brought = remote_call(context).map(|call| {
            let stop = context.interrupt();
            let remote = Remote::of_tasklet(processes, function, &self.shown, worker, stop);
            remote.run(&call)
        });
        // Also of one that failed: it is not called again.
        function.leave();
        match brought? {
            Ok(RemoteResult::Done { written, returned }) => {
                for (output, start, block) in written {
                    context.write_block(output, start.cast_signed(), block, true)?;
                }
                match returned {
                    None => Ok(ReturnValue::Nothing),
                    Some(pickled) => self.returned(&pickled, context),
                }
            }
            Ok(RemoteResult::Raised(error)) | Err(Unanswered::Signal(error)) => {
                crate::interpreter::attach(|py| self.function.ends.look_at(py, &error, context));
                Err(error.into())
            }
            Err(why) => Err(why.into()),
        }
    }

    fn returned(&self, pickled: &[u8], context: &TaskletContext<'_>) -> Result<ReturnValue, Cause> {
        let Callbacks { took, results, .. } = &*self.function.calls;
        let (kept, text) = crate::interpreter::attach(|py| -> PyResult<(bool, Option<String>)> {
            let pickled = PyBytes::new(py, pickled);
            let given = (
                &self.function.objects.0,
                results,
                pickled,
                context.is_journaled(),
            );
            took.bind(py).call1(given)?.extract()
        })?;
        Ok(match text {
            _ if !kept => ReturnValue::NotSerializable,
            None => ReturnValue::Nothing,
            Some(text) => ReturnValue::Json(text),
        })
    }
}

fn remote_call<'a>(context: &'a TaskletContext<'_>) -> Result<RemoteCall<'a>, Cause> {
    let inputs = (0..context.inputs()).map(|input| taken(&context.input(input)?));
    let outputs = (0..context.outputs()).map(|output| {
        let (len, dtype) = context.output(output)?;
        Ok(RemoteOutput {
            about: json!({"name": context.output_name(output)?, "dtype": dtype.name()}),
            samples: len.unsigned_abs(),
            size: dtype.size() as u64,
        })
    });
    Ok(RemoteCall {
        name: context.name(),
        inputs: inputs.collect::<Result<_, Cause>>()?,
        outputs: outputs.collect::<Result<_, Cause>>()?,
        pool: context.pool(),
    })
}

fn taken(selection: &Selection) -> Result<RemoteInput, Cause> {
    let signal = selection.signal();
    let (calibration, rate) = (signal.calibration(), signal.rate());
    let ranges = selection
        .parts()
        .iter()
        .map(|part| (part.range.start, part.range.end));
    let about = json!({
        "name": signal.name(),
        "unit": signal.unit(),
        "dtype": signal.dtype().name(),
        "scale": calibration.scale(),
        "offset": calibration.offset(),
        "rate": [rate.num(), rate.den()],
        "ranges": ranges.collect::<Vec<_>>(),
    });
    let stretches = selection.segments().map(|segment| {
        let segment = segment?;
        // Who wants no times is not told of one that is beyond what can be said.
        let time = time_of_first(signal, &segment).ok().flatten();
        Ok(InputSegment {
            start: segment.start(),
            samples: segment.len(),
            time: time.map_or(Value::Null, |time| time.json()),
            buffers: segment.buffers().cloned().collect(),
        })
    });
    Ok(RemoteInput {
        about,
        stretches: stretches.collect::<Result<_, Cause>>()?,
    })
}

/// Where functions are called, and why there.
#[derive(Default)]
pub(super) struct FunctionPlacement {
    /// In words, and how many functions.
    lines: Vec<(String, usize)>,
    by_words: HashMap<String, usize>,
}

const PLAN: &str = "plan(s) run natively, without the interpreter";
const INLINE: &str = "Python function(s) run in this process, one at a time, as asked for";
const THREADS: &str = "Python function(s) run in threads of this process, one at a time but where they let go of the interpreter";

/// Lines that are told; there may be thousands of functions.
const MOST: usize = 20;

impl FunctionPlacement {
    /// How a function travels to worker processes, if it is to be called there and can.
    pub(super) fn of(
        &mut self,
        on_workers: &str,
        function: &Option<PythonFunction>,
        processes: &Option<Arc<Processes>>,
        shown: &str,
    ) -> Option<(Arc<Processes>, Arc<Travelling>)> {
        let ("processes", Some(called), Some(processes)) = (on_workers, function, processes) else {
            self.note(match on_workers {
                "" => PLAN,
                "inline" => INLINE,
                _ => THREADS,
            });
            return None;
        };
        match processes.travels_with_tasklet(&called.function) {
            Ok(travelling) => {
                let words = &travelling.words;
                self.note(&format!(
                    "Python function(s) run in worker processes: {words}"
                ));
                Some((Arc::clone(processes), travelling))
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
        let more = self.lines.len().saturating_sub(MOST);
        let told = self.lines.into_iter().take(MOST);
        let mut lines: Vec<String> = told
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
