//! `isochrony.Signal`: writing.

use std::sync::Arc;

use isochrony_store::{RunReason, Scratch, SignalWriter};
use isochrony_time::{Fixed, Placement, Stamp, civil};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{PackageError, Result};
use crate::integer::IntegerArg;
use crate::interrupt::interruptible;
use crate::memory;
use crate::signal::gaps::Gap;
use crate::signal::runs::reason;
use crate::signal::writer::Writer;
use crate::signal::{Signal, between};
use crate::store::handle::{Follower, OpenStore};
use crate::time::{TimeArg, duration_arg, option};

impl Signal {
    pub(crate) fn writing(shared: &Arc<OpenStore>, writer: SignalWriter) -> Result<Self> {
        let signal = writer.signal()?;
        Ok(Self {
            follower: Follower::new(shared, signal, true),
            writer: Writer::Stored(writer),
        })
    }

    pub(crate) fn temporary(shared: &Arc<OpenStore>, scratch: Scratch) -> Result<Self> {
        let signal = scratch.signal()?;
        Ok(Self {
            follower: Follower::new(shared, signal, true),
            writer: Writer::Scratch(scratch),
        })
    }

    pub(crate) fn writer(&self, action: &'static str) -> Result<&SignalWriter> {
        match &self.writer {
            Writer::Stored(writer) => Ok(writer),
            Writer::Scratch(scratch) => Ok(scratch),
            Writer::None => {
                let path = self.follower.shared.store.path().to_owned();
                Err(isochrony_store::StoreError::ReadOnly { path, action }.into())
            }
        }
    }

    pub(crate) fn samples(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        cast: bool,
    ) -> Result<isochrony_segment::Buffer> {
        let signal = self.get(py)?;
        let array = py.import("isochrony.store.samples")?.call_method1(
            "as_samples",
            (samples, signal.format().name(), signal.name(), cast),
        )?;
        Ok(memory::adopt(&array, false)?.0)
    }
}

/// Placement of appended samples.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> appended = signal.append(np.zeros(250, "i2"))
/// >>> appended.index, appended.samples, appended.placement
/// (0, 250, 'contiguous')
#[pyclass(frozen, module = "isochrony", get_all)]
pub(crate) struct Appended {
    /// First index.
    ///
    /// >>> appended.index
    /// 0
    index: i64,
    /// Number of samples.
    ///
    /// >>> appended.samples
    /// 250
    samples: i64,
    /// Id of their run.
    ///
    /// >>> appended.run
    /// 0
    run: u32,
    /// Meaning of the stamp: "first", "contiguous", "gap", "backward_step", "leap_second", "outlier" or "lock".
    ///
    /// >>> appended.placement
    /// 'contiguous'
    placement: &'static str,
    /// Why they began a run, or None.
    ///
    /// >>> appended.new_run is None
    /// True
    new_run: Option<&'static str>,
}

#[pymethods]
impl Appended {
    fn __repr__(&self) -> String {
        let (index, end) = (self.index, self.index + self.samples);
        format!(
            "<Appended {index}..{end} run {} {}>",
            self.run, self.placement
        )
    }
}

impl From<isochrony_store::Appended> for Appended {
    fn from(appended: isochrony_store::Appended) -> Self {
        Self {
            index: appended.index,
            samples: appended.samples,
            run: appended.run.0,
            placement: match appended.placement {
                Placement::First => "first",
                Placement::Contiguous => "contiguous",
                Placement::Gap { .. } => "gap",
                Placement::Backward { .. } => "backward_step",
                Placement::LeapSecond { .. } => "leap_second",
                Placement::Outlier => "outlier",
                Placement::Lock => "lock",
            },
            new_run: appended.new_run.map(reason),
        }
    }
}

/// Without `resolution` a time is as exact as its type and digits, but at least to a microsecond: a typed `00:00:07`
/// means the start of the second.
pub(crate) fn stamp(
    at: &Bound<'_, PyAny>,
    resolution: Option<&Bound<'_, PyAny>>,
    leap: bool,
) -> Result<Stamp> {
    let time = at.extract::<TimeArg>()?.0.value;
    let microsecond = Fixed::from_int(1_000);
    let resolution = match resolution {
        Some(resolution) => duration_arg(resolution)?,
        None => match at.cast::<PyString>() {
            Ok(text) => civil::parse_with_resolution(&civil::complete_date(&text.to_cow()?))?
                .1
                .min(microsecond),
            Err(_) if at.hasattr("nanosecond")? || at.hasattr("ns")? => Fixed::ONE,
            Err(_) => microsecond,
        },
    };
    let stamp = Stamp::new(time, resolution);
    Ok(Stamp { leap, ..stamp })
}

