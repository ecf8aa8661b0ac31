//! `isochrony.Run`: samples of one clock, between two clock steps.

use isochrony_store::{Signal, op::RunReason};
use isochrony_time::MeanRate;
use pyo3::prelude::*;

use crate::errors::Result;
use crate::time::Time;

/// Samples of one clock, between two clock steps; may contain gaps.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.zeros(100, "i2")), signal.append(np.zeros(50, "i2"), at="2025-12-31")
/// >>> [(run.id, run.start, run.end, run.reason) for run in signal.runs()]
/// [(0, 0, 100, 'first'), (1, 100, 150, 'backward_step')]
#[pyclass(frozen, module = "isochrony", get_all)]
pub(crate) struct Run {
    /// Number of the run, unique in the signal, in storage order.
    ///
    /// >>> signal.runs()[0].id
    /// 0
    pub(crate) id: u32,
    /// First index.
    ///
    /// >>> signal.runs()[0].start
    /// 0
    pub(crate) start: i64,
    /// Index after the last one.
    ///
    /// >>> signal.runs()[0].end
    /// 100
    pub(crate) end: i64,
    /// Number of samples, gaps excluded.
    ///
    /// >>> signal.runs()[0].sample_count
    /// 100
    pub(crate) sample_count: i64,
    /// Why the run began: "first", "backward_step", "overlap", "late", "requested", "resumed" or
    /// "leap_second".
    ///
    /// >>> signal.runs()[0].reason
    /// 'first'
    pub(crate) reason: &'static str,
    /// Mean sample rate in Hz, gaps excluded, from the stamps; None without civil time.
    ///
    /// >>> signal.runs()[0].rate
    /// 100.0
    pub(crate) rate: Option<f64>,
    /// Half-width in Hz of the interval around `rate` that holds the true mean in at least 99 % of cases; None without
    /// civil time.
    ///
    /// >>> round(signal.runs()[0].rate_uncertainty, 3)
    /// 0.035
    pub(crate) rate_uncertainty: Option<f64>,
    /// Half-width in seconds of the interval around a civil time that holds the true one; None without civil time.
    ///
    /// >>> round(signal.runs()[0].uncertainty, 4)
    /// 0.007
    pub(crate) uncertainty: Option<f64>,
    /// Civil time of the first sample; None without civil time.
    ///
    /// >>> signal.runs()[0].start_time
    /// Time('2026-01-01T00:00:00Z')
    pub(crate) start_time: Option<Time>,
    /// Civil time at which the last sample ends; None without civil time.
    ///
    /// >>> signal.runs()[0].end_time
    /// Time('2026-01-01T00:00:01Z')
    pub(crate) end_time: Option<Time>,
}

#[pymethods]
impl Run {
    fn __repr__(&self) -> String {
        let mut text = format!(
            "<Run {} {}..{} {}",
            self.id, self.start, self.end, self.reason
        );
        if let Some(rate) = self.rate {
            text.push_str(&format!(" {rate} Hz"));
        }
        if let Some(time) = self.start_time {
            text.push_str(&format!(
                " from {}",
                isochrony_time::civil::format(time.value)
            ));
        }
        text + ">"
    }
}

pub(crate) fn runs(signal: &Signal) -> Result<Vec<Run>> {
    Ok(signal
        .runs()?
        .iter()
        .map(|run| describe(signal, run))
        .collect())
}

fn describe(signal: &Signal, run: &isochrony_store::Run) -> Run {
    let time = |value| {
        let mut time = Time::civil(value);
        time.run = Some(run.id);
        time.uncertainty = run.uncertainty_ns;
        time
    };
    let missing = signal.gaps().missing_within(run.start..run.end);
    Run {
        id: run.id.0,
        start: run.start,
        end: run.end,
        sample_count: run.end - run.start - missing,
        reason: reason(run.reason),
        rate: run.rate.map(hertz),
        rate_uncertainty: run
            .rate
            .map(|rate| hertz(rate) * rate.uncertainty_ppm * 1e-6),
        uncertainty: run.uncertainty_ns.map(|ns| ns * 1e-9),
        start_time: run.civil.map(|(start, _)| time(start)),
        end_time: run.civil.map(|(_, end)| time(end)),
    }
}

fn hertz(rate: MeanRate) -> f64 {
    rate.hz
}

pub(crate) fn reason(reason: RunReason) -> &'static str {
    match reason {
        RunReason::First => "first",
        RunReason::BackwardStep => "backward_step",
        RunReason::Overlap => "overlap",
        RunReason::Late => "late",
        RunReason::LeapSecond => "leap_second",
        RunReason::Resumed => "resumed",
        _ => "requested",
    }
}
