//! `isochrony.listen` and `Plan.send`: live feeds in and out.

use std::sync::OnceLock;
use std::time::Duration;

use isochrony_flow::{
    Plan, Recording as _, SEGMENT_SAMPLES, SharedFactory, SharedRecording, SinkFactory,
};
use isochrony_live::send::NetworkFaults;
use isochrony_live::{Address, LateSamples, ListenOptions, Listener, ToWire};
use isochrony_segment::{ByteOrder, DType};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::NativePlan;
use super::owner::Owner;
use crate::errors::{PackageError, Result};
use crate::integer::IntegerArg;
use crate::time::RateArg;

/// A live feed; `isochrony.Listener`, its public class, wraps it.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeListener {
    pub(super) listener: Listener,
    /// Keeps the Python driver of an audio device or a SeedLink server.
    pub(super) owner: Option<Py<Owner>>,
    /// One for all plans, which then share its rows.
    late: OnceLock<SharedRecording>,
}

impl NativeListener {
    pub(super) fn new_owned(listener: Listener, owner: Option<Py<Owner>>) -> Self {
        let late = OnceLock::new();
        Self {
            listener,
            owner,
            late,
        }
    }
}

pub(super) fn seconds(name: &str, seconds: f64) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds).map_err(|_| {
        let message = format!("{name}={seconds} is refused; give a number of seconds, 0 or more");
        PackageError::new("OptionError", "bad_option", message)
    })?)
}

pub(super) fn optional_seconds(name: &str, given: Option<f64>) -> Result<Option<Duration>> {
    given.map(|given| seconds(name, given)).transpose()
}

#[pymethods]
impl NativeListener {
    /// Listens at an address. `reorder`: seconds that early frames wait for late ones; `step`: seconds by which a
    /// sender's stamp must deviate to start a new run; `silence`: seconds without frames that end the feed; `lateness`:
    /// seconds after which overdue samples are given up; `keep_late`: bytes of late samples kept; `anyone`: other
    /// machines may connect; `bind`: at once, else in the run that reads it.
    #[new]
    #[pyo3(signature = (address, dtype, rate, name, unit, framing, reorder, buffer, max_frame, step, silence, lateness, keep_late, anyone, clock=None, bind=true))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn new(
        address: &str,
        dtype: &str,
        rate: RateArg,
        name: String,
        unit: String,
        framing: &str,
        reorder: f64,
        buffer: IntegerArg<usize>,
        max_frame: IntegerArg<usize>,
        step: f64,
        silence: Option<f64>,
        lateness: Option<f64>,
        keep_late: IntegerArg<usize>,
        anyone: bool,
        clock: Option<PyRef<'_, Self>>,
        bind: bool,
    ) -> Result<Self> {
        let address: Address = address.parse()?;
        let (dtype, order) = DType::parse(dtype)?;
        let mut options = ListenOptions::new(dtype, rate.0);
        options.order = order;
        options.name = name;
        options.unit = unit;
        options.framing = framing.parse()?;
        options.reorder = seconds("reorder", reorder)?;
        options.buffer = buffer.0;
        options.max_frame = max_frame.0;
        options.step = seconds("step", step)?;
        options.silence = optional_seconds("silence", silence)?;
        options.lateness = optional_seconds("lateness", lateness)?;
        options.keep_late = keep_late.0;
        options.anyone = anyone;
        options.clock = clock.map(|other| other.listener.sampling_clock());
        let listener = match bind {
            true => Listener::bind(&address, &options)?,
            false => Listener::unbound(&address, &options)?,
        };
        Ok(Self::new_owned(listener, None))
    }

    /// Its address.
    #[getter]
    fn address(&self) -> String {
        self.listener.address().to_string()
    }

    /// Counters by name: frames, and samples delivered, lost and dropped.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.listener.counts().named()
    }

    /// Takes the late samples kept: index and civil time (ns since 1970) of the first, and the bytes.
    fn take_late<'py>(&self, py: Python<'py>) -> Vec<(i64, Option<i64>, Bound<'py, PyBytes>)> {
        let pieces = self.listener.take_late().into_iter();
        let piece = |late: LateSamples| {
            let samples = PyBytes::new(py, &late.samples);
            (late.start, late.time, samples)
        };
        pieces.map(piece).collect()
    }

    /// NumPy dtype of the samples in native byte order.
    #[getter]
    fn dtype(&self) -> String {
        match self.listener.port().dtype() {
            Some(dtype) => dtype.numpy_str(ByteOrder::NATIVE).into(),
            None => String::new(),
        }
    }

    /// The unit stated by the sender, if it has described its recording.
    #[getter]
    fn sender_unit(&self) -> Option<String> {
        self.listener.sender_unit()
    }

    /// Number of items, and median, 99th percentile and maximum of the seconds from arrival to result.
    fn latency(&self) -> (u64, f64, f64, f64) {
        let latency = self.listener.latency();
        let [median, p99, max] =
            [latency.median, latency.p99, latency.max].map(|time| time.as_secs_f64());
        (latency.count, median, p99, max)
    }

    /// A plan that scans the feed.
    #[pyo3(signature = (segment=None))]
    fn scan(&self, py: Python<'_>, segment: Option<u64>) -> NativePlan {
        let live = SharedRecording::new(self.listener.clone());
        let plan = Plan::scan_part(live, None, segment.unwrap_or(SEGMENT_SAMPLES));
        let owner = self.owner.as_ref().map(|owner| owner.clone_ref(py));
        NativePlan::owned(plan, owner)
    }

    /// A plan of its late samples, as rows.
    fn late(&self, py: Python<'_>) -> Result<NativePlan> {
        let late = SharedRecording::new(self.listener.late()?);
        let late = self.late.get_or_init(|| late).clone();
        let owner = self.owner.as_ref().map(|owner| owner.clone_ref(py));
        Ok(NativePlan::owned(Plan::scan_shared(late), owner))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> std::result::Result<(), PyTraverseError> {
        self.owner.iter().try_for_each(|owner| visit.call(owner))
    }
}

#[pymethods]
impl NativePlan {
    /// Sends the plan's samples to an address and passes them on. Simulates network faults, to test listeners: `loss`
    /// and `twice` are the probabilities that a frame is dropped or sent twice, `jitter` is its maximum delay in
    /// seconds.
    #[pyo3(signature = (address, speed, frame, loss, twice, jitter, seed))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn send(
        &self,
        py: Python<'_>,
        address: &str,
        speed: Option<f64>,
        frame: Option<IntegerArg<usize>>,
        loss: f64,
        twice: f64,
        jitter: f64,
        seed: IntegerArg<u64>,
    ) -> Result<Self> {
        let faults = NetworkFaults {
            loss,
            twice,
            jitter: seconds("jitter", jitter)?,
            seed: seed.0,
        };
        let target = ToWire::new(address.parse()?, speed, frame.map(|frame| frame.0), faults)?;
        self.then_factory(py, SharedFactory::new(SinkFactory::new(target)))
    }
}
