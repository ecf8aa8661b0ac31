//! `isochrony.listen` and `Plan.send`: feeds that arrive, and samples that are sent.

use std::time::Duration;

use isochrony_flow::{Keep, Kept, Live, Plan, PlanError, SEGMENT};
use isochrony_live::send::Faults;
use isochrony_live::{Address, Listener, Options, ToWire};
use isochrony_segment::DType;
use pyo3::prelude::*;
use serde_json::{Map, Value};

use super::{NativePlan, drive};
use crate::errors::{Raised, Result};
use crate::time::RateArg;

/// A feed that is listened to; `isochrony.Listener` is the one for people.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeListener {
    pub(super) listener: Listener,
}

/// Seconds as a duration.
pub(super) fn seconds(name: &str, seconds: f64) -> Result<Duration> {
    Ok(Duration::try_from_secs_f64(seconds).map_err(|_| {
        let message = format!("{name}={seconds} is refused; give seconds from 0");
        Raised::new("OptionError", "bad_option", message)
    })?)
}

#[pymethods]
impl NativeListener {
    /// Listens at an address.
    #[new]
    #[pyo3(signature = (address, dtype, rate, name, unit, framing, reorder, buffer, max_frame, step, silence, anyone))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn new(
        address: &str,
        dtype: &str,
        rate: RateArg,
        name: String,
        unit: String,
        framing: &str,
        reorder: f64,
        buffer: usize,
        max_frame: usize,
        step: f64,
        silence: Option<f64>,
        anyone: bool,
    ) -> Result<Self> {
        let address: Address = address.parse()?;
        let (dtype, order) = DType::parse(dtype)?;
        let mut options = Options::new(dtype, rate.0);
        options.order = order;
        options.name = name;
        options.unit = unit;
        options.framing = framing.parse()?;
        options.reorder = seconds("reorder", reorder)?;
        options.buffer = buffer;
        options.max_frame = max_frame;
        options.step = seconds("step", step)?;
        options.silence = match silence {
            Some(silence) => Some(seconds("silence", silence)?),
            None => None,
        };
        options.anyone = anyone;
        let listener = Listener::bind(&address, &options)?;
        Ok(Self { listener })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> String {
        self.listener.address().to_string()
    }

    /// What became of what came, by name.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.listener.counts().named()
    }

    /// Items, and seconds from arrival to result: median, 99 of 100, most.
    fn latency(&self) -> (u64, f64, f64, f64) {
        let latency = self.listener.latency();
        let [median, p99, most] =
            [latency.median, latency.p99, latency.most].map(|time| time.as_secs_f64());
        (latency.count, median, p99, most)
    }

    /// A plan over it.
    #[pyo3(signature = (segment=None))]
    fn scan(&self, segment: Option<u64>) -> NativePlan {
        let live = Live::new(self.listener.clone());
        Plan::scan_part(live, None, segment.unwrap_or(SEGMENT)).into()
    }
}

#[pymethods]
impl NativePlan {
    /// Sends what flows to an address.
    #[pyo3(signature = (address, speed, frame, loss, twice, jitter, seed))]
    #[allow(clippy::too_many_arguments)] // Called from one place.
    fn send(
        &self,
        address: &str,
        speed: Option<f64>,
        frame: Option<usize>,
        loss: f64,
        twice: f64,
        jitter: f64,
        seed: u64,
    ) -> Result<Self> {
        let faults = Faults {
            loss,
            twice,
            jitter: seconds("jitter", jitter)?,
            seed,
        };
        let target = ToWire::new(address.parse()?, speed, frame, faults)?;
        Ok(self.plan.hold(Kept::new(Keep::new(target)), &[])?.into())
    }
}

/// A feed that a saved plan names.
pub(super) fn revive(saved: &Map<String, Value>) -> std::result::Result<Live, PlanError> {
    if drive::is_driven(saved) {
        return Ok(Live::new(drive::revive(saved)?));
    }
    let listener = Listener::resolve(saved);
    let listener = listener.map_err(|error| PlanError::Unreadable {
        why: error.to_string(),
    })?;
    Ok(Live::new(listener))
}
