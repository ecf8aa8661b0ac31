//! `isochrony.View`, sealing, sizes, verification.

use std::path::PathBuf;

use isochrony_store::views::SignalView;
use isochrony_store::{Finding, VerifyOptions};
use isochrony_time::Fixed;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{PackageError, Result};
use crate::integer::IntegerArg;
use crate::interrupt::{bytes_to_wait_for, interruptible};
use crate::path_argument::store_path;
use crate::signal::Signal;
use crate::signal::key::resolve_key;
use crate::time::option;

/// Plot data of a signal's range: exact statistics of consecutive columns of samples `start..end`, as 1-D arrays with
/// one entry per column; values are in the signal's unit.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, unit="kPa", start="2026-01-01")
/// >>> _ = signal.append(np.arange(1000, dtype="i2"))
/// >>> view = signal.view(pixels=4)
/// >>> view.max
/// array([249., 499., 749., 999.])
#[pyclass(frozen, module = "isochrony", get_all)]
pub(crate) struct View {
    /// First index of each column, int64.
    start: Py<PyAny>,
    /// End index of each column, int64.
    end: Py<PyAny>,
    /// Civil time of each column's start, whole ns since 1970, int64; without civil time, counted from index 0 at the
    /// nominal rate.
    time_ns: Py<PyAny>,
    /// Civil time of each column's end, likewise.
    end_ns: Py<PyAny>,
    /// Least finite value, float64; NaN without any.
    min: Py<PyAny>,
    /// Greatest finite value, likewise.
    max: Py<PyAny>,
    /// Mean of the finite values, likewise.
    mean: Py<PyAny>,
    /// Population standard deviation of the finite values, likewise.
    std: Py<PyAny>,
    /// Number of finite samples, uint64.
    count: Py<PyAny>,
    /// Fraction of indices in gaps, 0 to 1, float64.
    gap_fraction: Py<PyAny>,
    /// Run id of each column, uint32.
    run: Py<PyAny>,
    /// Unit of the values; empty if unknown.
    ///
    /// >>> view.unit
    /// 'kPa'
    unit: String,
    /// Samples per stored bucket used; 1 if all came from samples.
    ///
    /// >>> view.bucket
    /// 1
    bucket: i64,
}

#[pymethods]
impl View {
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.start.bind(py).len()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<View of {} columns>", self.__len__(py)?))
    }
}

#[pymethods]
impl Signal {
    /// Minimum, maximum, mean and deviation of a range in about `pixels` columns, at a cost independent of its length.
    /// Gaps are never filled: see `gap_fraction`.
    ///
    /// Parameters:
    ///     key: slice, span, run or selection; None: all.
    ///     pixels: columns, 1 to 1,000,000; the result may have a few more or fewer.
    ///
    /// Returns:
    ///     A `View`: arrays of shape (columns,) in the unit: `min`, `max`, `mean`, `std`, with `start` and `end`
    ///     indices, `time_ns` and `gap_fraction`. Edges: NaN in columns without samples.
    ///
    /// Raises:
    ///     isochrony.StoreError: `pixels` out of range; complex samples whose calibration has an offset.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> view = signal.view(pixels=4)
    /// >>> view.start, view.max
    /// (array([  0, 250, 500, 750]), array([249., 499., 749., 999.]))
    #[pyo3(signature = (key=None, *, pixels=IntegerArg(2000)), text_signature = "($self, key=None, *, pixels=2000)")]
    fn view(
        &self,
        py: Python<'_>,
        key: Option<&Bound<'_, PyAny>>,
        pixels: IntegerArg<i64>,
    ) -> Result<View> {
        let Ok(pixels) = usize::try_from(pixels.0) else {
            return Err(option("pixels", &pixels.0.to_string(), "1 to 1000000").into());
        };
        let signal = self.get(py)?;
        let asked = resolve_key(&signal, key)?;
        let view = {
            let wait = bytes_to_wait_for(signal.is_remote(), 0);
            interruptible(py, wait, || Ok(signal.view(asked.span(), pixels)?))?
        };
        describe(py, &signal, view)
    }

    /// Compresses the samples: the rewritten array replaces the old one atomically. Any Zarr reader can read it; to
    /// append, `unseal` first.
    ///
    /// Parameters:
    ///     codec: "zstd", "zstd:LEVEL", "blosc", "blosc:COMPRESSOR" or "blosc:COMPRESSOR:LEVEL".
    ///
    /// Returns:
    ///     A pair of ints: bytes of the raw samples, and bytes stored now.
    ///
    /// Raises:
    ///     isochrony.StoreError: no such codec (also ValueError), a store open for reading (PermissionError), a full
    ///         disk (OSError); the signal is then unchanged.
    ///     KeyboardInterrupt: Ctrl-C is checked between shards of at most 64 MiB of samples. The signal is then
    ///         unchanged, or sealed if that was complete; see `codec`. Pending changes are committed in any case.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(100_000, "i2"))
    /// >>> raw, stored = signal.seal("zstd:3")
    /// >>> signal.codec, raw, stored < raw / 10
    /// ('zstd', 200000, True)
    #[pyo3(signature = (codec="zstd"))]
    fn seal(&self, py: Python<'_>, codec: &str) -> Result<(u64, u64)> {
        let codec = codec.parse()?;
        let name = self.get(py)?.name().to_owned();
        let store = &self.follower.shared.store;
        let sealed = interruptible(py, u64::MAX, || Ok(store.seal(&name, codec)?))?;
        Ok((sealed.raw_bytes, sealed.stored_bytes))
    }

