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
    ///     The commit's number.
    ///
    /// Raises:
    ///     isochrony.StoreError: a full or failing disk (also OSError): the store is then as last committed.
    #[pyo3(signature = (*, publish=true))]
    fn commit(&self, py: Python<'_>, publish: bool) -> Result<u64> {
        Ok(crate::interpreter::detach(py, || {
            self.shared.store.commit(publish)
        })?)
    }

    /// Makes deferred changes visible to other Zarr readers now; the same as `commit()`.
    fn publish(&self, py: Python<'_>) -> Result<u64> {
        self.commit(py, true)
    }

    /// Whether anything waits for a commit.
    #[getter]
    fn has_pending(&self) -> bool {
        self.shared.store.has_pending()
    }

    /// Adopts commits of other processes; returns whether there were any. Signals follow.
    fn refresh(&self, py: Python<'_>) -> Result<bool> {
        let wait = bytes_to_wait_for(self.shared.store.is_remote(), 0);
        interruptible(py, wait, || self.shared.refresh())
    }

    /// Writes all tables and starts a new log; automatic at closing and when the log is long.
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
    #[pyo3(signature = (dest, *, signals=None, progress=None))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        dest: PathBuf,
        signals: Option<Patterns>,
        progress: Option<Py<PyAny>>,
    ) -> Result<Bound<'py, PyDict>> {
        let path = self.shared.store.path();
        // Gives the error of a closed store.
        self.shared.store.sequence()?;
        crate::store::backup::run(py, path, &dest, signals, progress.as_ref())
    }
}
