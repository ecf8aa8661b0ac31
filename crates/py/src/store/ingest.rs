//! Import session for importers written in Python.

use std::sync::{Mutex, PoisonError};

use isochrony_ingest::{Block, Problem, Session, SessionOptions, Spec, StampedBlocks, Summary};
use isochrony_segment::DType;
use isochrony_time::{Fixed, Stamp};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Error, PackageError, Result};
use crate::memory;
use crate::signal::options::whole_ns;
use crate::store::Store;
use crate::time::{RateArg, fixed};

/// An import into a store: accepts blocks of samples, places them by their stamps, detects blocks that are
/// already stored, repeated or late, records provenance, and commits. Created by `Store.ingest`.
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Ingest {
    session: Mutex<Option<Session>>,
}

impl Ingest {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut Session) -> std::result::Result<T, isochrony_ingest::IngestError> + Send,
    ) -> Result<T> {
        crate::interpreter::detach(py, || {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(session) = session.as_mut() else {
                return Err(finished());
            };
            Ok(body(session)?)
        })
    }
}

fn spec(
    signal: &str,
    dtype: DType,
    rate: RateArg,
    unit: Option<&str>,
    calibration: (f64, f64),
    attrs: Option<&Bound<'_, PyAny>>,
) -> Result<Spec> {
    let mut spec = Spec::new(dtype, rate.0);
    spec.unit = unit.unwrap_or_default().to_owned();
    if calibration != (1.0, 0.0) {
        spec.calibration = Some(calibration);
    }
    if let Some(attrs) = attrs {
        spec.attributes = crate::json::object(signal, attrs)?;
    }
    Ok(spec)
}

fn whole_numbers(what: &str, array: &Bound<'_, PyAny>) -> Result<Vec<i64>> {
    let (buffer, dtype) = memory::adopt(array, true)?;
    if let Some(numbers) = buffer.samples().filter(|_| dtype == DType::I64) {
        return Ok(numbers.to_vec());
    }
    let message = format!("{what} have dtype {dtype}; give an array of int64");
    Err(PackageError::new("ImportRefusedError", "block_sizes", message).into())
}

fn finished() -> Error {
    let message = "this import is finished; begin another with store.ingest()".to_owned();
    PackageError::new("ImportRefusedError", "finished", message).into()
}

#[pymethods]
impl Ingest {
    /// Check whether a source was imported completely and is unchanged.
    ///
    /// Parameters:
    ///     source: its name in the provenance, such as its absolute path.
    ///     size: its size in bytes.
    ///     mtime_ns: its modification time in ns since 1970.
    ///
    /// Returns:
    ///     True if nothing of it needs to be imported again.
    ///
    /// Raises:
    ///     isochrony.ImportRefusedError: the import is finished (`finished`).
    fn known(&self, py: Python<'_>, source: &str, size: u64, mtime_ns: i64) -> Result<bool> {
        self.with(py, |session| session.known(source, size, Some(mtime_ns)))
    }

