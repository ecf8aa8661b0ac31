//! Importing: the session that importers written in Python feed, and raw recordings.

use std::sync::{Mutex, PoisonError};

use isochrony_ingest::{Block, Problem, Session, SessionOptions, Spec, Summary};
use isochrony_time::{Fixed, Stamp};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Error, PackageError, Result};
use crate::memory;
use crate::signal::options::whole_ns;
use crate::store::Store;
use crate::time::{RateArg, fixed};

/// What the paths of a folder of recordings mean.
///
/// Parameters:
///     template: path below the folder with fields in braces, such as
///         `{station}/{year}/{day}/{sensor}/{station}_{epoch}.raw`; the fields other than time, joined by `/`, name
///         the signal.
///
/// Raises:
///     isochrony.ImportRefusedError: not a template; the message names the field at fault.
///
/// >>> from isochrony._native import Layout
/// >>> Layout("{station}/p_{epoch}.raw").match("stn_10/p_1267401600.raw")
/// ('stn_10', (1267401600000000000, 1000000000))
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Layout {
    layout: isochrony_ingest::Layout,
}

#[pymethods]
impl Layout {
    #[new]
    #[pyo3(signature = (template, /))]
    fn new(template: &str) -> Result<Self> {
        let layout = template.parse()?;
        Ok(Self { layout })
    }

    /// Reads the path of a file below the folder, with `/` between components.
    ///
    /// Returns:
    ///     Signal name (empty if the template has no name fields), and the time of the first sample with its resolution,
    ///     both in ns, as a pair; None in place of the pair where the template tells no time.
    ///
    /// Raises:
    ///     isochrony.ImportRefusedError: the path does not fit the template; the message says where.
    #[pyo3(name = "match")]
    fn read(&self, path: &str) -> Result<(String, Option<(i64, i64)>)> {
        let found = self.layout.read(path)?;
        let stamp = found.stamp.map(|stamp| (stamp.ns, stamp.resolution_ns));
        Ok((found.signal, stamp))
    }

    fn __repr__(&self) -> String {
        format!("Layout({:?})", self.layout.to_string())
    }
}

/// An import into a store: takes in blocks of samples from any importer, places them by their stamps, recognises what is
/// known, duplicate or late, keeps provenance, and commits. Made by `Store.ingest`.
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

fn finished() -> Error {
    let message = "this import is finished; begin another with store.ingest()".to_owned();
    PackageError::new("ImportRefusedError", "finished", message).into()
}

#[pymethods]
impl Ingest {
    /// Whether a source was imported whole before and is unchanged, so that it can be skipped.
    ///
    /// Parameters:
    ///     source: how provenance names it, such as its absolute path.
    ///     size: bytes.
    ///     mtime_ns: time of its last change, ns since 1970.
    fn known(&self, py: Python<'_>, source: &str, size: u64, mtime_ns: i64) -> Result<bool> {
        self.with(py, |session| session.known(source, size, Some(mtime_ns)))
    }

    /// Takes in consecutive samples of one signal, which is created if it does not exist. Blocks of a signal come in
    /// order of time; late ones fill their gap or become a run.
    ///
    /// Parameters:
    ///     signal: its name.
    ///     samples: 1-D array of a dtype that signals can have, at least one; not kept.
    ///     rate: nominal rate in Hz, as for `Store.create`.
    ///     start: when the first was taken, as whole ns since 1970 and a fraction in 2**-32 ns; None: they follow on.
    ///     resolution: width of the stamp's last digit, likewise; None: the stamp is exact.
    ///     unit: of the values.
    ///     scale: units per count.
    ///     offset: value of zero counts, in the unit.
    ///     source: what provenance names.
    ///     attrs: attributes of the signal, set when it is created.
    ///     leap: the source says that a leap second came since the signal's last stamp: time that repeats is then no
    ///         backward step.
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
        let mut spec = Spec::new(dtype, rate.0);
        spec.unit = unit.unwrap_or_default().to_owned();
        if (scale, offset) != (1.0, 0.0) {
            spec.calibration = Some((scale, offset));
        }
        if let Some(attrs) = attrs {
            spec.attributes = crate::json::object(signal, attrs)?;
        }
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

    /// Says that all blocks of a source are in, which is when they may be committed; `known` tells it from then on.
    fn done(&self, py: Python<'_>, source: &str, size: u64, mtime_ns: i64) -> Result<()> {
        self.with(py, |session| session.done(source, size, Some(mtime_ns)))
    }

    /// Says that a source cannot be imported; the summary reports it.
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

    /// Says what of a source that is done was not imported, although the rest was; the summary reports it.
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

    /// Commits all sources that are done, also a last block that waited for its successor's stamp.
    fn commit(&self, py: Python<'_>) -> Result<()> {
        self.with(py, Session::commit)
    }

    /// Commits what is pending, and ends the import.
    ///
    /// Returns:
    ///     The summary: a dict with "signals" (each with name, samples, added, gaps, runs, rate, rate_uncertainty,
    ///     nominal_rate, unit, start, end), "files", "skipped", "duplicates", "bytes", "seconds", "cancelled", "problems" (path and reason) and
    ///     "kept" (for each problem, whether samples of that file are in the store all the same).
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
        entry.set_item("start", one.civil.map(|(start, _)| text(start)))?;
        entry.set_item("end", one.civil.map(|(_, end)| text(end)))?;
        signals.append(entry)?;
    }
    let problems = PyList::empty(py);
    let kept = PyList::empty(py);
    for problem in &summary.problems.list {
        kept.append(problem.is_kept())?;
        // Rust's options are fields; Python's are keywords.
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
    out.set_item("skipped", summary.known)?;
    out.set_item("duplicates", summary.duplicates)?;
    out.set_item("bytes", summary.bytes)?;
    out.set_item("seconds", summary.seconds)?;
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
    /// Begins an import by any importer; see `Ingest`.
    ///
    /// Parameters:
    ///     gap_slip: seconds that a stamp may be off before it is a gap or a clock step; None: from the stamps.
    ///     alpha: weight of the past in the running estimate of the rate, above 0 and at most 1.
    ///     initial_rate: Hz, as for `Store.create`: a better guess of the true rate than the nominal one, for gaps that come
    ///         before the stamps have told it; None: nominal.
    ///     max_gap: seconds; a longer gap keeps its duration, but takes few indices instead of one per missing sample;
    ///         None: 30 days.
    ///     value_jump: a larger difference, in the signal's unit, between blocks that follow on becomes an event.
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