#[pymethods]
impl Signal {
    /// Appends raw samples after the last ones or, with a stamp, after a gap; after a backward clock step they begin a
    /// run. Visible at once here, durable with the next `Store.commit`.
    ///
    /// Parameters:
    ///     samples: 1-D, of the signal's dtype or one that converts to it without loss.
    ///     at: civil time of the first sample; None: contiguous.
    ///     resolution: seconds; the true time lies in [at, at + resolution). None: the precision of `at`, a microsecond
    ///         at the coarsest.
    ///     leap: the source reports a leap second since the last stamp: a time that repeats by a second then begins a
    ///         run for that reason, instead of a backward step.
    ///     cast: accept other dtypes, rounded to nearest, ties to even. What the dtype cannot hold (NaN in integers,
    ///         numbers out of range, imaginary parts) is an error, and nothing is appended.
    ///
    /// Returns:
    ///     An `Appended`: `index` of the first sample, number of `samples`, their `run`, and what the stamp meant:
    ///     `placement`, such as "contiguous" or "gap".
    ///
    /// Raises:
    ///     isochrony.StoreError: another dtype (also TypeError), a number that does not fit (ValueError, with its
    ///         place), a store open for reading (PermissionError), a full disk (OSError).
    ///     KeyboardInterrupt: within a tenth of a second of Ctrl-C. Either all samples are appended (it came too late)
    ///         or none: see `end_index`. The store remains usable.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(100, "i2"))
    /// >>> appended = signal.append(np.zeros(100, "i2"), at="2026-01-01T00:00:05")
    /// >>> appended.index, appended.placement, signal.gaps[0].length
    /// (500, 'gap', 400)
    #[pyo3(signature = (samples, *, at=None, resolution=None, leap=false, cast=false))]
    fn append(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        at: Option<&Bound<'_, PyAny>>,
        resolution: Option<&Bound<'_, PyAny>>,
        leap: bool,
        cast: bool,
    ) -> Result<Appended> {
        let writer = self.writer("append")?;
        let stamp = at.map(|at| stamp(at, resolution, leap)).transpose()?;
        if stamp.is_none() && (resolution.is_some() || leap) {
            let name = if leap { "leap" } else { "resolution" };
            return Err(option(name, "given without at", "both, or neither").into());
        }
        let buffer = self.samples(py, samples, cast)?;
        let appended = interruptible(py, buffer.len() as u64, || {
            Ok(match &stamp {
                None => writer.append_bytes(buffer.bytes())?,
                Some(stamp) => writer.append_bytes_at(buffer.bytes(), stamp, None)?,
            })
        })?;
        Ok(appended.into())
    }

    /// Appends a gap, for time without samples. State either its duration or its number of samples.
    ///
    /// Parameters:
    ///     seconds: how long it lasts, above zero, rounded to the nearest sample of the running rate.
    ///     samples: number of missing samples, above zero.
    ///
    /// Returns:
    ///     The `Gap`.
    ///
    /// Raises:
    ///     isochrony.OptionError: both or none of the two.
    ///     isochrony.StoreError: a duration or number out of range, or a store open for reading (also PermissionError).
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(100, "i2"))
    /// >>> signal.append_gap(seconds=2)
    /// <Gap start=100 length=200 at 2026-01-01T00:00:01Z>
    #[pyo3(signature = (*, seconds=None, samples=None))]
    fn append_gap(
        &self,
        py: Python<'_>,
        seconds: Option<&Bound<'_, PyAny>>,
        samples: Option<IntegerArg<i64>>,
    ) -> Result<Gap> {
        let writer = self.writer("append a gap")?;
        let gap = match (seconds, samples) {
            (Some(seconds), None) => {
                let ns = duration_arg(seconds)?;
                crate::interpreter::detach(py, || writer.append_gap_duration(ns))?
            }
            (None, Some(IntegerArg(samples))) => {
                crate::interpreter::detach(py, || writer.append_gap(samples))?
            }
            _ => {
                let message = "append_gap needs exactly one of seconds= and samples=".to_owned();
                return Err(PackageError::new("OptionError", "bad_option", message).into());
            }
        };
        Ok(Gap::new(gap, &self.get(py)?))
    }

    /// Begins a run: the clock of later samples is unrelated to the previous one, except for its rate.
    ///
    /// Returns:
    ///     An int, the id of the run.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(100, "i2"))
    /// >>> _ = signal.begin_run()
    /// >>> _ = signal.append(np.zeros(50, "i2"), at="2026-01-01T00:10:00")
    /// >>> [(run.start, run.end, run.reason) for run in signal.runs()]
    /// [(0, 100, 'first'), (100, 150, 'requested')]
    fn begin_run(&self, py: Python<'_>) -> Result<u32> {
        let writer = self.writer("begin a run")?;
        Ok(crate::interpreter::detach(py, || writer.begin_run())?.0)
    }
}

