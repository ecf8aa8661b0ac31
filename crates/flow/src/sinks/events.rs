//! Events of a stored signal, one per window or range.

use std::slice::from_ref;
use std::sync::Arc;

use isochrony_expr::{Expr, Shape};
use isochrony_segment::{Bool8, Complex32, Complex64, DType};
use isochrony_store::Store;
use serde_json::{Map, Value, json};

use super::event_order::{EventOrders, EventQueue};
use super::signal_location::SignalLocation;
use crate::engine::RunOptions;
use crate::operators::{CompiledExpr, wrong_input};
use crate::{
    Break, Frames, Item, OpError, OpErrorKind, PlanError, PortType, SharedFactory, SharedRecording,
    Sink, SinkWriter,
};

/// Adds an event per window or range to a signal.
///
/// An event has the window's range, in another signal than the plan's that of the same civil time. Fields are
/// constants, or expressions of one value per window. Events of equal kind, range and fields are not repeated, so a
/// plan can be executed again. Where several sinks of an execution annotate one signal, events are numbered in the order
/// of their ends, of equal ends in that of the sinks.
#[derive(Debug, Clone)]
pub struct EventSink {
    location: SignalLocation,
    kind: String,
    values: Map<String, Value>,
    computed: Vec<(String, Expr)>,
    is_created_by_run: bool,
    /// Its place among the sinks of an execution that annotate the signal.
    branch: Option<EventQueue>,
}

impl EventSink {
    /// Name in saved plans.
    pub const NAME: &'static str = "annotate";

    /// Adds events of a kind to the signal at a location.
    pub fn new(location: SignalLocation, kind: impl Into<String>) -> Self {
        Self {
            location,
            kind: kind.into(),
            values: Map::new(),
            computed: Vec::new(),
            is_created_by_run: false,
            branch: None,
        }
    }

    /// An earlier sink of the same execution creates or replaces the signal; events are added with the next commit,
    /// when it exists.
    #[must_use]
    pub fn created_by_run(mut self) -> Self {
        self.is_created_by_run = true;
        self
    }

    /// Adds a constant field.
    #[must_use]
    pub fn value(mut self, name: impl Into<String>, value: Value) -> Self {
        self.values.insert(name.into(), value);
        self
    }

    /// Adds a field computed from each window.
    #[must_use]
    pub fn computed(mut self, name: impl Into<String>, expression: Expr) -> Self {
        self.computed.push((name.into(), expression));
        self
    }

    /// The sink of a saved plan, in the store named there or in `store`.
    ///
    /// # Errors
    /// [`PlanError::Unreadable`].
    pub fn resolve(
        saved: &Map<String, Value>,
        store: Option<&Store>,
    ) -> Result<SharedFactory, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let kind = saved.get("kind").and_then(Value::as_str);
        let kind = kind.ok_or_else(|| unreadable("an annotation has no kind".into()))?;
        let mut sink = Self::new(SignalLocation::resolve(saved, store)?, kind);
        sink.is_created_by_run = saved.get("created_by_run") == Some(&Value::Bool(true));
        if let Some(Value::Object(values)) = saved.get("values") {
            sink.values = values.clone();
        }
        if let Some(Value::Object(computed)) = saved.get("computed") {
            for (name, expression) in computed {
                let expression = serde_json::from_value(expression.clone());
                let expression =
                    expression.map_err(|why| unreadable(format!("field {name:?}: {why}")))?;
                sink.computed.push((name.clone(), expression));
            }
        }
        Ok(SharedFactory::new(crate::SinkFactory::new(sink)))
    }

    fn compile(&self, port: &PortType) -> Result<Vec<ComputedField>, PlanError> {
        let mut fields = Vec::with_capacity(self.computed.len());
        for (name, expression) in &self.computed {
            let mut compiled = CompiledExpr::default();
            let program = compiled.bind(Self::NAME, Some(expression), from_ref(port))?;
            if program.output().shape == Shape::Sample {
                return Err(PlanError::Predicate {
                    expression: format!("{name}={expression}, which has one value per sample"),
                    mend: "reduce it to one value per window, such as with .max()",
                });
            }
            fields.push(ComputedField {
                name: name.clone(),
                compiled,
                dtype: program.output().dtype,
                results: Vec::new(),
            });
        }
        Ok(fields)
    }
}

impl Sink for EventSink {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn label(&self) -> String {
        let mut text = format!("annotate({}, {:?}", self.location.signal(), self.kind);
        for (name, value) in &self.values {
            text += &format!(", {name}={value}");
        }
        for (name, expression) in &self.computed {
            text += &format!(", {name}={expression}");
        }
        text + ")"
    }

    fn accepts(&self, port: &PortType) -> Result<(), PlanError> {
        match port {
            PortType::Frames { .. } => self.compile(port).map(drop),
            PortType::Ranges { .. } if self.computed.is_empty() => Ok(()),
            PortType::Ranges { .. } => Err(wrong_input(
                Self::NAME,
                "windows for fields that are computed",
                port,
                "put it before ranges(...), or give values",
            )),
            _ => Err(wrong_input(
                Self::NAME,
                "windows or ranges",
                port,
                "put rewindow(...) before it",
            )),
        }
    }

