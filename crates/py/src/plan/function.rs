//! Python functions of plans, saved by module and name if importable.

use isochrony_flow::operators::dtype_in_unit;
use isochrony_flow::{PlanError, PortType, SentObject, SentObjects};
use isochrony_segment::{Calibration, DType, StreamId};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use super::imports::Imports;
use super::owner::Callable;
use crate::interpreter::attach;

#[derive(Clone)]
pub(super) struct Function {
    pub(super) object: Callable,
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

    pub(super) fn sent(&self, objects: &mut SentObjects) -> Result<Value, PlanError> {
        let object = self.object.get().map_err(|error| PlanError::Unreadable {
            why: error.to_string(),
        })?;
        let object = objects.add(SentObject::Embedded(object));
        Ok(json!({"object": object, "shown": self.shown, "import": self.import}))
    }

    fn received(form: &Map<String, Value>, imports: &Imports) -> Result<Self, PlanError> {
        let text = |key: &str| form.get(key).and_then(Value::as_str).map(str::to_owned);
        Ok(Self {
            object: imports
                .kept
                .keep(imports.received.object(form.get("object"))?),
            shown: text("shown").unwrap_or_default(),
            import: text("import"),
        })
    }

    pub(super) fn import(saved: &Map<String, Value>, imports: &Imports) -> Result<Self, PlanError> {
        Self::import_named(saved, "function", imports)
    }

    /// Like [`import`](Self::import), for another key. Only here is code imported that a saved plan names.
    pub(super) fn import_named(
        saved: &Map<String, Value>,
        key: &str,
        imports: &Imports,
    ) -> Result<Self, PlanError> {
        if let Some(Value::Object(form)) = saved.get(key) {
            return Self::received(form, imports);
        }
        let name = saved.get(key).and_then(Value::as_str).unwrap_or("");
        if !imports.allowed.contains(name) {
            let why = format!("function {name:?} is not allowed; allow it with allow_functions=");
            return Err(PlanError::Unreadable { why });
        }
        attach(|py| -> PyResult<Self> {
            let functions = py.import("isochrony.functions.python")?;
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

/// Dtype and width of the values for a function; 0 for samples.
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