/// Placement of late samples.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.zeros(100, "i2")), signal.append_gap(seconds=2), signal.append(np.zeros(50, "i2"))
/// >>> backfilled = signal.backfill(np.ones(30, "i2"), at="2026-01-01T00:00:01.500")
/// >>> backfilled.placement, backfilled.index, backfilled.samples
/// ('filled', 150, 30)
#[pyclass(frozen, module = "isochrony", get_all)]
pub(crate) struct Backfilled {
    /// "filled" a gap, "late" run of their own, "appended" at the end, or "duplicate", not stored again.
    ///
    /// >>> backfilled.placement
    /// 'filled'
    placement: &'static str,
    /// First index.
    ///
    /// >>> backfilled.index
    /// 150
    index: i64,
    /// Number of samples.
    ///
    /// >>> backfilled.samples
    /// 30
    samples: i64,
    /// Id of their run; None for a duplicate.
    ///
    /// >>> backfilled.run
    /// 0
    run: Option<u32>,
}

impl From<isochrony_store::Backfilled> for Backfilled {
    fn from(outcome: isochrony_store::Backfilled) -> Self {
        let (placement, index, samples, run) = match outcome {
            isochrony_store::Backfilled::Filled {
                index,
                samples,
                run,
            } => ("filled", index, samples, run),
            isochrony_store::Backfilled::Appended(to) => {
                let late = matches!(to.new_run, Some(RunReason::Late | RunReason::Overlap));
                let placement = if late { "late" } else { "appended" };
                (placement, to.index, to.samples, to.run)
            }
            _ => ("stored", 0, 0, isochrony_time::RunId(0)),
        };
        Self {
            placement,
            index,
            samples,
            run: Some(run.0),
        }
    }
}

#[pymethods]
impl Backfilled {
    fn __repr__(&self) -> String {
        let (index, end) = (self.index, self.index + self.samples);
        format!("<Backfilled {index}..{end} {}>", self.placement)
    }
}

#[pymethods]
impl Signal {
    /// Stores late samples: into the gap at their time, whose rest stays a gap; at the end if they belong there; else
    /// as a run of their own. Stored samples never change.
    ///
    /// Parameters:
    ///     samples: 1-D, as for `append`.
    ///     at: civil time of the first sample.
    ///     resolution: as for `append`.
    ///
    /// Returns:
    ///     A `Backfilled`: `index` of the first sample, number of `samples`, their `run`, and `placement`, such as
    ///     "filled" for a gap.
    ///
    /// Raises:
    ///     As `append`.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(100, "i2")), signal.append_gap(seconds=2), signal.append(np.zeros(100, "i2"))
    /// >>> late = signal.backfill(np.ones(50, "i2"), "2026-01-01T00:00:01.5")
    /// >>> late.index, late.placement, [(gap.start, gap.length) for gap in signal.gaps]
    /// (150, 'filled', [(100, 50), (200, 100)])
    #[pyo3(signature = (samples, at, *, resolution=None))]
    fn backfill(
        &self,
        py: Python<'_>,
        samples: &Bound<'_, PyAny>,
        at: &Bound<'_, PyAny>,
        resolution: Option<&Bound<'_, PyAny>>,
    ) -> Result<Backfilled> {
        let writer = self.writer("backfill")?;
        let stamp = stamp(at, resolution, false)?;
        let buffer = self.samples(py, samples, false)?;
        interruptible(py, buffer.len() as u64, || {
            if let Some(range) = writer.matches(buffer.bytes(), &stamp)? {
                return Ok(Backfilled {
                    placement: "duplicate",
                    index: range.start,
                    samples: range.end - range.start,
                    run: None,
                });
            }
            Ok(writer.backfill(buffer.bytes(), &stamp)?.into())
        })
    }

