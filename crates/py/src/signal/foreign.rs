//! `isochrony.Signal` in other libraries: xarray, ObsPy, matplotlib, notebooks.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::signal::Signal;
use crate::signal::selection::forward;

#[pymethods]
impl Signal {
    /// Converts the signal to an `xarray.DataArray` over "time", with NaN in gaps.
    ///
    /// Parameters:
    ///     gaps: "nan" keeps an element for every index, NaN in gaps; "drop" omits them.
    ///     chunks: samples per Dask chunk; None: backed by Dask if installed, else loaded; 0: loaded.
    ///     overlap: as in `select`.
    ///
    /// Returns:
    ///     Shape (n,), float64 (complex128), named after the signal, with the unit in `attrs["units"]`, a lazy
    ///     coordinate "time" of datetime64[ns] and a coordinate "index".
    ///
    /// Raises:
    ///     isochrony.MissingExtraError: xarray is not installed.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.array([1, 2], "i2")), signal.append_gap(samples=1), signal.append(np.array([4], "i2"))
    /// >>> array = signal.to_xarray(chunks=0)
    /// >>> array.dims, array.values
    /// (('time',), array([ 1.,  2., nan,  4.]))
    #[pyo3(signature = (**options))]
    fn to_xarray<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        forward(slf.as_any(), "to_xarray", options)
    }

    /// Converts the signal to an ObsPy `Stream`, one trace per gap-free segment, with exact start times.
    ///
    /// Parameters:
    ///     masked: one trace per run instead, with gaps masked; False unless stated.
    ///     counts: raw samples instead of values in the unit; False unless stated.
    ///
    /// Returns:
    ///     An `obspy.Stream` at the nominal rate. Codes come from the attributes network, station, location and
    ///     channel, else from the components of the name. Samples are copies.
    ///
    /// Raises:
    ///     isochrony.MissingExtraError: ObsPy is not installed (extra `seismic`).
    ///     isochrony.StoreError: the signal has no civil time.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/quakes.iso", "x")
    /// >>> signal = store.create("GE/APE/--/BHZ", dtype="i4", rate=20, start="2026-01-01")
    /// >>> _ = signal.append(np.zeros(100, "i4")), signal.append_gap(seconds=1), signal.append(np.zeros(40, "i4"))
    /// >>> [(trace.id, trace.stats.npts) for trace in signal.to_obspy()]
    /// [('GE.APE..BHZ', 100), ('GE.APE..BHZ', 40)]
    #[pyo3(signature = (**options))]
    fn to_obspy<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        forward(slf.as_any(), "to_obspy", options)
    }

    /// Plots the signal, or a part of it, with its gaps.
    ///
    /// Parameters:
    ///     stretch: a span, slice, run or selection, or two civil times or indices; none: all.
    ///     out: file to write, PNG, SVG or PDF by its suffix; None: none.
    ///     axes: Matplotlib axes to draw into; None: a new figure.
    ///     pixels: width to decimate to, above 0; 2000 unless stated.
    ///
    /// Returns:
    ///     The Matplotlib figure: the band is the minimum to the maximum of each pixel; gaps are shaded, with no line
    ///     across.
    ///
    /// Raises:
    ///     isochrony.UsageError: the range holds no samples.
    ///     isochrony.MissingExtraError: Matplotlib is not installed (extra `plot`).
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
    /// >>> _ = signal.append(np.arange(1000, dtype="i2"))
    /// >>> figure = signal.plot("2026-01-01T00:00:02", "2026-01-01T00:00:04")
    /// >>> figure.axes[0].get_ylabel()
    /// 'counts'
    #[pyo3(signature = (*stretch, **options))]
    fn plot<'py>(
        slf: &Bound<'py, Self>,
        stretch: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let plot = slf.py().import("isochrony.store.plots")?.getattr("plot")?;
        let plot = slf
            .py()
            .import("functools")?
            .call_method1("partial", (plot, slf))?;
        plot.call(stretch, options)
    }

    /// The signal as an HTML table, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("isochrony.store.notebook")?
            .call_method1("signal_html", (slf,))
    }
}
