//! `isochrony.Signal` as other Python libraries see it: xarray, ObsPy, matplotlib, notebooks, attributes.

use isochrony_store::Signal as StoreSignal;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::errors::{Raised, Result};
use crate::selection::forward;
use crate::signal::Signal;

#[pymethods]
impl Signal {
    /// An `xarray.DataArray` over "time" with gaps as NaN.
    ///
    /// Parameters:
    ///     gaps: "nan" keeps an element for every index and puts NaN in gaps; "drop" leaves gap indices out.
    ///     chunks: samples a Dask chunk; None: backed by Dask if it is installed, else loaded; 0: loaded.
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

    /// An ObsPy `Stream`: one trace a gap-free segment, with exact start times.
    ///
    /// Parameters:
    ///     masked: one trace a run instead, its gaps masked.
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

    /// A picture of the signal with its gaps; see `isochrony.plots.plot`, whose other parameters it takes.
    #[pyo3(signature = (*stretch, **options))]
    fn plot<'py>(
        slf: &Bound<'py, Self>,
        stretch: &Bound<'py, PyTuple>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let plot = slf.py().import("isochrony.plots")?.getattr("plot")?;
        let plot = slf
            .py()
            .import("functools")?
            .call_method1("partial", (plot, slf))?;
        plot.call(stretch, options)
    }

    /// User attributes: a mapping that writes itself back; see `isochrony.attributes.Attributes`.
    #[getter]
    fn attrs<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let class = slf
            .py()
            .import("isochrony.attributes")?
            .getattr("Attributes")?;
        class.call1((slf,))
    }

    /// The signal as an HTML table, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("isochrony.notebook")?
            .call_method1("signal_html", (slf,))
    }

    fn _times_of<'py>(
        &self,
        py: Python<'py>,
        indices: &Bound<'py, PyAny>,
    ) -> Result<Option<Bound<'py, PyAny>>> {
        times_of(py, &self.get(py)?, indices)
    }

    fn _attributes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(crate::json::dict(py, &self.get(py)?.attributes())?)
    }
}

/// Civil times of indices as datetime64[ns], rounded to the nanosecond; None without civil time.
pub(crate) fn times_of<'py>(
    py: Python<'py>,
    signal: &StoreSignal,
    indices: &Bound<'py, PyAny>,
) -> Result<Option<Bound<'py, PyAny>>> {
    if signal.empirical()?.is_none() {
        return Ok(None);
    }
    let (indices, dtype) = crate::memory::adopt(indices, false)?;
    let Some(indices) = indices
        .samples::<i64>()
        .filter(|_| dtype == isochrony_segment::DType::I64)
    else {
        let message =
            format!("indices must be int64, got {dtype}; convert them with astype(\"int64\")");
        return Err(Raised::new("StoreTypeError", "bad_index", message).into());
    };
    let mut memory = isochrony_segment::BufferMut::zeroed_samples::<i64>(indices.len())?;
    py.detach(|| -> Result<()> {
        let mut times = vec![isochrony_time::Fixed::ZERO; indices.len()];
        signal.civil_many(indices, &mut times)?;
        for (out, time) in memory.samples_mut::<i64>().iter_mut().zip(times) {
            let ns = time.round_i64();
            *out = ns.ok_or(isochrony_time::TimeError::Overflow {
                what: "datetime64[ns]",
            })?;
        }
        Ok(())
    })?;
    let array = crate::memory::own(py, memory, isochrony_segment::DType::I64, None)?;
    Ok(Some(array.call_method1("view", ("datetime64[ns]",))?))
}
