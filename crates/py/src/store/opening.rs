//! `isochrony.open`, and how a pickled signal finds its store again.

use std::path::PathBuf;

use isochrony_store::{Mode, Store as RustStore};
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::signal::Signal;
use crate::store::Store;
use crate::store::handle::OpenStore;
use crate::time::option;

/// Opens a store.
///
/// Parameters:
///     path: the store's folder.
///     mode: "r": read; "r+": read and write, it must exist; "a": read and write, created if missing; "x": created,
///         refused if anything is there.
///
/// Raises:
///     isochrony.StoreError: no store there (also FileNotFoundError), something there already (FileExistsError),
///         another process writes to it (BlockingIOError, with its name), or the system refuses (OSError).
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
pub(crate) fn open(py: Python<'_>, path: PathBuf, mode: &str) -> Result<Store> {
    let mode = match mode {
        "r" => Mode::Read,
        "r+" => Mode::ReadWrite,
        "a" => Mode::Append,
        "x" => Mode::Create,
        _ => return Err(option("mode", mode, "\"r\", \"r+\", \"a\" or \"x\"").into()),
    };
    let store = crate::interpreter::detach(py, || RustStore::open(&path, mode))?;
    Ok(Store {
        shared: OpenStore::new(store),
    })
}

/// What a pickled signal becomes: in the process that pickled it a signal of the same opening of the store, elsewhere the
/// signal of that name, in a store that has reached that commit at least. `opening`: process, its number for the opening,
/// and whether changes waited for a commit.
#[pyfunction]
#[pyo3(signature = (path, name, sequence, opening=None))]
pub(crate) fn _reopen(
    py: Python<'_>,
    path: PathBuf,
    name: &str,
    sequence: u64,
    opening: Option<(u32, u64, bool)>,
) -> Result<Signal> {
    crate::interpreter::detach(py, || {
        let (process, number, pending) = opening.unwrap_or_default();
        if process == std::process::id()
            && let Some(shared) = OpenStore::find(number)
        {
            let signal = shared.store.signal(name)?;
            return Signal::new(&shared, signal);
        }
        if pending {
            let message = format!(
                "signal {name:?} of {} was pickled while changes of its store were not committed, which no other process \
                 can see: commit before pickling",
                path.display()
            );
            return Err(PackageError::new("StoreValueError", "uncommitted", message).into());
        }
        let store = RustStore::open(&path, Mode::Read)?;
        let have = store.sequence()?;
        if have < sequence {
            let message = format!(
                "signal {name:?} was pickled at commit {sequence} of {}, which is at commit {have}: an older copy or an \
                 unpublished state; commit before pickling, or point at the same store",
                path.display()
            );
            return Err(PackageError::new("StoreValueError", "older_commit", message).into());
        }
        let signal = store.signal(name)?;
        Signal::new(&OpenStore::new(store), signal)
    })
}
