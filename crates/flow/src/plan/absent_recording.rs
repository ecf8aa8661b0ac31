//! Stands for a feed of another process, of which only blocks arrive here: its type, and what decides how a plan is cut.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::{Calibration, DType, Stream};
use isochrony_time::{Rate, TimebaseId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::graph::Graph;
use super::rows::clock_of;
use crate::{
    Cause, Clock, OpError, OpErrorKind, PlanError, PortType, Recording, Resource, SharedRecording,
    Source,
};

/// The key of its form in a plan that was sent.
const KEY: &str = "absent";

/// Its form.
#[derive(Debug, Serialize, Deserialize)]
struct AbsentForm {
    /// Equal recordings of a plan have equal numbers.
    number: usize,
    dtype: DType,
    name: String,
    timebase: u32,
    /// The timebase means something in the other process only.
    has_own_timebase: bool,
    rate: String,
    /// Scale and offset, as bits: decimal numbers are rounded.
    calibration: (u64, u64),
    unit: String,
    has_clock: bool,
    skips_samples: bool,
    gives_own_samples: bool,
    needs_interpreter: bool,
}

/// What stands for a recording in another process.
pub(super) fn absent_recording(graph: &Graph, recording: &SharedRecording) -> Map<String, Value> {
    let mut nodes = graph.nodes.iter();
    let number = nodes.position(|node| node.op.recording() == Some(recording));
    let port = recording.0.port();
    let stream = port.stream();
    let form = stream.zip(port.dtype()).map(|(stream, dtype)| AbsentForm {
        number: number.unwrap_or(0),
        dtype,
        name: stream.name.clone(),
        timebase: stream.timebase.0,
        has_own_timebase: stream.timebase.is_of_process(),
        rate: stream.rate.to_string(),
        calibration: (
            stream.calibration.scale().to_bits(),
            stream.calibration.offset().to_bits(),
        ),
        unit: stream.calibration.unit().to_owned(),
        has_clock: recording.0.clock().is_some(),
        skips_samples: recording.0.skips_samples(),
        gives_own_samples: recording.0.gives_own_samples(),
        needs_interpreter: recording.0.needs() == Resource::Interpreter,
    });
    let mut map = Map::new();
    map.insert(KEY.to_owned(), json!(form));
    map
}

/// Timebases of this process, by the numbers that those of feeds have in the process that sent them.
pub(super) type Timebases = HashMap<u32, TimebaseId>;

/// A recording of another process. It is never read here.
pub(super) struct AbsentRecording {
    port: PortType,
    form: AbsentForm,
    clock: Option<Arc<AbsentClock>>,
}

impl AbsentRecording {
    /// None if the form is that of another recording.
    pub(super) fn from_form(
        form: &Map<String, Value>,
        timebases: &mut Timebases,
    ) -> Option<Result<Self, PlanError>> {
        let unreadable = |why: &str| PlanError::Unreadable {
            why: format!("a feed of another process: {why}"),
        };
        let own = form.get(KEY)?;
        let mut read = || {
            let form: AbsentForm =
                serde_json::from_value(own.clone()).map_err(|why| unreadable(&why.to_string()))?;
            let timebase = match (form.has_own_timebase, timebases.get(&form.timebase)) {
                (false, _) => TimebaseId(form.timebase),
                (true, Some(&known)) => known,
                (true, None) => {
                    let new = TimebaseId::unique().map_err(|why| unreadable(&why.to_string()))?;
                    timebases.insert(form.timebase, new);
                    new
                }
            };
            let rate: Rate = form
                .rate
                .parse()
                .map_err(|_| unreadable("its rate is no number"))?;
            let (scale, offset) = form.calibration;
            let (scale, offset) = (f64::from_bits(scale), f64::from_bits(offset));
            let calibration = Calibration::new(scale, offset, form.unit.clone())
                .map_err(|why| unreadable(&why.to_string()))?;
            let stream = Stream::new(form.name.clone(), timebase, rate);
            Ok(Self {
                port: PortType::Samples {
                    dtype: form.dtype,
                    stream: stream.with_calibration(calibration).intern(),
                },
                clock: form.has_clock.then(|| Arc::new(AbsentClock)),
                form,
            })
        };
        Some(read())
    }
}

impl Recording for AbsentRecording {
    fn port(&self) -> PortType {
        self.port
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let name = &self.form.name;
        let why = format!(
            "{name} is a feed of the process that sent the plan; run the plan there, since this process computes blocks only"
        );
        Err(OpErrorKind::Failed(why.into()).into())
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }

    /// In the feed's own process its clock is known: that of a stand-in must not take its place.
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

/// Plans may depend on whether a feed has times, but blocks do not depend on the times.
struct AbsentClock;

impl Clock for AbsentClock {
    fn times(&self, _: &[i64], _: &mut [i64]) -> Result<(), Cause> {
        Err("the times of a feed are known in its own process only".into())
    }
}