    /// Turns stored samples into a gap.
    ///
    /// Parameters:
    ///     start: index or time; or a span, slice or selection, without `end`. Or many ranges at once, which is much
    ///         faster: an int64 array of shape (n, 2) of first indices and numbers of samples, like
    ///         `numpy.asarray(signal.gaps)`.
    ///     end: index or time after the last sample.
    ///
    /// Raises:
    ///     isochrony.StoreError: a range outside the signal (also IndexError); earlier ones of several are marked.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> signal.mark_invalid(100, 200)
    /// >>> [(gap.start, gap.length) for gap in signal.gaps]
    /// [(100, 100)]
    #[pyo3(signature = (start, end=None))]
    fn mark_invalid(
        &self,
        py: Python<'_>,
        start: &Bound<'_, PyAny>,
        end: Option<&Bound<'_, PyAny>>,
    ) -> Result<()> {
        let writer = self.writer("mark samples as invalid")?;
        let ranges = match (start.hasattr("ndim")?, end) {
            (true, None) => listed(py, start)?,
            _ => ranges(&self.get(py)?, start, end)?,
        };
        crate::interpreter::detach(py, || {
            ranges
                .into_iter()
                .try_for_each(|range| writer.mark_invalid(range))
        })?;
        Ok(())
    }

    /// Overwrites stored samples: in place in a scratch signal, elsewhere in a copy that replaces them at the commit,
    /// so existing views do not change.
    ///
    /// Parameters:
    ///     index: index of the first sample; the range may contain no gap.
    ///     samples: 1-D, as for `append`.
    ///
    /// Raises:
    ///     isochrony.StoreError: a gap in the range, a range outside the signal (also IndexError), and as `append`.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> signal.write(10, np.array([-1, -2], "i2"))
    /// >>> signal[9:13].counts
    /// array([ 9, -1, -2, 12], dtype=int16)
    fn write(
        &self,
        py: Python<'_>,
        index: IntegerArg<i64>,
        samples: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let writer = self.writer("write samples")?;
        let buffer = self.samples(py, samples, false)?;
        Ok(crate::interpreter::detach(py, || {
            writer.write_bytes(index.0, buffer.bytes())
        })?)
    }

    /// Sets the unit of the values and their relation to counts, without changing samples.
    ///
    /// Parameters:
    ///     unit: empty if unknown.
    ///     scale: units per count, finite and not zero; None: 1. Without `scale` and `offset`, counts are values.
    ///     offset: value of zero counts, in the unit, finite; None: 0.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.array([0, 100, 200], "i2"))
    /// >>> signal.calibrate("kPa", scale=0.5, offset=-20)
    /// >>> signal.values()
    /// array([-20.,  30.,  80.])
    #[pyo3(signature = (unit, *, scale=None, offset=None))]
    fn calibrate(
        &self,
        py: Python<'_>,
        unit: &str,
        scale: Option<f64>,
        offset: Option<f64>,
    ) -> Result<()> {
        let writer = self.writer("set the calibration")?;
        let calibration = (scale.is_some() || offset.is_some())
            .then(|| (scale.unwrap_or(1.0), offset.unwrap_or(0.0)));
        Ok(crate::interpreter::detach(py, || {
            writer.set_calibration(unit, calibration)
        })?)
    }
}

fn listed(py: Python<'_>, rows: &Bound<'_, PyAny>) -> Result<Vec<std::ops::Range<i64>>> {
    let rows = py
        .import("isochrony.store.samples")?
        .call_method1("as_stretches", (rows,))?;
    let (rows, _) = memory::adopt(&rows, false)?;
    let rows = rows.samples::<i64>().unwrap_or_default().chunks_exact(2);
    Ok(rows
        .map(|row| row[0]..row[0].saturating_add(row[1]))
        .collect())
}

pub(crate) fn ranges(
    signal: &isochrony_store::Signal,
    start: &Bound<'_, PyAny>,
    end: Option<&Bound<'_, PyAny>>,
) -> Result<Vec<std::ops::Range<i64>>> {
    let asked = between(signal, start, end)?;
    let selection = signal.select(asked.span())?;
    Ok(selection
        .parts()
        .iter()
        .map(|part| part.range.clone())
        .collect())
}
