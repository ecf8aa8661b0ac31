//! Events of a stored signal, one per window or range.

use std::collections::HashSet;
use std::slice::from_ref;
use std::sync::Arc;

use isochrony_expr::{Expr, Shape};
use isochrony_segment::{Bool8, Complex32, Complex64, DType};
use isochrony_store::{Signal, SignalWriter, Store};
use isochrony_time::{Ratio, Round, Time, TimebaseId};
use serde_json::{Map, Value, json};

use super::signal_location::SignalLocation;
use crate::operators::{CompiledExpr, wrong_input};
use crate::plan::error::store_error;
use crate::{
    Break, Clock, Frames, Item, OpError, OpErrorKind, PlanError, PortType, SharedFactory,
    SharedRecording, Sink, SinkWriter,
};

const EVENT_BYTES: u64 = 100;

/// Adds an event per window or range to a signal.
///
/// An event has the window's range, in another signal than the plan's that of the same civil time. Fields are
/// constants, or expressions of one value per window. Events of equal kind, range and fields are not repeated, so a
/// plan can be executed again.
#[derive(Debug, Clone)]
pub struct EventSink {
    location: SignalLocation,
    kind: String,
    values: Map<String, Value>,
    computed: Vec<(String, Expr)>,
    is_created_by_run: bool,
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
        let store = self.location.open()?;
        let saved = reads.and_then(SharedRecording::saved);
        let same = saved.is_some_and(|saved| self.location.is_read_by(&saved));
        let ratio = port
            .stream()
            .map_or(Ratio::ONE, |stream| stream.timebase.origin().1);
        let signal = match self.is_created_by_run {
            true => None,
            false => Some(AnnotatedSignal::open(&store, &self.location, &self.kind)?),
        };
        Ok(Box::new(EventWriter {
            store,
            location: self.location.clone(),
            signal,
            waiting: Vec::new(),
            kind: self.kind.clone(),
            values: self.values.clone(),
            fields,
            clock: reads.and_then(SharedRecording::clock),
            same,
            ratio,
        }))
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

struct AnnotatedSignal {
    writer: SignalWriter,
    known: HashSet<(i64, i64, String)>,
}

impl AnnotatedSignal {
    fn open(store: &Store, location: &SignalLocation, kind: &str) -> Result<Self, OpError> {
        let writer = store.writer(location.signal()).map_err(store_error)?;
        let signal = writer.signal().map_err(store_error)?;
        let known = signal.events().filter(|event| event.kind == kind);
        let known = known.map(|event| (event.start, event.end, event.fields.clone()));
        let known = known.collect();
        Ok(Self { writer, known })
    }
}

struct EventWriter {
    store: Arc<Store>,
    location: SignalLocation,
    /// None until the execution's sink has created it.
    signal: Option<AnnotatedSignal>,
    waiting: Vec<(i64, i64, Map<String, Value>)>,
    kind: String,
    values: Map<String, Value>,
    fields: Vec<ComputedField>,
    /// The recording's clock; unused if `same`.
    clock: Option<Arc<dyn Clock>>,
    same: bool,
    ratio: Ratio,
}

impl EventWriter {
    fn add(&mut self, start: i64, end: i64, fields: &Map<String, Value>) -> Result<(), OpError> {
        let Some(mut annotated) = self.signal.take() else {
            self.waiting.push((start, end, fields.clone()));
            return Ok(());
        };
        let added = self.add_to(&mut annotated, start, end, fields);
        self.signal = Some(annotated);
        added
    }

    fn add_to(
        &self,
        annotated: &mut AnnotatedSignal,
        start: i64,
        end: i64,
        fields: &Map<String, Value>,
    ) -> Result<(), OpError> {
        let signal = annotated.writer.signal().map_err(store_error)?;
        let (start, end) = self.recorded(start, end);
        let (start, end) = if self.same {
            (start, end)
        } else {
            let (first, last) = (self.index(&signal, start)?, self.index(&signal, end - 1)?);
            (first, last.saturating_add(1).max(first))
        };
        let (first, last) = (signal.start_index(), signal.end_index());
        let range = start.clamp(first, last)..end.clamp(first, last);
        let text = Value::Object(fields.clone()).to_string();
        if !annotated.known.insert((range.start, range.end, text)) {
            return Ok(());
        }
        (annotated.writer)
            .add_event(&self.kind, range, fields)
            .map(drop)
            .map_err(store_error)
    }

    fn add_waiting(&mut self) -> Result<(), OpError> {
        let name = self.location.signal();
        if !self.store.contains(name).map_err(store_error)? {
            let why = format!(
                "no sink before annotate has created {name:?}; put annotate behind sink(store, {name:?}), or give the \
                 signal itself if it exists"
            );
            return Err(OpErrorKind::Failed(why.into()).into());
        }
        let mut annotated = AnnotatedSignal::open(&self.store, &self.location, &self.kind)?;
        for (start, end, fields) in std::mem::take(&mut self.waiting) {
            self.add_to(&mut annotated, start, end, &fields)?;
        }
        self.signal = Some(annotated);
        Ok(())
    }

    /// The samples that cover the range; a resampled one may begin between samples.
    fn recorded(&self, start: i64, end: i64) -> (i64, i64) {
        if self.ratio.is_one() {
            return (start, end);
        }
        let place = |index: i64| self.ratio.place(index).unwrap_or((i64::MAX, 0));
        let ((start, _), (last, part)) = (place(start), place(end));
        (start, last.saturating_add(i64::from(part > 0)))
    }

    fn index(&self, signal: &Signal, index: i64) -> Result<i64, OpError> {
        let stamp = self.clock.as_ref().and_then(|clock| clock.stamp(index));
        let Some(stamp) = stamp else {
            return Err(OpErrorKind::Failed(
                format!(
                    "index {index} has no civil time by which to find it in {:?}; annotate the signal that is read",
                    signal.name()
                )
                .into(),
            )
            .into());
        };
        let time = Time::new(stamp.civil, TimebaseId::CIVIL);
        let found = signal
            .index_of(&time, Round::Nearest, None)
            .map_err(store_error)?;
        Ok(found.index)
    }

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
            self.add(
                start,
                start.saturating_add_unsigned(frames.window()),
                &fields,
            )?;
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
            Item::Frames(frames) => {
                self.frames(frames)?;
                Ok(frames.count() * EVENT_BYTES)
            }
            Item::Ranges(ranges) => {
                let values = self.values.clone();
                for range in &ranges.ranges {
                    self.add(range.start, range.end, &values)?;
                }
                Ok(ranges.ranges.len() as u64 * EVENT_BYTES)
            }
            other => Err(OpErrorKind::WrongItem {
                expected: "frames or ranges",
                got: other.kind(),
            }
            .into()),
        }
    }

    fn on_break(&mut self, _: &Break) -> Result<(), OpError> {
        self.fields
            .iter_mut()
            .for_each(|field| field.compiled.reset());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), OpError> {
        if self.signal.is_none() {
            // If a sink replaces the signal, this makes the new one visible.
            self.store.commit(true).map_err(store_error)?;
            self.add_waiting()?;
        }
        self.store.commit(true).map(drop).map_err(store_error)
    }
}
