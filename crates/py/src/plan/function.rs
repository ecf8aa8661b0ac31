//! Python functions that plans call. One that can be imported is saved by module and name.

use isochrony_flow::PlanError;
use isochrony_flow::PortType;
use isochrony_flow::operators::dtype_in_unit;
use isochrony_segment::{Calibration, DType, StreamId};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use super::imports::Imports;
use super::owner::Callable;
use crate::interpreter::attach;

#[derive(Clone)]
pub(super) struct Function {
    pub(super) object: Callable,
    /// Its name as it is printed.
    pub(super) shown: String,
    /// `module:name`, if it can be imported.
    pub(super) import: Option<String>,
}

impl Function {
    pub(super) fn saved(&self, operator: &str) -> Result<Value, PlanError> {
        self.import
            .as_ref()
            .map(|name| json!(name))
            .ok_or_else(|| PlanError::NotSaveable {
                operator: format!("{operator}({})", self.shown),
                what: "a Python function that cannot be imported by name",
                mend: "define it with def at the top of a module that can be imported",
            })
    }

    /// Imports a saved function, if allowed.
    pub(super) fn import(saved: &Map<String, Value>, imports: &Imports) -> Result<Self, PlanError> {
        Self::import_named(saved, "function", imports)
    }

    /// The same for another key. No other code imports what a saved plan names.
    pub(super) fn import_named(
        saved: &Map<String, Value>,
        key: &str,
        imports: &Imports,
    ) -> Result<Self, PlanError> {
        let name = saved.get(key).and_then(Value::as_str).unwrap_or("");
        if !imports.allowed.contains(name) {
            let why = format!("function {name:?} is not allowed; allow it with allow_functions=");
            return Err(PlanError::Unreadable { why });
        }
        attach(|py| -> PyResult<Self> {
            let functions = py.import("isochrony.functions")?;
            let object = functions.getattr("imported")?.call1((name,))?;
            let shown = functions.getattr("shown")?.call1((&object,))?.extract()?;
            Ok(Self {
                object: imports.kept.keep(object.unbind()),
                shown,
                import: Some(name.into()),
            })
        })
        .map_err(|error| PlanError::Unreadable {
            why: format!("function {name:?} cannot be imported ({error}); install its module, or set PYTHONPATH"),
        })
    }
}

pub(super) fn unitless(stream: StreamId) -> StreamId {
    let stream = stream.get().clone();
    stream.with_calibration(Calibration::default()).intern()
}

/// Dtype and width of the values that a function sees; width 0 for samples.
pub(super) fn seen(port: &PortType, counts: bool) -> Option<(DType, usize)> {
    let (dtype, stream) = (port.dtype()?, port.stream_id()?);
    let dtype = if counts {
        dtype
    } else {
        dtype_in_unit(dtype, stream)
    };
    let width = match *port {
        PortType::Frames { width, .. } => width,
        _ => 0,
    };
    Some((dtype, width))
}
