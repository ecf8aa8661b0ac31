//! User attributes of stores and signals, for `isochrony.store.attributes.Attributes`.

use pyo3::prelude::*;

use crate::errors::Result;
use crate::signal::Signal;
use crate::store::Store;

fn mapping<'py>(owner: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let attributes = owner.py().import("isochrony.store.attributes")?;
    attributes.getattr("Attributes")?.call1((owner,))
}

#[pymethods]
impl Signal {
    /// User attributes: a mapping of text to JSON values that stores each change, durable with the next commit; see
    /// `isochrony.store.attributes.Attributes`.
    ///
    /// >>> signal.attrs["site"] = "harbour"
    /// >>> dict(signal.attrs)
    /// {'site': 'harbour'}
    #[getter]
    fn attrs<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping(slf.as_any())
    }

    fn _attributes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(crate::json::dict(py, &self.get(py)?.attributes())?)
    }

    fn _set_attributes(&self, py: Python<'_>, attributes: &Bound<'_, PyAny>) -> Result<()> {
        let writer = self.writer("set attributes")?;
        let map = crate::json::object(self.get(py)?.name(), attributes)?;
        Ok(crate::interpreter::detach(py, || {
            writer.set_attributes(&map)
        })?)
    }
}

#[pymethods]
impl Store {
    /// User attributes of the store: a mapping of text to JSON values that stores each change, outside of commits:
    /// durable and visible to all readers at once. They lie in the root `zarr.json`, where every Zarr program finds
    /// them. The key "isochrony" is reserved.
    ///
    /// >>> import isochrony as iso, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> store.attrs["operator"] = "city water works"
    /// >>> store.attrs.update(campaign=2010, contact=None)
    /// >>> dict(iso.open(store.path).attrs)
    /// {'operator': 'city water works', 'campaign': 2010, 'contact': None}
    #[getter]
    fn attrs<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        mapping(slf.as_any())
    }

    fn _attributes<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let map = crate::interpreter::detach(py, || self.shared.store.attributes())?;
        Ok(crate::json::dict(py, &map)?)
    }

    fn _set_attributes(&self, py: Python<'_>, attributes: &Bound<'_, PyAny>) -> Result<()> {
        let map = crate::json::object("the store", attributes)?;
        Ok(crate::interpreter::detach(py, || {
            self.shared.store.set_attributes(&map)
        })?)
    }
}
