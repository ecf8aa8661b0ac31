//! Plans saved in a store: the native half of `isochrony.plan.saved`.

use pyo3::prelude::*;

use crate::store::{Store, saved_plans};

#[pymethods]
impl Store {
    /// Saved plans of the store by name, which are read as signals; see `isochrony.plan.saved.SavedPlans`.
    ///
    /// >>> list(store.saved_plans)
    /// []
    #[getter]
    fn saved_plans<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        saved_plans(slf)
    }

    /// Saves a plan under a name, durable on return; `store[name]` then reads it as a signal, by running it over the
    /// requested range.
    ///
    /// Parameters:
    ///     name: not used by a signal or saved plan.
    ///     plan: an `isochrony.Plan` that gives samples or windows.
    ///     overwrite: replace the saved plan of that name.
    ///
    /// Raises:
    ///     isochrony.PlanError: the plan writes, or cannot be saved.
    ///     isochrony.StoreError: the name is taken (also FileExistsError), or the store is open for reading.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("x", dtype="f8", rate=100).append(np.arange(1000.0))
    /// >>> store.save_plan("means", iso.scan(store["x"]).rewindow(100).map(lambda s: s.mean()))
    /// >>> store["means"][250:700].values()[:, 0]
    /// array([349.5, 449.5, 549.5, 649.5])
    #[pyo3(signature = (name, plan, *, overwrite=false))]
    fn save_plan(
        slf: &Bound<'_, Self>,
        name: &str,
        plan: &Bound<'_, PyAny>,
        overwrite: bool,
    ) -> PyResult<()> {
        let plans = saved_plans(slf)?;
        let options = pyo3::types::PyDict::new(slf.py());
        options.set_item("overwrite", overwrite)?;
        plans.call_method("save", (name, plan), Some(&options))?;
        Ok(())
    }
}
