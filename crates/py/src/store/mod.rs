//! `isochrony.Store`; [`crate::store::opening`] opens one.

pub(crate) mod attrs;
pub(crate) mod backup;
mod commits;
pub(crate) mod gather;
pub(crate) mod handle;
pub(crate) mod ingest;
pub(crate) mod layout;
pub(crate) mod machine;
pub(crate) mod opening;
pub(crate) mod pickling;
pub(crate) mod raw;
pub(crate) mod saved_plans;
mod snapshot_cache;
pub(crate) mod uncommitted;

use std::sync::Arc;

use isochrony_store::{Mode, Store as RustStore};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::errors::Result;
use crate::interrupt::{bytes_to_wait_for, interruptible};
use crate::signal::Signal;
use crate::signal::options::SignalOptions;
use crate::store::handle::OpenStore;
use crate::time::{RateArg, TimeArg};

/// A folder of signals, open for reading or writing; made by `isochrony.open`.
///
/// A mapping from names to signals, sorted by name. `store[name]` also finds saved plans; `in`, `get`, `keys` and
/// iteration know signals only. As a context manager it commits and closes; after an exception it closes without a
/// commit. If it is dropped, or open at exit, uncommitted changes are lost, with an `isochrony.UncommittedWarning`. One
/// process writes; any number of readers follow by `refresh()`.
///
/// A store that is open for reading can be pickled, also into other processes: there it shows the same signals and ends
/// until `refresh()`. A store open for writing is refused.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> path = tempfile.mkdtemp() + "/water.iso"
/// >>> with iso.open(path, "x") as store:
/// ...     signal = store.create("stn_10/pressure", dtype="i2", rate=2000, unit="kPa", scale=0.5)
/// ...     _ = signal.append(np.arange(6000, dtype="i2"))
/// >>> store = iso.open(path)
/// >>> list(store), store["stn_10/pressure"][2:4].values()
/// (['stn_10/pressure'], array([1. , 1.5]))
#[pyclass(frozen, mapping, module = "isochrony")]
pub(crate) struct Store {
    pub(crate) shared: Arc<OpenStore>,
}

impl Store {
    fn signal(&self, py: Python<'_>, name: &str) -> Result<Signal> {
        let wait = bytes_to_wait_for(self.shared.store.is_remote(), 0);
        interruptible(py, wait, || {
            Signal::new(&self.shared, self.shared.store.signal(name)?)
        })
    }
}