    fn open(
        &self,
        port: &PortType,
        reads: Option<&SharedRecording>,
    ) -> Result<Box<dyn SinkWriter>, OpError> {
        let fields = match port {
            PortType::Frames { .. } => self
                .compile(port)
                .map_err(|error| OpErrorKind::Failed(error.into()))?,
            _ => Vec::new(),
        };
        let branch = match &self.branch {
            Some(branch) => branch.clone(),
            None => {
                let alone = EventOrders::default().join(&self.location, self.is_created_by_run);
                alone.bind(port, reads);
                alone
            }
        };
        let saved = reads.and_then(SharedRecording::saved);
        let same = saved.is_some_and(|saved| self.location.is_read_by(&saved));
        branch.open(same)?;
        Ok(Box::new(EventWriter {
            branch,
            kind: self.kind.as_str().into(),
            values: self.values.clone(),
            fields,
        }))
    }

    fn in_execution(&self, run: &RunOptions<'_>) -> Option<Arc<dyn Sink>> {
        let orders = run.event_orders?;
        let branch = orders.join(&self.location, self.is_created_by_run);
        Some(Arc::new(Self {
            branch: Some(branch),
            ..self.clone()
        }))
    }

    fn event_queue(&self) -> Option<&EventQueue> {
        self.branch.as_ref()
    }

    fn saved(&self) -> Result<Map<String, Value>, PlanError> {
        let mut saved = self.location.saved();
        saved.insert("kind".into(), json!(self.kind));
        saved.insert("values".into(), json!(self.values));
        let computed = self.computed.iter().cloned();
        let computed: Map<String, Value> = computed
            .map(|(name, expression)| (name, json!(expression)))
            .collect();
        saved.insert("computed".into(), json!(computed));
        if self.is_created_by_run {
            saved.insert("created_by_run".into(), json!(true));
        }
        Ok(saved)
    }
}

struct ComputedField {
    name: String,
    compiled: CompiledExpr,
    dtype: DType,
    results: Vec<u8>,
}

struct EventWriter {
    branch: EventQueue,
    kind: Arc<str>,
    values: Map<String, Value>,
    fields: Vec<ComputedField>,
}

impl EventWriter {
    fn frames(&mut self, frames: &Frames) -> Result<(), OpError> {
        let count = frames.count() as usize;
        for field in &mut self.fields {
            field.results.resize(count * field.dtype.size(), 0);
            field.compiled.run(frames, &mut field.results)?;
        }
        for k in 0..count {
            let mut fields = self.values.clone();
            for field in &self.fields {
                let size = field.dtype.size();
                let value = number(field.dtype, &field.results[k * size..][..size]);
                fields.insert(field.name.clone(), value);
            }
            let start = frames.window_start(k as u64);
            let range = start..start.saturating_add_unsigned(frames.window());
            self.branch.push(&self.kind, range, fields);
        }
        Ok(())
    }
}

fn number(dtype: DType, bytes: &[u8]) -> Value {
    macro_rules! read {
        ($type:ty) => {
            bytemuck::pod_read_unaligned::<$type>(bytes)
        };
    }
    match dtype {
        DType::Bool => json!(bool::from(read!(Bool8))),
        DType::C64 => {
            let value = read!(Complex32);
            json!([value.re, value.im])
        }
        DType::C128 => {
            let value = read!(Complex64);
            json!([value.re, value.im])
        }
        DType::I64 => json!(read!(i64)),
        DType::F32 => json!(read!(f32)),
        DType::F64 => json!(read!(f64)),
        DType::I8 => json!(read!(i8)),
        DType::I16 => json!(read!(i16)),
        DType::I32 => json!(read!(i32)),
        DType::U8 => json!(read!(u8)),
        DType::U16 => json!(read!(u16)),
        DType::U32 => json!(read!(u32)),
    }
}

impl SinkWriter for EventWriter {
    fn write(&mut self, item: &Item) -> Result<u64, OpError> {
        match item {
            Item::Frames(frames) => self.frames(frames)?,
            Item::Ranges(ranges) => {
                for range in &ranges.ranges {
                    let values = self.values.clone();
                    self.branch.push(&self.kind, range.clone(), values);
                }
            }
            other => {
                return Err(OpErrorKind::WrongItem {
                    expected: "frames or ranges",
                    got: other.kind(),
                }
                .into());
            }
        }
        self.branch.release()
    }

    fn release(&mut self) -> Result<u64, OpError> {
        self.branch.release()
    }

    fn on_break(&mut self, _: &Break) -> Result<(), OpError> {
        self.fields
            .iter_mut()
            .for_each(|field| field.compiled.reset());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        self.branch.commit()
    }

    fn finish(&mut self) -> Result<(), OpError> {
        self.branch.end();
        let released = self.branch.release();
        let committed = self.commit();
        released.and(committed)
    }
}
