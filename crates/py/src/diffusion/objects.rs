//! Files in object storage, read like stores there.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use isochrony_cloud::{CloudError, ObjectReader, ObjectVersion, put_object, stat_object};
use isochrony_store::media::remote;
use numpy::PyReadwriteArray1;
use pyo3::prelude::*;

use crate::errors::{Error, PackageError, Result};
use crate::interrupt::interruptible;

/// Entity tag, modification time in seconds since 1970, and length.
type Version = (Option<String>, i64, u64);

/// URL schemes of remote stores and files.
#[pyfunction]
pub(crate) fn url_schemes() -> [&'static str; remote::SCHEMES.len()] {
    remote::SCHEMES
}

/// The current version of an object.
#[pyfunction]
pub(crate) fn stat_cloud_file(py: Python<'_>, url: &str) -> Result<Version> {
    let found = interruptible(py, u64::MAX, || {
        stat_object(url).map_err(|error| raised(url, error))
    })?;
    Ok(as_tuple(found))
}

/// Uploads a local file as one object; returns its version.
#[pyfunction]
pub(crate) fn put_cloud_file(py: Python<'_>, url: &str, path: PathBuf) -> Result<Version> {
    let put = interruptible(py, u64::MAX, || {
        let put = put_object(url, &path);
        put.map_err(|error| raised(url, error))
    })?;
    Ok(as_tuple(put))
}

fn as_tuple(version: ObjectVersion) -> Version {
    (version.e_tag, version.modified, version.bytes)
}

/// Includes the URL unless it may hold a secret.
fn raised(url: &str, error: CloudError) -> Error {
    let (class, code) = match &error {
        CloudError::Missing => ("StorageNotFoundError", "storage_not_found"),
        CloudError::ChangedRemotely => ("StorageChangedError", "storage_changed"),
        CloudError::BadUrl { .. } => ("OptionError", "bad_option"),
        other => ("StorageError", other.code()),
    };
    let shown = remote::checked_url(url).unwrap_or_else(|_| "the URL".into());
    let message = match error {
        CloudError::ChangedRemotely => {
            format!("{shown} changed while it was read; run again when no program writes to it")
        }
        error => format!("{shown}: {error}"),
    };
    PackageError::new(class, code, message).into()
}

/// Reads a range of one version of an object, in order.
#[pyclass(frozen)]
pub(crate) struct NativeCloudReader {
    url: String,
    reader: Mutex<Option<ObjectReader>>,
}

#[pymethods]
impl NativeCloudReader {
    #[new]
    fn new(py: Python<'_>, url: String, version: Version, start: u64, stop: u64) -> Result<Self> {
        let (e_tag, modified, bytes) = version;
        let version = ObjectVersion {
            bytes,
            e_tag,
            modified,
        };
        let reader =
            crate::interpreter::detach(py, || ObjectReader::new(&url, version, start..stop));
        let reader = reader.map_err(|error| raised(&url, error))?;
        Ok(Self {
            url,
            reader: Mutex::new(Some(reader)),
        })
    }

    /// Fills a buffer as far as data is available; returns the number of bytes, 0 at the end.
    fn readinto(&self, py: Python<'_>, mut buffer: PyReadwriteArray1<'_, u8>) -> Result<usize> {
        let bytes = buffer.as_slice_mut().map_err(PyErr::from)?;
        interruptible(py, u64::MAX, || {
            let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
            match reader.as_mut() {
                Some(reader) => (reader.read(bytes)).map_err(|error| raised(&self.url, error)),
                None => Ok(0),
            }
        })
    }

    /// Ends reading.
    fn close(&self, py: Python<'_>) {
        crate::interpreter::detach(py, || {
            self.reader
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
        });
    }
}