#[pymethods]
impl Store {
    /// The folder, a `Path`; the URL of a remote store, a str, which a `Path` would change.
    ///
    /// >>> store.path.name
    /// 'water.iso'
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let path = self.shared.store.path();
        match RustStore::is_url(path) {
            true => Ok(path.to_string_lossy().into_pyobject(py)?.into_any()),
            false => path.to_owned().into_bound_py_any(py),
        }
    }

    /// Mode in which the store is open: "r", "r+", "a" or "x".
    ///
    /// >>> store.mode
    /// 'r'
    #[getter]
    fn mode(&self) -> &'static str {
        match self.shared.store.mode() {
            Mode::Read => "r",
            Mode::ReadWrite => "r+",
            Mode::Append => "a",
            Mode::Create => "x",
        }
    }

    /// Whether `close` was called.
    ///
    /// >>> store.closed
    /// False
    #[getter]
    fn closed(&self) -> bool {
        self.shared.store.is_closed()
    }

    /// Number of the last commit seen.
    ///
    /// >>> store.sequence
    /// 1
    #[getter]
    fn sequence(&self) -> Result<u64> {
        Ok(self.shared.store.sequence()?)
    }

    /// UUID of the store, as text; copies of the store keep it.
    ///
    /// >>> len(store.uuid)
    /// 36
    #[getter]
    fn uuid(&self) -> Result<String> {
        Ok(self.shared.store.uuid()?)
    }

    /// Whether only the last checkpoint is visible: the writer crashed before a reboot, and this process may not repair
    /// the store.
    ///
    /// >>> store.is_stale
    /// False
    #[getter]
    fn is_stale(&self) -> bool {
        self.shared.store.is_stale()
    }

    /// Names of all signals, or of those that match a pattern. Opens no signal.
    ///
    /// Parameters:
    ///     pattern: as in `find`; None: all.
    ///
    /// Returns:
    ///     A list of str, sorted.
    ///
    /// Raises:
    ///     isochrony.StoreError: an invalid pattern.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> for name in ("north/p", "north/q", "south/p"):
    /// ...     _ = store.create(name, dtype="i2", rate=100)
    /// >>> store.keys("north/*")
    /// ['north/p', 'north/q']
    #[pyo3(signature = (pattern=None))]
    fn keys(&self, pattern: Option<&str>) -> Result<Vec<String>> {
        Ok(match pattern {
            Some(pattern) => self.shared.store.find(pattern)?,
            None => self.shared.store.names()?,
        })
    }

    /// All signals.
    ///
    /// Returns:
    ///     A list of `Signal`, sorted by name.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> for name in ("north/p", "north/q", "south/p"):
    /// ...     _ = store.create(name, dtype="i2", rate=100)
    /// >>> [signal.name for signal in store.values()]
    /// ['north/p', 'north/q', 'south/p']
    fn values(&self, py: Python<'_>) -> Result<Vec<Signal>> {
        let names = self.keys(None)?;
        names.iter().map(|name| self.signal(py, name)).collect()
    }

    /// Pairs of name and signal.
    ///
    /// Returns:
    ///     A list of pairs of a str and a `Signal`, sorted by name.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> for name in ("north/p", "north/q", "south/p"):
    /// ...     _ = store.create(name, dtype="i2", rate=100)
    /// >>> [(name, signal.dtype.name) for name, signal in store.items()]
    /// [('north/p', 'int16'), ('north/q', 'int16'), ('south/p', 'int16')]
    fn items(&self, py: Python<'_>) -> Result<Vec<(String, Signal)>> {
        let names = self.keys(None)?.into_iter();
        names
            .map(|name| {
                let signal = self.signal(py, &name)?;
                Ok((name, signal))
            })
            .collect()
    }

    /// The signal of a name, without an error if there is none.
    ///
    /// Parameters:
    ///     name: name of the signal.
    ///     default: what is returned if there is no such signal.
    ///
    /// Returns:
    ///     A `Signal`, or `default`.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100)
    /// >>> store.get("p").name, store.get("q")
    /// ('p', None)
    #[pyo3(signature = (name, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        default: Option<Bound<'py, PyAny>>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        if !self.shared.store.contains(name)? {
            return Ok(default);
        }
        Ok(Some(Bound::new(py, self.signal(py, name)?)?.into_any()))
    }

    /// Signals whose names match a pattern. If nothing matches and the store has signals, an `isochrony.NoMatchWarning`
    /// suggests a pattern.
    ///
    /// Parameters:
    ///     pattern: `*`, `?` and `[a-z]` match within a component of the name, `**` any number of components: "**"
    ///         matches all names, "*" those without `/`.
    ///
    /// Returns:
    ///     A list of `Signal`, by name; empty if nothing matches.
    ///
    /// Raises:
    ///     isochrony.StoreError: an invalid pattern.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> for name in ("north/p", "north/q", "south/p"):
    /// ...     _ = store.create(name, dtype="i2", rate=100)
    /// >>> [signal.name for signal in store.find("*/p")]
    /// ['north/p', 'south/p']
    fn find(slf: &Bound<'_, Self>, pattern: &str) -> Result<Vec<Signal>> {
        let (py, this) = (slf.py(), slf.get());
        let names = this.shared.store.find(pattern)?;
        if names.is_empty() && !this.shared.store.names()?.is_empty() {
            py.import("isochrony.store.hints")?
                .call_method1("warn_of_no_match", (slf, pattern))?;
        }
        names.iter().map(|name| this.signal(py, name)).collect()
    }

    fn __getitem__<'py>(slf: &Bound<'py, Self>, name: &str) -> Result<Bound<'py, PyAny>> {
        let py = slf.py();
        match slf.get().signal(py, name) {
            Ok(signal) => Ok(Bound::new(py, signal)?.into_any()),
            // A saved plan, or the signal's error, which suggests the nearest name.
            Err(error) => {
                let plans = saved_plans(slf);
                match plans {
                    Ok(plans) if !slf.get().shared.store.is_closed() && plans.contains(name)? => {
                        Ok(plans.get_item(name)?)
                    }
                    _ => Err(error),
                }
            }
        }
    }

    fn __delitem__(&self, name: &str) -> Result<()> {
        self.delete(name)
    }

    fn __contains__(&self, name: &Bound<'_, PyAny>) -> Result<bool> {
        match name.extract::<String>() {
            Ok(name) => Ok(self.shared.store.contains(&name)?),
            Err(_) => Ok(false),
        }
    }

    fn __len__(&self) -> Result<usize> {
        Ok(self.keys(None)?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(PyList::new(py, self.keys(None)?)?.try_iter()?.into_any())
    }

    /// Creates a signal, durable with the next commit.
    ///
    /// Parameters:
    ///     name: components joined by `/`; a signal cannot contain another.
    ///     dtype: bool, int8 to int64, uint8 to uint32, float32, float64, complex64 or complex128, in NumPy's
    ///         spellings; or "ci16" (complex int16): pairs of int16, read as complex64.
    ///     rate: nominal rate in Hz: a number, a Fraction, text such as "44100000/1001", or (samples, seconds).
    ///     unit: unit of the values.
    ///     start: civil time of the first sample, taken as exact; None: unknown until a stamp is given.
    ///     scale: units per count; None: 1. Without `scale` and `offset`, counts are values.
    ///     offset: value of zero counts, in the unit; None: 0.
    ///     alpha: weight of the past in the rate estimate, above 0 and at most 1.
    ///     gap_slip: largest difference, in seconds, between a stamp and the expected time that still counts as clock
    ///         jitter; a larger one is a gap or a clock step. None: estimated from the stamps.
    ///     max_gap: longest gap, in seconds, that gets an index for each missing sample; a longer one keeps its
    ///         duration, but gets fewer indices. None: 30 days.
    ///     attrs: user attributes, JSON values by text keys.
    ///     overwrite: replace a signal of this name.
    ///
    /// Returns:
    ///     The `Signal`, empty, ready for `append`.
    ///
    /// Raises:
    ///     isochrony.StoreError: the name is taken (also FileExistsError) or refused, an option is outside its range,
    ///         or the store is open for reading (PermissionError). isochrony.SegmentError: a dtype that signals cannot
    ///         have (also TypeError). isochrony.TimeError: `rate` or `start` is none.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("stn_10/pressure", dtype="i2", rate=2000, unit="kPa", scale=0.5, start="2010-03-01")
    /// >>> _ = signal.append(np.array([2, 4, 8], "i2"))
    /// >>> signal.values(), signal.time_of(2)
    /// (array([1., 2., 4.]), Time('2010-03-01T00:00:00.001Z'))
    #[pyo3(signature = (name, *, dtype, rate, unit="", start=None, scale=None, offset=None, alpha=None, gap_slip=None,
                        max_gap=None, attrs=None, overwrite=false))]
    #[allow(clippy::too_many_arguments)] // A Python constructor: all but one by name.
    fn create<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        dtype: Bound<'py, PyAny>,
        rate: RateArg,
        unit: &str,
        start: Option<TimeArg>,
        scale: Option<f64>,
        offset: Option<f64>,
        alpha: Option<f64>,
        gap_slip: Option<Bound<'py, PyAny>>,
        max_gap: Option<Bound<'py, PyAny>>,
        attrs: Option<Bound<'py, PyAny>>,
        overwrite: bool,
    ) -> Result<Signal> {
        let unit = unit.to_owned();
        let new = SignalOptions {
            dtype,
            rate,
            unit,
            start,
            scale,
            offset,
            alpha,
            gap_slip,
            max_gap,
            attrs,
            overwrite,
        };
        let options = new.options(name)?;
        let writer = crate::interpreter::detach(py, || self.shared.store.create(name, &options))?;
        Signal::writing(&self.shared, writer)
    }

    /// A temporary signal for intermediate results: visible only in this process, gone with its last reference. Its
    /// samples may be overwritten in place. Parameters are those of `create`.
    ///
    /// Returns:
    ///     A `Signal` that is in no commit.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> scratch = store.scratch(dtype="f4", rate=100)
    /// >>> _ = scratch.append([1, 2, 4], cast=True)
    /// >>> scratch.write(1, np.array([9], "f4"))
    /// >>> scratch.values(), store.keys()
    /// (array([1., 9., 4.]), [])
    #[pyo3(signature = (*, dtype, rate, unit="", start=None, scale=None, offset=None))]
    #[allow(clippy::too_many_arguments)]
    fn scratch<'py>(
        &self,
        py: Python<'py>,
        dtype: Bound<'py, PyAny>,
        rate: RateArg,
        unit: &str,
        start: Option<TimeArg>,
        scale: Option<f64>,
        offset: Option<f64>,
    ) -> Result<Signal> {
        let unit = unit.to_owned();
        let new = SignalOptions {
            dtype,
            rate,
            unit,
            start,
            scale,
            offset,
            alpha: None,
            gap_slip: None,
            max_gap: None,
            attrs: None,
            overwrite: false,
        };
        let options = new.options("scratch")?;
        let scratch = crate::interpreter::detach(py, || self.shared.store.scratch(&options))?;
        Signal::temporary(&self.shared, scratch)
    }

    /// Renames a signal; existing signal objects follow.
    ///
    /// Parameters:
    ///     name: name of the signal.
    ///     to: its new name, not yet taken.
    ///
    /// Raises:
    ///     isochrony.StoreError: no signal of that name (also KeyError), the new name is taken (FileExistsError), or a
    ///         store open for reading (PermissionError).
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100)
    /// >>> store.rename("p", "north/p")
    /// >>> signal.name
    /// 'north/p'
    fn rename(&self, py: Python<'_>, name: &str, to: &str) -> Result<()> {
        Ok(crate::interpreter::detach(py, || {
            self.shared.store.rename(name, to)
        })?)
    }

    /// Removes a signal and its samples with the next commit; views of its samples stay valid.
    ///
    /// Parameters:
    ///     name: name of the signal.
    ///
    /// Raises:
    ///     isochrony.StoreError: no signal of that name (also KeyError), or a store open for reading (PermissionError).
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100), store.create("q", dtype="i2", rate=100)
    /// >>> store.delete("p")
    /// >>> store.keys()
    /// ['q']
    fn delete(&self, name: &str) -> Result<()> {
        Ok(self.shared.store.remove(name)?)
    }

    /// Closes the store; views of its samples stay valid. Idempotent.
    ///
    /// Parameters:
    ///     commit: commit pending changes first; False discards them.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100)
    /// >>> store.close()
    /// >>> store.closed, iso.open(store.path).keys()
    /// (True, ['p'])
    #[pyo3(signature = (*, commit=true))]
    fn close(&self, py: Python<'_>, commit: bool) -> Result<()> {
        let store = &self.shared.store;
        crate::interpreter::detach(py, || {
            if commit && !store.is_closed() && store.has_pending() {
                // If the commit fails, the store stays open, with its changes.
                store.commit(true)?;
            }
            Ok(store.close()?)
        })
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (kind, _value, _trace))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Bound<'_, PyAny>>,
        _value: Option<Bound<'_, PyAny>>,
        _trace: Option<Bound<'_, PyAny>>,
    ) -> Result<()> {
        self.close(py, kind.is_none())
    }

    /// The signals as an HTML table, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("isochrony.store.notebook")?
            .call_method1("store_html", (slf,))
    }

    fn __repr__(&self) -> String {
        let store = &self.shared.store;
        let path = store.path().display();
        match store.names() {
            Ok(names) => format!(
                "<Store {path} mode={:?}: {} signals>",
                self.mode(),
                names.len()
            ),
            Err(_) => format!("<Store {path} closed>"),
        }
    }
}

pub(crate) fn saved_plans<'py>(store: &Bound<'py, Store>) -> PyResult<Bound<'py, PyAny>> {
    let module = store.py().import("isochrony.plan.saved")?;
    module.getattr("SavedPlans")?.call1((store,))
}
