//! `isochrony.backup`: a consistent copy of a store.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isochrony_runtime::Progress;
use isochrony_store::BackupReport;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Error, Result};
use crate::interpreter::attach;
use crate::interrupt::interruptible;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Makes a consistent copy of a store, or brings an earlier one up to date. Another process may write to the store
/// meanwhile: the copy holds all signals as of one commit.
///
/// Only what the copy lacks is copied, and each full chunk of samples is compared with its checksum first. The copy is a
/// store of the same identity; `verify` and any Zarr reader find it whole after every backup. One that is interrupted
/// leaves the copy as it was, or, if more than 256 MB were to be copied, one that does not open until the next backup has
/// finished it. Saved journals of tasklets are not copied.
///
/// Parameters:
///     path: the store's folder.
///     dest: the copy's folder: missing, empty, or an earlier backup of this store that nobody wrote to.
///     progress: called with bytes copied, bytes to copy, and twice 0; None: nobody is told.
///
/// Returns:
///     A dict: the "sequence" number of the commit that the copy holds, its "signals", "copied_bytes" and "kept_bytes" of
///     samples, how many signals were "removed" from it, and "failed": signals that could not be read, with the reason;
///     the copy holds those as it did before.
///
/// Raises:
///     isochrony.StoreError: no store there, or `dest` is something else; disk full: run it again to go on.
///     KeyboardInterrupt: within a tenth of a second of Ctrl-C; run it again to go on.
///     What `progress` raises: at once, as Ctrl-C does.
#[pyfunction]
#[pyo3(signature = (path, dest, *, progress=None))]
pub(crate) fn backup<'py>(
    py: Python<'py>,
    path: PathBuf,
    dest: PathBuf,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    run(py, &path, &dest, progress.as_ref())
}

pub(crate) fn run<'py>(
    py: Python<'py>,
    path: &Path,
    dest: &Path,
    progress: Option<&Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let mut raised: Option<PyErr> = None;
    let done: Result<BackupReport> = {
        let raised = &mut raised;
        let work = move || {
            let mut told = Instant::now();
            let mut tell = |now: &Progress| {
                let (done, total) = (now.done(), now.total().unwrap_or(0));
                let Some(progress) = progress else { return };
                if raised.is_some() || (done < total && told.elapsed() < PROGRESS_INTERVAL) {
                    return;
                }
                told = Instant::now();
                let called = attach(|py| progress.call1(py, (done, total, 0, 0)).map(drop));
                *raised = called.err();
                if raised.is_some() {
                    isochrony_store::interrupt::stop();
                }
            };
            Ok(isochrony_store::backup(path, dest, &mut tell)?)
        };
        interruptible(py, u64::MAX, work)
    };
    if let Some(error) = raised {
        return Err(Error::Python(error));
    }
    let report = done?;
    let failed = PyList::empty(py);
    for (name, reason) in &report.failed {
        failed.append((name, reason))?;
    }
    let told = PyDict::new(py);
    told.set_item("sequence", report.sequence)?;
    told.set_item("signals", report.signals)?;
    told.set_item("copied_bytes", report.copied_bytes)?;
    told.set_item("kept_bytes", report.kept_bytes)?;
    told.set_item("removed", report.removed)?;
    told.set_item("failed", failed)?;
    Ok(told)
}