    /// Decompresses a sealed signal, so that it can grow again.
    ///
    /// Raises:
    ///     isochrony.StoreError: a store open for reading (also PermissionError), or a full disk (OSError).
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> _ = signal.seal()
    /// >>> signal.unseal()
    /// >>> signal.codec, signal.append(np.zeros(10, "i2")).index
    /// ('', 1000)
    fn unseal(&self, py: Python<'_>) -> Result<()> {
        let name = self.get(py)?.name().to_owned();
        let store = &self.follower.shared.store;
        interruptible(py, u64::MAX, || Ok(store.unseal(&name)?))?;
        Ok(())
    }

    /// Sizes of the samples in memory and on disk.
    ///
    /// Returns:
    ///     A dict: "samples", bytes of the raw samples; "stored", bytes on disk; "codec", as `codec`, but "raw" if the
    ///     signal is not sealed.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> signal.sizes()["samples"], signal.sizes()["codec"]
    /// (2000, 'raw')
    fn sizes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let name = self.get(py)?.name().to_owned();
        // A name may contain wildcards; then list all.
        let pattern = (!name.contains(['*', '?', '['])).then_some(name.as_str());
        let wait = bytes_to_wait_for(self.follower.shared.store.is_remote(), 0);
        let info = || Ok(self.follower.shared.store.info(pattern)?);
        let info = interruptible(py, wait, info)?;
        let Some(info) = info.signals.into_iter().find(|info| info.name == name) else {
            return Err(isochrony_store::StoreError::SignalRemoved { name }.into());
        };
        let sizes = PyDict::new(py);
        sizes.set_item("samples", info.raw_bytes)?;
        sizes.set_item("stored", info.data.allocated)?;
        sizes.set_item(
            "codec",
            if info.codec.is_empty() {
                "raw"
            } else {
                &info.codec
            },
        )?;
        Ok(sizes)
    }
}

fn describe(py: Python<'_>, signal: &isochrony_store::Signal, view: SignalView) -> Result<View> {
    let Some(values) = view.physical(signal.dtype()) else {
        let message = format!(
            "view of {:?} is refused: magnitudes of complex samples with an offset do not follow from stored ones; \
             read the samples instead",
            signal.name()
        );
        return Err(PackageError::new("StoreValueError", "complex_offset", message).into());
    };
    let columns = view.columns;
    let (time_ns, end_ns) = match &view.civil {
        Some(civil) => (whole(&civil.start), whole(&civil.end)),
        None => {
            let nominal = |indices: &[i64]| -> Result<Vec<i64>> {
                let times = indices
                    .iter()
                    .map(|index| Ok(signal.rate().duration_ns(*index)?));
                Ok(whole(&times.collect::<Result<Vec<_>>>()?))
            };
            (nominal(&columns.start)?, nominal(&columns.end)?)
        }
    };
    Ok(View {
        start: array(py, columns.start),
        end: array(py, columns.end),
        time_ns: array(py, time_ns),
        end_ns: array(py, end_ns),
        min: array(py, values.min),
        max: array(py, values.max),
        mean: array(py, values.mean),
        std: array(py, values.std),
        count: array(py, columns.count),
        gap_fraction: array(py, columns.gap_fraction),
        run: array(py, view.run),
        unit: signal.unit().to_owned(),
        bucket: columns.bucket,
    })
}

fn whole(times: &[isochrony_time::Fixed]) -> Vec<i64> {
    // The dtype ranges from 1677 to 2262.
    let clamp = |ns: i128| ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
    times.iter().map(|time| clamp(time.floor())).collect()
}

fn array<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Py<PyAny> {
    PyArray1::from_vec(py, values).into_any().unbind()
}