    /// Adds consecutive samples of one signal, created if missing. Blocks of a signal come in time order; a
    /// late block fills the gap it belongs to, else starts a new run.
    ///
    /// Parameters:
    ///     signal: its name.
    ///     samples: 1-D array of a supported dtype, at least one; copied.
    ///     rate: nominal rate in Hz, as for `Store.create`.
    ///     start: time of the first sample, as whole ns since 1970 and a fraction in 2**-32 ns; None: they follow the
    ///         last ones.
    ///     resolution: width of the stamp's last digit, likewise; None: the stamp is exact.
    ///     unit: unit of the values.
    ///     scale: units per count.
    ///     offset: value of zero counts, in the unit.
    ///     source: its name in the provenance.
    ///     attrs: attributes of a new signal.
    ///     leap: the source reports a leap second since the signal's last stamp: repeating time is then no backward
    ///         step.
    ///
    /// Raises:
    ///     isochrony.IsochronyError: the block does not fit the signal, or the store cannot be written.
    #[pyo3(signature = (signal, samples, *, rate, start=None, resolution=None, unit=None, scale=1.0, offset=0.0,
                        source="", attrs=None, leap=false))]
    #[allow(clippy::too_many_arguments)]
    fn block(
        &self,
        py: Python<'_>,
        signal: &str,
        samples: &Bound<'_, PyAny>,
        rate: RateArg,
        start: Option<(i128, u32)>,
        resolution: Option<(i128, u32)>,
        unit: Option<&str>,
        scale: f64,
        offset: f64,
        source: &str,
        attrs: Option<&Bound<'_, PyAny>>,
        leap: bool,
    ) -> Result<()> {
        let (buffer, dtype) = memory::adopt(samples, false)?;
        let spec = spec(signal, dtype, rate, unit, (scale, offset), attrs)?;
        let stamp = match start {
            Some((ns, frac)) => {
                let (whole, part) = resolution.unwrap_or_default();
                let resolution = fixed(whole, part)?;
                let stamp = Stamp::new(fixed(ns, frac)?, resolution);
                Some(Stamp { leap, ..stamp })
            }
            None => None,
        };
        self.with(py, |session| {
            session.block(&Block {
                signal,
                spec: &spec,
                bytes: buffer.bytes(),
                stamp,
                source,
            })
        })
    }

    /// Adds consecutive stamped blocks of one signal, like `block` for each.
    ///
    /// Parameters:
    ///     signal, rate, unit, scale, offset, source, attrs: as for `block`.
    ///     samples: those of all blocks in order.
    ///     counts: int64 array, number of samples of each block.
    ///     starts: int64 array, time of each block's first sample, ns since 1970.
    ///     resolution_ns: width of the stamps' last digit.
    ///     leap: as for `block`, of the first block.
    ///
    /// Raises:
    ///     isochrony.IsochronyError: a block does not fit the signal, or the store cannot be written; earlier blocks
    ///         are stored. Counts and starts do not fit the samples.
    #[pyo3(signature = (signal, samples, counts, starts, *, rate, resolution_ns, unit=None, scale=1.0, offset=0.0,
                        source="", attrs=None, leap=false))]
    #[allow(clippy::too_many_arguments)]
    fn blocks(
        &self,
        py: Python<'_>,
        signal: &str,
        samples: &Bound<'_, PyAny>,
        counts: &Bound<'_, PyAny>,
        starts: &Bound<'_, PyAny>,
        rate: RateArg,
        resolution_ns: i64,
        unit: Option<&str>,
        scale: f64,
        offset: f64,
        source: &str,
        attrs: Option<&Bound<'_, PyAny>>,
        leap: bool,
    ) -> Result<()> {
        let (buffer, dtype) = memory::adopt(samples, false)?;
        let spec = spec(signal, dtype, rate, unit, (scale, offset), attrs)?;
        let (counts, starts) = (
            whole_numbers("counts", counts)?,
            whole_numbers("starts", starts)?,
        );
        if counts.len() != starts.len() {
            let message = format!(
                "there are {} counts and {} starts; give both for each block",
                counts.len(),
                starts.len()
            );
            return Err(PackageError::new("ImportRefusedError", "block_sizes", message).into());
        }
        let resolution = Fixed::from_int(resolution_ns);
        let stamp = |start: i64, leap| Stamp {
            leap,
            ..Stamp::new(Fixed::from_int(start), resolution)
        };
        let pairs = counts.into_iter().zip(starts).enumerate();
        let recordings: Vec<(i64, Stamp)> = pairs
            .map(|(place, (count, start))| (count, stamp(start, leap && place == 0)))
            .collect();
        self.with(py, |session| {
            session.blocks(&StampedBlocks {
                signal,
                spec: &spec,
                bytes: buffer.bytes(),
                recordings: &recordings,
                source,
            })
        })
    }

    /// Reports that a source is complete and may be committed; `known` includes it from now on.
    fn done(&self, py: Python<'_>, source: &str, size: u64, mtime_ns: i64) -> Result<()> {
        self.with(py, |session| session.done(source, size, Some(mtime_ns)))
    }

    /// Reports in the summary that a source cannot be imported.
    fn reject(&self, py: Python<'_>, source: &str, reason: &str) -> Result<()> {
        let problem = Problem {
            path: source.to_owned(),
            code: "rejected",
            reason: reason.to_owned(),
        };
        self.with(py, |session| {
            session.reject_as(problem);
            Ok(())
        })
    }

    /// Reports in the summary a part of a finished source that was not imported.
    fn report(&self, py: Python<'_>, source: &str, reason: &str) -> Result<()> {
        let problem = Problem {
            path: source.to_owned(),
            code: Problem::INCOMPLETE,
            reason: reason.to_owned(),
        };
        self.with(py, |session| {
            session.reject_as(problem);
            Ok(())
        })
    }

    /// Commits all finished sources, with a last block that waited for its successor's stamp.
    fn commit(&self, py: Python<'_>) -> Result<()> {
        self.with(py, Session::commit)
    }

    /// Commits and ends the import.
    ///
    /// Returns:
    ///     The summary: a dict with "signals" (each with name, samples, added, gaps, runs, rate, rate_uncertainty,
    ///     nominal_rate, unit, start, end), "files", "skipped", "duplicates", "bytes", "seconds", "cancelled",
    ///     "problems" (path and reason) and "kept" (for each problem, whether samples of that file are stored
    ///     nevertheless).
    fn finish<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let summary = crate::interpreter::detach(py, || -> Result<Summary> {
            let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(session.take().ok_or_else(finished)?.finish()?)
        })?;
        Ok(describe(py, &summary)?)
    }
}

