//! `isochrony.Timebase`: the relation of a signal's indices to civil time, as it is stored.

use isochrony_store::Signal as StoreSignal;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The relation of a signal's indices to civil time: the stamps that its sources gave, and the line fitted to each run.
///
/// To convert, use `Signal.time_of` and `Signal.index_of`; this is what they rest on.
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Timebase {
    pub(crate) signal: StoreSignal,
}

fn table<'py>(py: Python<'py>, columns: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    py.import("isochrony.table")?
        .getattr("Table")?
        .call1((columns,))
}

#[pymethods]
impl Timebase {
    /// Raw stamps, a `Table`: sample "index" of "run" was taken in [civil, civil + resolution), in ns since 1970 with
    /// fractions in 2**-32 ns. "use" is 0 where the fit uses the stamp, else it was marked and left out.
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows: Vec<_> = self.signal.state().points.iter().collect();
        let columns = PyDict::new(py);
        let column = |name, values| columns.set_item(name, values);
        column(
            "run",
            PyArray1::from_iter(py, rows.iter().map(|row| i64::from(row.run))),
        )?;
        column(
            "index",
            PyArray1::from_iter(py, rows.iter().map(|row| row.index)),
        )?;
        column(
            "civil_ns",
            PyArray1::from_iter(py, rows.iter().map(|row| row.civil_ns)),
        )?;
        column(
            "civil_frac",
            PyArray1::from_iter(py, rows.iter().map(|row| i64::from(row.civil_frac))),
        )?;
        column(
            "resolution_ns",
            PyArray1::from_iter(py, rows.iter().map(|row| row.resolution_ns)),
        )?;
        column(
            "use",
            PyArray1::from_iter(py, rows.iter().map(|row| i64::from(row.usage))),
        )?;
        table(py, &columns)
    }

    /// The fitted pieces, a `Table`: from "index" up to "end" (-1: open) of "run",
    /// civil(i) = civil + (i - index) * ns_num / ns_den, off by at most "uncertainty_ns".
    #[getter]
    fn fit<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows: Vec<_> = self.signal.state().fit.iter().collect();
        let columns = PyDict::new(py);
        let whole = |name, value: &dyn Fn(&isochrony_store::op::PieceRow) -> i64| {
            columns.set_item(
                name,
                PyArray1::from_iter(py, rows.iter().map(|(_, row)| value(row))),
            )
        };
        columns.set_item(
            "run",
            PyArray1::from_iter(py, rows.iter().map(|(run, _)| i64::from(*run))),
        )?;
        whole("index", &|row| row.index)?;
        whole("end", &|row| row.end)?;
        whole("civil_ns", &|row| row.civil_ns)?;
        whole("civil_frac", &|row| i64::from(row.civil_frac))?;
        columns.set_item(
            "ns_num",
            PyArray1::from_iter(py, rows.iter().map(|(_, row)| row.num)),
        )?;
        columns.set_item(
            "ns_den",
            PyArray1::from_iter(py, rows.iter().map(|(_, row)| row.den)),
        )?;
        for (name, value) in [
            (
                "uncertainty_ns",
                (|row| row.uncertainty_ps) as fn(&isochrony_store::op::PieceRow) -> u64,
            ),
            ("residual_ns", |row| row.residual_ps),
        ] {
            let values = rows.iter().map(|(_, row)| value(row) as f64 / 1e3);
            columns.set_item(name, PyArray1::from_iter(py, values))?;
        }
        table(py, &columns)
    }

    fn __len__(&self) -> usize {
        self.signal.state().points.len()
    }

    fn __repr__(&self) -> String {
        let state = self.signal.state();
        let (points, pieces) = (state.points.len(), state.fit.len());
        format!(
            "<Timebase of {}: {points} stamps, {pieces} fitted pieces>",
            self.signal.name()
        )
    }
}