/// Checks a store for damage: checksums, tables, files, metadata, views.
///
/// Parameters:
///     path: the store's folder; it need not open.
///     signal: pattern of the signals to check; None: all.
///     repair: repair what can be. Lost samples become a gap with an event "samples_lost".
///     deep: compare checksums of all samples; False checks files and tables only.
///
/// Returns:
///     A dict: number of "signals" checked, "bytes" of samples compared with a checksum, number of "unchecked" samples
///     without a checksum (not closed or checkpointed since they were appended; 0 unless `deep`), and "damage": for
///     each its "code", "path", "signal", "range" of indices with its civil "start" and "end" (None where unknown),
///     "what" is wrong, how to "mend" it, and whether it was "repaired". "lost": what a repair could not restore, with
///     "signal", "range", "samples", "start", "end", "reason". "verdict": "sound", "damaged", "repaired" (all of it,
///     and nothing lost) or "lost".
///
/// Raises:
///     isochrony.StoreError: no store there, or it cannot be written for the repair.
///     KeyboardInterrupt: within a tenth of a second of Ctrl-C, except for a repair, which runs to its end.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> with iso.open(tempfile.mkdtemp() + "/water.iso", "x") as store:
/// ...     _ = store.create("p", dtype="i2", rate=100).append(np.zeros(5000, "i2"))
/// >>> found = iso.verify(store.path)
/// >>> found["verdict"], found["signals"], found["damage"]
/// ('sound', 1, [])
#[pyfunction]
#[pyo3(signature = (path, *, signal=None, repair=false, deep=true))]
pub(crate) fn verify<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    signal: Option<String>,
    repair: bool,
    deep: bool,
) -> Result<Bound<'py, PyDict>> {
    let path = store_path("verify", path)?;
    let options = VerifyOptions {
        signals: signal,
        deep,
    };
    let (before, after) = if repair {
        // A repair is not interrupted.
        crate::interpreter::detach(py, || -> Result<_> {
            let (before, after) = isochrony_store::repair(&path, &options)?;
            Ok((before, Some(after)))
        })?
    } else {
        let verify = || Ok((isochrony_store::verify(&path, &options)?, None));
        interruptible(py, u64::MAX, verify)?
    };
    let damage = PyList::empty(py);
    let mut left_any = false;
    let last = after.as_ref().unwrap_or(&before);
    let same =
        |a: &Finding, b: &Finding| (a.code, &a.path, &a.range) == (b.code, &b.path, &b.range);
    // Damage that the repair caused or found, as on a full disk, remains.
    let new = last.findings.iter();
    let new = new.filter(|one| !before.findings.iter().any(|finding| same(one, finding)));
    for finding in before.findings.iter().chain(new) {
        let left = last.findings.iter().any(|one| same(one, finding));
        left_any |= left;
        let entry = PyDict::new(py);
        entry.set_item("code", finding.code)?;
        entry.set_item("path", finding.path.to_string_lossy())?;
        entry.set_item("signal", &finding.signal)?;
        entry.set_item("range", pair(finding.range.as_ref()))?;
        set_civil(&entry, finding.civil)?;
        entry.set_item("what", &finding.what)?;
        entry.set_item("mend", &finding.mend)?;
        entry.set_item("repaired", !left)?;
        damage.append(entry)?;
    }
    let lost = PyList::empty(py);
    for loss in &last.lost {
        let entry = PyDict::new(py);
        entry.set_item("signal", &loss.signal)?;
        entry.set_item("range", pair(Some(&loss.range)))?;
        entry.set_item("samples", loss.samples)?;
        set_civil(&entry, loss.civil)?;
        entry.set_item("reason", &loss.reason)?;
        lost.append(entry)?;
    }
    let report = PyDict::new(py);
    report.set_item("signals", before.signals)?;
    report.set_item("bytes", before.bytes)?;
    report.set_item("unchecked", last.unchecked)?;
    let verdict = match (last.lost.is_empty(), left_any, damage.is_empty()) {
        (false, _, _) => "lost",
        (true, true, _) => "damaged",
        (true, false, false) => "repaired",
        (true, false, true) => "sound",
    };
    report.set_item("verdict", verdict)?;
    report.set_item("damage", damage)?;
    report.set_item("lost", lost)?;
    Ok(report)
}

/// Acknowledged commits missing from a store's redo log. A store open for reading shows its signals without them.
///
/// Parameters:
///     path: the store's folder.
///
/// Returns:
///     Signal name and what is wrong, for each; empty while a writer is active.
///
/// Raises:
///     isochrony.StoreError: the store cannot be opened.
#[pyfunction]
pub(crate) fn lost_commits(py: Python<'_>, path: PathBuf) -> Result<Vec<(String, String)>> {
    let found = crate::interpreter::detach(py, || -> Result<_> {
        let store = isochrony_store::Store::open(&path, isochrony_store::Mode::Read)?;
        Ok(store.lost_commits()?)
    })?;
    let named = found.into_iter();
    let text = |finding: Finding| (finding.signal.unwrap_or_default(), finding.what);
    Ok(named.map(text).collect())
}

fn pair(range: Option<&std::ops::Range<i64>>) -> Option<(i64, i64)> {
    range.map(|range| (range.start, range.end))
}

fn set_civil(entry: &Bound<'_, PyDict>, civil: Option<(Fixed, Fixed)>) -> Result<()> {
    let text = |time: Fixed| isochrony_time::civil::format(time);
    entry.set_item("start", civil.map(|(start, _)| text(start)))?;
    entry.set_item("end", civil.map(|(_, end)| text(end)))?;
    Ok(())
}
