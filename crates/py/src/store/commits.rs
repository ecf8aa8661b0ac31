//! `isochrony.Store`: commits, publishing, checkpoints, backups.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::Store;
use super::backup::Patterns;
use crate::errors::Result;
use crate::interrupt::{bytes_to_wait_for, interruptible};

#[pymethods]
impl Store {
    /// Makes all changes since the last commit durable, atomically.
    ///
    /// Parameters:
    ///     publish: show them to other Zarr readers at once, else within a second. Isochrony's readers see them at
    ///         once.
    ///
    /// Returns:
    ///     An int, the number of the commit; without changes, that of the last one.
    ///
    /// Raises:
    ///     isochrony.StoreError: the disk is full or failing (also OSError): the store is then as last committed.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100).append(np.zeros(500, "i2"))
    /// >>> store.has_pending, store.commit(), store.has_pending
    /// (True, 1, False)
    #[pyo3(signature = (*, publish=true))]
    fn commit(&self, py: Python<'_>, publish: bool) -> Result<u64> {
        Ok(crate::interpreter::detach(py, || {
            self.shared.store.commit(publish)
        })?)
    }

    /// Makes deferred changes visible to other Zarr readers now; the same as `commit()`.
    ///
    /// Returns:
    ///     The number of the commit, as of `commit`.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100)
    /// >>> store.commit(publish=False), store.publish()
    /// (1, 1)
    fn publish(&self, py: Python<'_>) -> Result<u64> {
        self.commit(py, true)
    }

    /// Whether there are uncommitted changes.
    ///
    /// >>> store.has_pending
    /// False
    #[getter]
    fn has_pending(&self) -> bool {
        self.shared.store.has_pending()
    }

    /// Adopts commits of other processes; its signals show them too.
    ///
    /// Returns:
    ///     A bool: whether there were any.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100)
    /// >>> _ = store.commit()
    /// >>> reader = iso.open(store.path)
    /// >>> _ = store["p"].append(np.zeros(100, "i2")), store.commit()
    /// >>> reader.refresh(), reader["p"].sample_count
    /// (True, 100)
    fn refresh(&self, py: Python<'_>) -> Result<bool> {
        let wait = bytes_to_wait_for(self.shared.store.is_remote(), 0);
        interruptible(py, wait, || self.shared.refresh())
    }

    /// Writes all tables and starts a new log; automatic at closing and when the log is long.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100)
    /// >>> _ = store.commit()
    /// >>> store.checkpoint()
    fn checkpoint(&self, py: Python<'_>) -> Result<()> {
        Ok(crate::interpreter::detach(py, || {
            self.shared.store.checkpoint()
        })?)
    }

    /// Makes or updates a consistent copy of all commits, as `isochrony.backup`.
    ///
    /// Parameters:
    ///     dest: the copy's folder or URL: missing, empty, or an earlier copy of this store.
    ///     signals: as of `isochrony.backup`.
    ///     progress: as of `isochrony.backup`.
    ///
    /// Returns:
    ///     The dict of `isochrony.backup`.
    ///
    /// Raises:
    ///     isochrony.StoreError: as `isochrony.backup`.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> _ = store.create("p", dtype="i2", rate=100).append(np.zeros(5000, "i2"))
    /// >>> _ = store.commit()
    /// >>> store.backup(tempfile.mkdtemp() + "/copy.iso")["copied_bytes"]
    /// 10000
    #[pyo3(signature = (dest, *, signals=None, progress=None))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        dest: PathBuf,
        signals: Option<Patterns>,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyDict>> {
        let path = self.shared.store.path();
        self.shared.store.sequence()?;
        crate::store::backup::run(py, path, &dest, signals, progress.as_ref())
    }
}
