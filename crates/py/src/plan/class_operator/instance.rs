//! An instance of an operator class during a run.

use std::sync::Arc;

use isochrony_flow::operators::one_grid;
use isochrony_flow::{
    Alignment, Break, Contract, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType,
};
use isochrony_segment::Calibration;
use pyo3::prelude::*;
use pyo3::types::PyList;

use super::blocks::described_port;
use super::declaration::ClassOperator;
use super::emission::emit;
use super::running_instance::RunningInstance;
use crate::errors::Error;
use crate::interpreter::attach;
use crate::plan::columns::{FieldDescription, break_notice, intern_fields};
use crate::plan::nesting::Nesting;
use crate::plan::operator_error::{cause, raised};

/// Whether blocks are matched by index, whether it gets counts, and its lag in samples.
type InstanceTraits = (bool, bool, u64);
type OutputDescription = (
    String,
    usize,
    Option<String>,
    String,
    Option<usize>,
    Vec<FieldDescription>,
);
pub(super) struct Instance {
    of: ClassOperator,
    nesting: Arc<Nesting>,
    ready: Option<RunningInstance>,
}

impl Instance {
    pub(super) fn new(of: ClassOperator, nesting: &Arc<Nesting>) -> Self {
        Self {
            of,
            nesting: Arc::clone(nesting),
            ready: None,
        }
    }

    fn begin(&mut self, inputs: &[PortType]) -> crate::errors::Result<OperatorProperties> {
        let factory = self.of.factory.object.get();
        let factory = factory.map_err(|error| Error::Package(Box::new(plan_error(&error))))?;
        let inside = self.nesting.inside(&factory);
        let (running, manner, outputs) = attach(|py| -> crate::errors::Result<_> {
            let _inside = inside.enter();
            let ports = PyList::empty(py);
            for (at, port) in inputs.iter().enumerate() {
                ports.append(described_port(py, at, port)?)?;
            }
            let running = factory.bind(py).call_method1("start", (ports,))?;
            let manner: InstanceTraits = running.getattr("manner")?.extract()?;
            let outputs: Vec<OutputDescription> = running.getattr("outputs")?.extract()?;
            Ok((running.unbind(), manner, outputs))
        })?;
        let (by_index, counts, lag) = manner;
        let passes = outputs.is_empty();
        let outputs = match passes {
            true => vec![inputs[0]],
            false => (outputs.iter())
                .map(|output| self.output(output, inputs))
                .collect::<crate::errors::Result<_>>()?,
        };
        let align = match inputs.len() {
            1 => Alignment::Single,
            _ if by_index => {
                one_grid(ClassOperator::NAME, inputs)?;
                Alignment::Window
            }
            _ => Alignment::Begin,
        };
        self.ready = Some(RunningInstance {
            running,
            inside,
            by_index,
            counts,
            lag,
            inputs: inputs.len(),
            ends: vec![i64::MIN; outputs.len()],
            outputs: outputs.clone(),
            passes,
            waiting: Vec::new(),
            min_index: i64::MIN,
            open: inputs.len(),
        });
        Ok(OperatorProperties::new(outputs)
            .contract(Contract::Sequential)
            .align(align)
            .data_dependent()
            .in_interpreter())
    }

    fn output(
        &self,
        given: &OutputDescription,
        inputs: &[PortType],
    ) -> crate::errors::Result<PortType> {
        let (kind, input, dtype, unit, width, fields) = given;
        let shown = &self.of.factory.shown;
        let wrong = |what: String| -> Error {
            let message = format!("{shown}: outputs() gives {what}");
            crate::errors::PackageError::new("PlanError", "input_type", message).into()
        };
        let Some(port) = inputs.get(*input) else {
            let message = format!("input={input}, but there are {} inputs", inputs.len());
            return Err(wrong(message));
        };
        let dtype = dtype
            .as_deref()
            .map(crate::plan::generate::dtype)
            .transpose()?;
        let stream = port.stream_id();
        let values = stream.map(|stream| {
            let stream = stream.get().clone();
            stream
                .with_calibration(Calibration::identity(unit.as_str()))
                .intern()
        });
        match (&**kind, dtype, values, *port) {
            ("samples", Some(dtype), Some(stream), PortType::Samples { .. }) => {
                Ok(PortType::Samples { dtype, stream })
            }
            (
                "frames",
                Some(dtype),
                Some(stream),
                PortType::Frames {
                    window,
                    hop,
                    width: own,
                    ..
                },
            ) => Ok(PortType::Frames {
                dtype,
                stream,
                window,
                hop,
                width: width.unwrap_or(own),
            }),
            ("ranges", ..) => match stream {
                Some(stream) => Ok(PortType::Ranges { stream }),
                None => Err(wrong("ranges of an input that has no indices".into())),
            },
            ("rows", ..) => Ok(PortType::Rows {
                fields: intern_fields(fields)?,
                stream,
            }),
            _ => Err(wrong(format!(
                "{kind} of input {input}, which is {port}; give samples of samples, frames of frames, or ranges or rows"
            ))),
        }
    }
}

fn plan_error(error: &OpError) -> crate::errors::PackageError {
    crate::errors::PackageError::new("PlanError", "unreadable_plan", error.to_string())
}

impl Operator for Instance {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        self.begin(inputs).map_err(|error| PlanError::Refused {
            operator: self.of.factory.shown.clone(),
            why: cause(error).to_string(),
        })
    }

    fn process(&mut self, port: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(Next::Done);
        };
        let mut met = Vec::new();
        let first = usize::from(port);
        if ready.by_index && ready.inputs > 1 {
            if port == 0 {
                ready.waiting.clear();
            }
            ready.waiting.push(item.take());
            if ready.waiting.len() < ready.inputs {
                return Ok(Next::Consumed);
            }
            met = std::mem::take(&mut ready.waiting);
        }
        let items = ready.call("process", |ready, py| {
            let blocks = PyList::empty(py);
            if met.is_empty() {
                let block = ready.block(py, first, item, out)?;
                blocks.append(block).map_err(raised)?;
            }
            for (input, item) in met.iter().enumerate() {
                let block = ready.block(py, input, item, out)?;
                blocks.append(block).map_err(raised)?;
            }
            Ok(blocks.into_any())
        })?;
        if ready.passes {
            if let Some(first) = met.into_iter().next() {
                *item = first;
            }
            return Ok(if port == 0 || ready.by_index {
                Next::Forward
            } else {
                Next::Consumed
            });
        }
        emit(items, out)?;
        Ok(Next::Consumed)
    }

    fn on_break(&mut self, port: Port, why: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(());
        };
        let items = ready.call("on_break", |_, py| {
            break_notice(py, why, usize::from(port)).map_err(raised)
        })?;
        emit(items, out)?;
        // After other breaks indices continue, and consumers rely on progress marks.
        if *why == Break::Rewind {
            ready.min_index = i64::MIN;
            ready.ends.fill(i64::MIN);
        }
        Ok(())
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        let Some(ready) = &mut self.ready else {
            return Ok(());
        };
        ready.open = ready.open.saturating_sub(1);
        if ready.open > 0 {
            return Ok(());
        }
        let items = ready.call("finish", |_, py| Ok(py.None().into_bound(py)))?;
        emit(items, out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        let Some(ready) = &mut self.ready else {
            return i64::MIN;
        };
        let upto = upto.saturating_sub_unsigned(ready.lag);
        ready.min_index = ready.min_index.max(upto);
        upto
    }
}