pub(crate) fn describe<'py>(py: Python<'py>, summary: &Summary) -> PyResult<Bound<'py, PyDict>> {
    let signals = PyList::empty(py);
    for one in &summary.signals {
        let text = |time: Fixed| isochrony_time::civil::format(time);
        let entry = PyDict::new(py);
        entry.set_item("name", &one.name)?;
        entry.set_item("samples", one.samples)?;
        entry.set_item("added", one.added)?;
        entry.set_item("gaps", one.gaps)?;
        entry.set_item("runs", one.runs)?;
        entry.set_item("rate", one.rate.map(|rate| rate.hz))?;
        entry.set_item(
            "rate_uncertainty",
            one.rate.map(|rate| rate.hz * rate.uncertainty_ppm * 1e-6),
        )?;
        entry.set_item("nominal_rate", one.nominal_rate.to_f64())?;
        entry.set_item("unit", &one.unit)?;
        entry.set_item("start", one.time_span.map(|(start, _)| text(start)))?;
        entry.set_item("end", one.time_span.map(|(_, end)| text(end)))?;
        signals.append(entry)?;
    }
    let problems = PyList::empty(py);
    let kept = PyList::empty(py);
    for problem in &summary.problems.list {
        kept.append(problem.is_kept())?;
        // Options are fields in Rust and keywords in Python.
        let reason = problem.reason.replace("partial = true", "partial=True");
        problems.append((&problem.path, reason))?;
    }
    if summary.problems.omitted > 0 {
        kept.append(false)?;
        problems.append((
            "",
            format!("{} more files were not imported", summary.problems.omitted),
        ))?;
    }
    let out = PyDict::new(py);
    out.set_item("signals", signals)?;
    out.set_item("files", summary.files)?;
    out.set_item("skipped", summary.skipped)?;
    out.set_item("duplicates", summary.duplicates)?;
    out.set_item("bytes", summary.bytes)?;
    out.set_item("seconds", summary.elapsed_s)?;
    out.set_item("cancelled", summary.cancelled)?;
    out.set_item("problems", problems)?;
    out.set_item("kept", kept)?;
    Ok(out)
}

pub(crate) fn session_options(
    gap_slip: Option<&Bound<'_, PyAny>>,
    alpha: Option<f64>,
    initial_rate: Option<RateArg>,
    max_gap: Option<&Bound<'_, PyAny>>,
    value_jump: Option<f64>,
) -> Result<SessionOptions> {
    Ok(SessionOptions {
        gap_slip_ns: gap_slip.map(whole_ns).transpose()?,
        alpha,
        initial_rate: initial_rate.map(|rate| rate.0),
        max_gap_ns: max_gap.map(whole_ns).transpose()?,
        value_jump,
        ..SessionOptions::default()
    })
}

#[pymethods]
impl Store {
    /// Begins an import by an importer of your own; see `Ingest`.
    ///
    /// Parameters:
    ///     gap_slip: seconds a stamp may be off before it is a gap or a clock step; None: from the stamps.
    ///     alpha: weight of the past in the rate estimate, above 0 and at most 1.
    ///     initial_rate: Hz, as for `Store.create`: a better estimate of the true rate than the nominal one, for gaps
    ///         before the stamps have determined it; None: nominal.
    ///     max_gap: seconds; a longer gap keeps its duration, but takes few indices instead of one per missing sample;
    ///         None: 30 days.
    ///     value_jump: a larger difference, in the signal's unit, between adjacent blocks gives an event.
    ///
    /// Returns:
    ///     An `Ingest`, which takes blocks of samples and commits them.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> session = store.ingest()
    /// >>> session.block("p", np.zeros(100, "i2"), rate=100, start=(1_267_401_600_000_000_000, 0), source="p.dat")
    /// >>> session.done("p.dat", 200, 0)
    /// >>> session.finish()["signals"][0]["samples"]
    /// 100
    #[pyo3(signature = (*, gap_slip=None, alpha=None, initial_rate=None, max_gap=None, value_jump=None))]
    fn ingest(
        &self,
        gap_slip: Option<&Bound<'_, PyAny>>,
        alpha: Option<f64>,
        initial_rate: Option<RateArg>,
        max_gap: Option<&Bound<'_, PyAny>>,
        value_jump: Option<f64>,
    ) -> Result<Ingest> {
        let options = session_options(gap_slip, alpha, initial_rate, max_gap, value_jump)?;
        let session = Session::new(&self.shared.store, options)?;
        Ok(Ingest {
            session: Mutex::new(Some(session)),
        })
    }
}
