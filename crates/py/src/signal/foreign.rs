//! `isochrony.Signal` in other libraries: xarray, ObsPy, matplotlib, notebooks.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::signal::Signal;
use crate::signal::selection::forward;

#[pymethods]
impl Signal {
    /// An `xarray.DataArray` over "time" with gaps as NaN.
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
    #[pyo3(signature = (**options))]
    fn to_xarray<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        forward(slf.as_any(), "to_xarray", options)
    }

    /// An ObsPy `Stream`: one trace per contiguous segment, with exact start times.
    ///
    /// Parameters:
    ///     masked: one trace per run instead, with gaps masked.
    ///     counts: raw samples instead of values in the unit.
    ///
    /// Raises:
    ///     isochrony.MissingExtraError: ObsPy is not installed (extra `seismic`).
    #[pyo3(signature = (**options))]
    fn to_obspy<'py>(
        slf: &Bound<'py, Self>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        forward(slf.as_any(), "to_obspy", options)
    }

    /// Plots the signal with its gaps; takes the other parameters of `isochrony.store.plots.plot`.
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
