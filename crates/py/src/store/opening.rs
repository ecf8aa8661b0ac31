//! `isochrony.open`.

use isochrony_store::{Mode, Store as RustStore};
use pyo3::prelude::*;

use crate::errors::Result;
use crate::interrupt::{bytes_to_wait_for, interruptible};
use crate::path_argument::store_path;
use crate::store::Store;
use crate::store::handle::OpenStore;
use crate::time::option;

/// Opens or creates a store.
///
/// Parameters:
///     path: the store's folder, or the URL of one in object storage ("s3://bucket/water.iso", "gs://", "az://") or on
///         a web server ("https://"), for reading (docs/cloud.md), with this host's credentials.
///     mode: "r": read; "r+": read and write, must exist; "a": read and write, created if missing; "x": created, must
///         not exist.
///
/// Returns:
///     A `Store`. Use it in a ``with`` block, which commits and closes at the end.
///
/// Raises:
///     isochrony.StoreError: no store there (also FileNotFoundError), an existing path (FileExistsError), another
///         process writing (BlockingIOError, with its name), or a system error (OSError).
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> folder = tempfile.mkdtemp()
/// >>> with iso.open(folder + "/water.iso", "x") as store:
/// ...     w = store.create("stn_10/pressure", dtype="f4", rate=2000, unit="kPa", start="2010-03-01")
/// ...     _ = w.append(np.arange(6000, dtype="f4"))
/// >>> store = iso.open(folder + "/water.iso")
/// >>> store["stn_10/pressure"]["2010-03-01T00:00:01":"2010-03-01T00:00:02"].sample_count
/// 2000
#[pyfunction]
#[pyo3(signature = (path, mode="r"))]
pub(crate) fn open(py: Python<'_>, path: &Bound<'_, PyAny>, mode: &str) -> Result<Store> {
    let path = store_path("open", path)?;
    let mode = match mode {
        "r" => Mode::Read,
        "r+" => Mode::ReadWrite,
        "a" => Mode::Append,
        "x" => Mode::Create,
        _ => return Err(option("mode", mode, "\"r\", \"r+\", \"a\" or \"x\"").into()),
    };
    let wait = bytes_to_wait_for(RustStore::is_url(&path), 0);
    let store = interruptible(py, wait, || Ok(RustStore::open(&path, mode)?))?;
    Ok(Store {
        shared: OpenStore::new(store),
    })
}
