//! Stand-in for a feed of another process, of which only blocks arrive here: its type, and what decides how a plan is
//! cut.

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::graph::Graph;
use super::port_form::{PortForm, Timebases};
use super::rows::clock_of;
use crate::{
    Cause, Clock, OpError, OpErrorKind, PlanError, PortType, Recording, Resource, SharedRecording,
    Source,
};

const KEY: &str = "absent";

#[derive(Debug, Serialize, Deserialize)]
struct AbsentForm {
    /// Equal for equal recordings of a plan.
    number: usize,
    port: Option<PortForm>,
    has_clock: bool,
    skips_samples: bool,
    gives_own_samples: bool,
    is_on_host: bool,
    needs_interpreter: bool,
}

pub(super) fn absent_recording(graph: &Graph, recording: &SharedRecording) -> Map<String, Value> {
    let mut nodes = graph.nodes.iter();
    let number = nodes.position(|node| node.op.recording() == Some(recording));
    let form = AbsentForm {
        number: number.unwrap_or(0),
        port: PortForm::of(recording.0.port()),
        has_clock: recording.0.clock().is_some(),
        skips_samples: recording.0.skips_samples(),
        gives_own_samples: recording.0.gives_own_samples(),
        is_on_host: recording.0.host_window().is_some(),
        needs_interpreter: recording.0.needs() == Resource::Interpreter,
    };
    let mut map = Map::new();
    map.insert(KEY.to_owned(), json!(form));
    map
}

/// Never read here.
pub(crate) struct AbsentRecording {
    port: PortType,
    form: AbsentForm,
    clock: Option<Arc<dyn Clock>>,
}

impl AbsentRecording {
    /// `skips_samples`: consecutive items need not be contiguous.
    pub(crate) fn on_host(
        node: usize,
        port: PortType,
        clock: Option<Arc<dyn Clock>>,
        skips_samples: bool,
    ) -> Self {
        Self {
            port,
            form: AbsentForm {
                number: node,
                port: None,
                has_clock: clock.is_some(),
                skips_samples,
                gives_own_samples: false,
                is_on_host: true,
                needs_interpreter: false,
            },
            clock,
        }
    }

    pub(super) fn from_form(
        form: &Map<String, Value>,
        timebases: &mut Timebases,
    ) -> Option<Result<Self, PlanError>> {
        let unreadable = |why: String| PlanError::Unreadable {
            why: format!("what another process reads: {why}"),
        };
        let read = |form: &Value| {
            let form: AbsentForm =
                serde_json::from_value(form.clone()).map_err(|why| unreadable(why.to_string()))?;
            let port = match &form.port {
                Some(port) => port.port(timebases).map_err(unreadable)?,
                None => PortType::Count,
            };
            Ok(Self {
                port,
                clock: form.has_clock.then(|| Arc::new(AbsentClock) as _),
                form,
            })
        };
        form.get(KEY).map(read)
    }
}

impl Recording for AbsentRecording {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let port = self.port;
        let why = format!(
            "{port} come to the process that sent the plan; run the plan there, since this process computes blocks only"
        );
        Err(OpErrorKind::Failed(why.into()).into())
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.clock.clone()
    }

    /// In the feed's own process its clock must not be replaced by the stand-in's.
    fn registers_clock(&self) -> bool {
        let stream = self.port.stream_id();
        stream.is_none_or(|stream| clock_of(stream).is_none())
    }

    fn skips_samples(&self) -> bool {
        self.form.skips_samples
    }

    fn gives_own_samples(&self) -> bool {
        self.form.gives_own_samples
    }

    fn host_window(&self) -> Option<u64> {
        self.form.is_on_host.then_some(0)
    }

    fn needs(&self) -> Resource {
        match self.form.needs_interpreter {
            true => Resource::Interpreter,
            false => Resource::Cpu,
        }
    }

    /// Makes equal ones equal.
    fn saved(&self) -> Option<Map<String, Value>> {
        let mut map = Map::new();
        map.insert(KEY.to_owned(), json!(self.form));
        Some(map)
    }
}

/// Plans depend on whether a feed has times; blocks do not.
struct AbsentClock;

impl Clock for AbsentClock {
    fn times(&self, _: &[i64], _: &mut [i64]) -> Result<(), Cause> {
        Err("the times of a feed are known in its own process only".into())
    }
}
