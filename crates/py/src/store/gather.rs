//! `Store.gather`: channels x time.

use isochrony_store::Method;
use isochrony_time::Fixed;
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::interrupt::interruptible;
use crate::store::Store;
use crate::time::span::Span;
use crate::time::{RateArg, TimeArg, option};

#[pymethods]
impl Store {
    /// An array of channels x time on one grid of civil time: grid point k lies at the span's start plus k / rate. A
    /// channel without a sample there is NaN. No filter is applied: a grid coarser than a signal aliases.
    ///
    /// Parameters:
    ///     pattern: as in `find`, or a list of names.
    ///     span: `isochrony.span(start, end)`, or a pair of times.
    ///     rate: grid points per second.
    ///     method: "nearest" sample, up to half a sample period away, or "linear" between two.
    ///     xarray: return an `xarray.DataArray` with coordinates "channel" and "time".
    ///
    /// Returns:
    ///     float64, shape (channels, points), in each signal's unit; rows in order of names.
    ///
    /// Raises:
    ///     isochrony.StoreError: no match for the pattern, a signal without civil time or with complex samples, or
    ///         insufficient memory.
    ///     KeyboardInterrupt: within a tenth of a second of Ctrl-C.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> for name in ("north", "south"):
    /// ...     signal = store.create(name, dtype="i2", rate=100, start="2026-01-01")
    /// ...     _ = signal.append(np.arange(300, dtype="i2"))
    /// >>> store.gather("**", ("2026-01-01T00:00:02.9", "2026-01-01T00:00:03.1"), rate=20)
    /// array([[290., 295.,  nan,  nan],
    ///        [290., 295.,  nan,  nan]])
    #[pyo3(signature = (pattern, span, *, rate, method="nearest", xarray=false))]
    fn gather<'py>(
        slf: &Bound<'py, Self>,
        pattern: &Bound<'py, PyAny>,
        span: &Bound<'py, PyAny>,
        rate: RateArg,
        method: &str,
        xarray: bool,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, this) = (slf.py(), slf.get());
        let method = match method {
            "nearest" => Method::Nearest,
            "linear" => Method::Linear,
            _ => return Err(option("method", method, "\"nearest\" or \"linear\"").into()),
        };
        let names = match pattern.extract::<String>() {
            Ok(pattern) => this.shared.store.find(&pattern)?,
            Err(_) => pattern.extract()?,
        };
        if names.is_empty() {
            let message = format!("no signal matches {pattern}; list the names with store.keys()");
            return Err(PackageError::new("StoreKeyError", "no_such_signal", message).into());
        }
        let (start, end) = ends(span)?;
        let gather = || {
            Ok(this
                .shared
                .store
                .gather(&names, start..end, rate.0, method)?)
        };
        let points = (end.to_f64() - start.to_f64()) / 1e9 * rate.0.to_f64();
        let bytes = (points * names.len() as f64 * 8.0) as u64;
        let gathered = interruptible(py, bytes, gather)?;
        let (rows, columns) = (gathered.names.len(), gathered.columns);
        let array =
            PyArray1::from_vec(py, gathered.values).call_method1("reshape", ((rows, columns),))?;
        if !xarray {
            return Ok(array);
        }
        let start = crate::time::Time::civil(gathered.start);
        let rate = crate::time::rate_object(py, gathered.rate)?;
        let units: Vec<String> = names
            .iter()
            .map(|name| Ok(this.shared.store.signal(name)?.unit().to_owned()))
            .collect::<Result<_>>()?;
        Ok(py.import("isochrony.store.convert")?.call_method1(
            "gathered_to_xarray",
            (array, gathered.names, units, start, rate),
        )?)
    }
}

fn ends(span: &Bound<'_, PyAny>) -> Result<(Fixed, Fixed)> {
    if let Ok(span) = span.cast::<Span>()
        && let (Some(start), Some(end)) = (span.get().start, span.get().end)
    {
        return Ok((start.value, end.value));
    }
    if let Ok((start, end)) = span.extract::<(TimeArg, TimeArg)>() {
        return Ok((start.0.value, end.0.value));
    }
    let message = "gather needs a start and an end; give isochrony.span(start, end)".to_owned();
    Err(PackageError::new("OptionError", "bad_option", message).into())
}
