//! `isochrony.backup`: a consistent copy of a store.

use std::path::Path;
use std::time::{Duration, Instant};

use isochrony_runtime::Progress;
use isochrony_store::{BackupReport, CopyOptions, Pattern};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::errors::{Error, PackageError, Result};
use crate::interpreter::attach;
use crate::interrupt::interruptible;
use crate::path_argument::store_path;

const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Makes or updates a consistent copy of a store. Another process may write to the store meanwhile: the copy holds all
/// signals as of one commit.
///
/// Copies only what is missing, comparing each full chunk of samples with its checksum first. The copy is a store of
/// the same identity; `verify` and any Zarr reader find it whole after every backup. An interrupted one leaves the copy
/// unchanged or, if more than 256 MB were to be copied, one that opens only after the next backup. Saved journals of
/// tasklets are not copied. In object storage, readers see the previous state until the copy's MANIFEST is replaced
/// last; changes are staged in the folder of TMPDIR, which needs up to 1 GB.
///
/// Parameters:
///     path: the store's folder or URL.
///     dest: the copy's folder, or its URL in object storage (s3://, gs://, az://): missing, empty, or an earlier copy
///         of this store without other changes.
///     signals: a pattern or several, as for `Store.keys`; other signals of the copy stay. None: all.
///     progress: called with bytes copied, bytes to copy, and twice 0; None: no calls.
///
/// Returns:
///     A dict: the "sequence" number of the copy's commit, its "signals", "copied_bytes" and "kept_bytes" of samples,
///     how many signals were "removed" from it, and "failed": unreadable signals with the reason, unchanged in the
///     copy.
///
/// Raises:
///     isochrony.StoreError: no store there, or `dest` is something else; disk full: run it again to continue.
///     KeyboardInterrupt: within a tenth of a second of Ctrl-C; run it again to continue. Exceptions of `progress`: at
///         once, like Ctrl-C.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> folder = tempfile.mkdtemp()
/// >>> with iso.open(folder + "/water.iso", "x") as store:
/// ...     _ = store.create("p", dtype="i2", rate=100).append(np.zeros(5000, "i2"))
/// >>> first = iso.backup(folder + "/water.iso", folder + "/copy.iso")
/// >>> again = iso.backup(folder + "/water.iso", folder + "/copy.iso")
/// >>> first["copied_bytes"], again["copied_bytes"], again["kept_bytes"]
/// (10000, 0, 10000)
#[pyfunction]
#[pyo3(signature = (path, dest, *, signals=None, progress=None))]
pub(crate) fn backup<'py>(
    py: Python<'py>,
    path: &Bound<'py, PyAny>,
    dest: &Bound<'py, PyAny>,
    signals: Option<Patterns>,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let (path, dest) = (
        store_path("backup", path)?,
        store_path("backup dest=", dest)?,
    );
    run(py, &path, &dest, signals, progress.as_ref())
}

#[derive(FromPyObject)]
pub(crate) enum Patterns {
    One(String),
    Several(Vec<String>),
}

fn options(signals: Option<Patterns>) -> Result<CopyOptions> {
    let patterns = match signals {
        None => Vec::new(),
        Some(Patterns::One(pattern)) => vec![pattern],
        Some(Patterns::Several(patterns)) if patterns.is_empty() => {
            let message = "signals is empty, so nothing would be copied; give a pattern, several, or None for all";
            let error = PackageError::new("OptionError", "refused_option", message.into());
            return Err(error.into());
        }
        Some(Patterns::Several(patterns)) => patterns,
    };
    let signals: std::result::Result<_, _> = patterns.iter().map(|one| Pattern::new(one)).collect();
    Ok(CopyOptions {
        signals: signals?,
        ..CopyOptions::default()
    })
}

pub(crate) fn run<'py>(
    py: Python<'py>,
    path: &Path,
    dest: &Path,
    signals: Option<Patterns>,
    progress: Option<&Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let options = options(signals)?;
    let options = &options;
    let mut raised: Option<PyErr> = None;
    let done: Result<BackupReport> = {
        let raised = &mut raised;
        let work = move || {
            let mut last_report = Instant::now();
            let mut tell = |now: &Progress| {
                let (done, total) = (now.done(), now.total().unwrap_or(0));
                let Some(progress) = progress else { return };
                if raised.is_some() || (done < total && last_report.elapsed() < PROGRESS_INTERVAL) {
                    return;
                }
                last_report = Instant::now();
                let called = attach(|py| progress.call1(py, (done, total, 0, 0)).map(drop));
                *raised = called.err();
                if raised.is_some() {
                    isochrony_store::interrupt::stop();
                }
            };
            Ok(isochrony_store::copy_store(path, dest, options, &mut tell)?)
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
    let result = PyDict::new(py);
    result.set_item("sequence", report.sequence)?;
    result.set_item("signals", report.signals)?;
    result.set_item("copied_bytes", report.copied_bytes)?;
    result.set_item("kept_bytes", report.kept_bytes)?;
    result.set_item("removed", report.removed)?;
    result.set_item("failed", failed)?;
    Ok(result)
}
