//! Stamps and fitted pieces of a signal as Python tables.

use isochrony_store::state::SignalState;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::Result;

/// See `Timebase.points`.
pub(crate) fn points<'py>(
    py: Python<'py>,
    state: Option<&SignalState>,
) -> Result<Bound<'py, PyAny>> {
    let rows: Vec<_> = state.iter().flat_map(|state| state.points.iter()).collect();
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
    Ok(table(py, &columns)?)
}

/// See `Timebase.pieces`.
pub(crate) fn fit<'py>(py: Python<'py>, state: Option<&SignalState>) -> Result<Bound<'py, PyAny>> {
    let rows: Vec<_> = state.iter().flat_map(|state| state.fit.iter()).collect();
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
    Ok(table(py, &columns)?)
}

fn table<'py>(py: Python<'py>, columns: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
    py.import("isochrony.tables.table")?
        .getattr("Table")?
        .call1((columns,))
}
