//! `isochrony.follow`: stored signals that still grow.

use isochrony_flow::{Plan, PlanError, SEGMENT_SAMPLES, SharedRecording};
use isochrony_live::{FollowOptions, FollowedSignal};
use isochrony_store::Store;
use pyo3::prelude::*;
use serde_json::{Map, Value};

use super::NativePlan;
use super::listen::optional_seconds;
use crate::errors::Result;
use crate::signal::Signal;

/// A followed signal; `isochrony.Followed`, its public class, wraps it.
#[pyclass(frozen, module = "isochrony._native")]
pub(crate) struct NativeFollowed {
    followed: FollowedSignal,
}

#[pymethods]
impl NativeFollowed {
    /// Follows a signal.
    #[new]
    fn new(
        signal: &Bound<'_, Signal>,
        start: i64,
        silence: Option<f64>,
        lateness: Option<f64>,
        while_written: bool,
    ) -> Result<Self> {
        let py = signal.py();
        let signal = signal.get();
        let mut options = FollowOptions::default();
        options.start = start;
        options.silence = optional_seconds("silence", silence)?;
        options.lateness = optional_seconds("lateness", lateness)?;
        options.while_written = while_written;
        let store = &signal.follower.shared.store;
        let followed = FollowedSignal::new(store, signal.get(py)?, &options)?;
        Ok(Self { followed })
    }

    /// Counters by name, of all executions.
    fn counts(&self) -> Vec<(&'static str, u64)> {
        self.followed.counts().named()
    }

    /// A plan over it.
    #[pyo3(signature = (segment=None))]
    fn scan(&self, segment: Option<u64>) -> NativePlan {
        let live = SharedRecording::new(self.followed.clone());
        Plan::scan_part(live, None, segment.unwrap_or(SEGMENT_SAMPLES)).into()
    }
}

pub(super) fn from_saved(
    saved: &Map<String, Value>,
    store: Option<&Store>,
) -> std::result::Result<SharedRecording, PlanError> {
    Ok(SharedRecording::new(FollowedSignal::resolve(saved, store)?))
}
