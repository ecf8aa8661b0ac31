//! A host's cache, for Python.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use isochrony_cache::{
    Cache, CacheError, CacheOptions, Change, Check, EvictionPolicy, FileVersion, ObjectKey,
    PinnedObject, Reservation, Sequence,
};
use numpy::{PyReadonlyArray1, PyReadwriteArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::NativeShardCache;
use crate::errors::{Error, PackageError, Result};
use crate::interpreter::detach;

const ENOSPC: i32 = 28;

impl From<CacheError> for Error {
    fn from(error: CacheError) -> Self {
        let class = match error.code() {
            "invalid_piece_bytes"
            | "quota_too_small"
            | "invalid_key"
            | "outside_object"
            | "too_many_pieces" => "CacheValueError",
            "fetch_timeout" => "CacheTimeoutError",
            _ => "CacheOSError",
        };
        let errno = (error.code() == "disk_full").then_some(ENOSPC);
        let raised = PackageError::new(class, error.code(), error.to_string());
        raised.with_errno(errno).into()
    }
}

fn name(key: &ObjectKey) -> String {
    let digest = key.digest();
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Shards of signals are reported separately.
fn is_file(key: &ObjectKey) -> bool {
    matches!(key, ObjectKey::File { .. })
}

/// Whether the report is complete; complete files with lengths; files no longer complete.
type Changes = (bool, Vec<(String, u64)>, Vec<String>);

/// An open cache.
#[pyclass(frozen)]
pub(crate) struct NativeCache {
    cache: Cache,
    seen: Mutex<ReportedObjects>,
}

#[derive(Default)]
struct ReportedObjects {
    sequence: Option<Sequence>,
    /// Length, piece length and present pieces.
    objects: HashMap<String, (u64, u64, u64)>,
}

impl ReportedObjects {
    fn complete(&self, name: &str) -> Option<u64> {
        let &(bytes, piece_bytes, present) = self.objects.get(name)?;
        (present * piece_bytes >= bytes).then_some(bytes)
    }
}

/// Opens the cache in a folder. Without options: an existing one, with its last options.
#[pyfunction]
#[pyo3(signature = (folder, quota=None, evict="lru", piece=1 << 20))]
pub(crate) fn open_cache(
    py: Python<'_>,
    folder: PathBuf,
    quota: Option<u64>,
    evict: &str,
    piece: u64,
) -> Result<NativeCache> {
    let cache = match quota {
        None => detach(py, || Cache::open_existing(folder))?,
        Some(quota) => {
            let mut options = CacheOptions::new(quota);
            options.piece_bytes = piece;
            options.eviction = eviction(evict)?;
            detach(py, || Cache::open(folder, options))?
        }
    };
    let seen = Mutex::default();
    Ok(NativeCache { cache, seen })
}

fn eviction(name: &str) -> Result<EvictionPolicy> {
    Ok(match name {
        "random" => EvictionPolicy::Random,
        "fifo" => EvictionPolicy::Fifo,
        "lru" => EvictionPolicy::Lru,
        "lfu" => EvictionPolicy::Lfu,
        other => {
            let message = format!(
                "evict={other:?} is refused; give \"lru\", \"lfu\", \"fifo\" or \"random\""
            );
            return Err(PackageError::new("OptionError", "bad_option", message).into());
        }
    })
}

#[pymethods]
impl NativeCache {
    /// Its folder.
    #[getter]
    fn folder(&self) -> PathBuf {
        self.cache.folder()
    }

    /// Pins a file, given by URL, entity tag or modification time in ns since 1970, and length.
    fn pin_file(
        &self,
        py: Python<'_>,
        url: String,
        etag: Option<String>,
        modified_ns: i64,
        bytes: u64,
    ) -> Result<NativeCachedObject> {
        let version = match etag {
            Some(etag) => FileVersion::Etag(etag),
            None => FileVersion::SizeAndTime { bytes, modified_ns },
        };
        self.pin(py, ObjectKey::File { url, version }, bytes)
    }

    /// Pins a shard of a signal if at least so many of its bytes are cached; creates nothing.
    fn pin_existing_shard(
        &self,
        py: Python<'_>,
        store: [u8; 16],
        signal: u64,
        shard: u64,
        content_version: u64,
        bytes: u64,
    ) -> Result<Option<NativeCachedObject>> {
        let key = ObjectKey::Shard {
            store,
            signal,
            shard,
            content_version,
        };
        let object = detach(py, || self.cache.pin_existing(&key, bytes))?;
        Ok(object.map(|object| NativeCachedObject::new(&key, object)))
    }

    /// The cache as stores read through it, with a name unique among hosts. `address`: where other hosts get pieces.
    /// `fetch` gives pieces from other hosts.
    #[pyo3(signature = (host, address=None, fetch=None))]
    fn shards(
        &self,
        py: Python<'_>,
        host: String,
        address: Option<(String, u16)>,
        fetch: Option<Py<PyAny>>,
    ) -> Result<NativeShardCache> {
        detach(py, || {
            NativeShardCache::new(self.cache.clone(), host, address, fetch)
        })
    }

    /// Content and counters.
    fn info<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let info = detach(py, || self.cache.info())?;
        let dict = PyDict::new(py);
        dict.set_item("folder", info.folder)?;
        dict.set_item("quota_bytes", info.quota_bytes)?;
        dict.set_item("evict", format!("{:?}", info.eviction).to_lowercase())?;
        dict.set_item("piece_bytes", info.piece_bytes)?;
        dict.set_item("objects", info.objects)?;
        dict.set_item("pinned_objects", info.pinned_objects)?;
        dict.set_item("present_bytes", info.present_bytes)?;
        dict.set_item("reserved_bytes", info.reserved_bytes)?;
        dict.set_item("allocated_bytes", info.allocated_bytes)?;
        dict.set_item("handles", info.handles)?;
        dict.set_item("hits", info.hits)?;
        dict.set_item("misses", info.misses)?;
        dict.set_item("evictions", info.evictions)?;
        dict.set_item("resets", info.resets)?;
        Ok(dict)
    }

    /// Deletes everything unpinned: objects and bytes deleted and kept.
    fn clear(&self, py: Python<'_>) -> Result<(u64, u64, u64, u64)> {
        let done = detach(py, || self.cache.clear())?;
        Ok((
            done.removed_objects,
            done.removed_bytes,
            done.kept_objects,
            done.kept_bytes,
        ))
    }

    /// Changes of files since the last call, for an index: whether the list is complete instead, files now complete
    /// with their lengths, and files no longer complete.
    fn changes(&self, py: Python<'_>) -> Result<Changes> {
        detach(py, || {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            let changes = match seen.sequence {
                Some(sequence) => self.cache.changes_since(sequence)?,
                None => None,
            };
            let Some((changes, sequence)) = changes else {
                let manifest = self.cache.manifest()?;
                seen.sequence = Some(manifest.sequence);
                seen.objects.clear();
                for one in manifest.objects.iter().filter(|one| is_file(&one.key)) {
                    let present = one.pieces.iter().map(|run| u64::from(run.end - run.start));
                    let entry = (one.bytes, one.piece_bytes, present.sum());
                    seen.objects.insert(name(&one.key), entry);
                }
                let names = seen.objects.keys();
                let all = names.filter_map(|name| Some((name.clone(), seen.complete(name)?)));
                return Ok((true, all.collect(), Vec::new()));
            };
            seen.sequence = Some(sequence);
            let mut touched: HashMap<String, bool> = HashMap::new();
            for change in changes {
                let key = match &change {
                    Change::Added { key, .. }
                    | Change::Dropped { key, .. }
                    | Change::Removed { key }
                        if is_file(key) =>
                    {
                        name(key)
                    }
                    _ => continue,
                };
                let was = seen.complete(&key).is_some();
                touched.entry(key.clone()).or_insert(was);
                match change {
                    Change::Added {
                        pieces,
                        bytes,
                        piece_bytes,
                        ..
                    } => {
                        let entry = seen.objects.entry(key).or_default();
                        (entry.0, entry.1) = (bytes, piece_bytes);
                        entry.2 += u64::from(pieces.end - pieces.start);
                    }
                    Change::Dropped { .. } => {
                        if let Some(entry) = seen.objects.get_mut(&key) {
                            entry.2 = entry.2.saturating_sub(1);
                        }
                    }
                    _ => drop(seen.objects.remove(&key)),
                }
            }
            let (mut added, mut removed) = (Vec::new(), Vec::new());
            for (key, was) in touched {
                match (was, seen.complete(&key)) {
                    (_, Some(bytes)) => added.push((key, bytes)),
                    (true, None) => removed.push(key),
                    (false, None) => {}
                }
            }
            Ok((false, added, removed))
        })
    }

    /// Name of a file in indexes.
    #[staticmethod]
    fn file_name(url: String, etag: Option<String>, modified_ns: i64, bytes: u64) -> String {
        let version = match etag {
            Some(etag) => FileVersion::Etag(etag),
            None => FileVersion::SizeAndTime { bytes, modified_ns },
        };
        name(&ObjectKey::File { url, version })
    }
}

impl NativeCache {
    fn pin(&self, py: Python<'_>, key: ObjectKey, bytes: u64) -> Result<NativeCachedObject> {
        let object = detach(py, || self.cache.pin(&key, bytes))?;
        Ok(NativeCachedObject::new(&key, object))
    }
}

/// An object protected from eviction until it is closed or its process ends.
#[pyclass(frozen)]
pub(crate) struct NativeCachedObject {
    name: String,
    path: PathBuf,
    object: Mutex<Option<PinnedObject>>,
}

impl NativeCachedObject {
    fn new(key: &ObjectKey, object: PinnedObject) -> Self {
        Self {
            name: name(key),
            path: object.path(),
            object: Mutex::new(Some(object)),
        }
    }

    fn object(&self) -> Result<PinnedObject> {
        let object = self.object.lock().unwrap_or_else(PoisonError::into_inner);
        object.clone().ok_or_else(|| {
            let message = format!(
                "the cached object {} was closed; pin it again",
                self.path.display()
            );
            PackageError::new("CacheValueError", "closed", message).into()
        })
    }
}

#[pymethods]
impl NativeCachedObject {
    /// Name in indexes.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Sparse file with its pieces at their offsets.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Length in bytes.
    #[getter]
    fn bytes(&self) -> Result<u64> {
        Ok(self.object()?.bytes())
    }

    /// Length of a piece.
    #[getter]
    fn piece_bytes(&self) -> Result<u64> {
        Ok(self.object()?.piece_bytes())
    }

    /// Missing ranges of pieces within a range; if none, the file has the bytes.
    fn missing(&self, py: Python<'_>, start: u64, stop: u64) -> Result<Vec<(u64, u64)>> {
        let object = self.object()?;
        let missing = detach(py, || object.missing(start..stop))?;
        Ok(missing.iter().map(|one| (one.start, one.end)).collect())
    }

    /// Reserves missing pieces of a range that nobody else is fetching, if any.
    fn reserve(&self, py: Python<'_>, start: u64, stop: u64) -> Result<NativeReservation> {
        let object = self.object()?;
        let reservation = detach(py, || object.reserve(start..stop))?;
        Ok(NativeReservation(Mutex::new(Some(reservation))))
    }

    /// Reads present bytes into a buffer.
    fn read_into(
        &self,
        py: Python<'_>,
        offset: u64,
        mut buffer: PyReadwriteArray1<'_, u8>,
    ) -> Result<()> {
        let object = self.object()?;
        let bytes = buffer.as_slice_mut().map_err(PyErr::from)?;
        detach(py, || object.read_at(offset, bytes))?;
        Ok(())
    }

    /// BLAKE3 digest of the whole object, in hex.
    fn digest(&self, py: Python<'_>) -> Result<String> {
        let object = self.object()?;
        let digest = detach(py, || object.digest())?;
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// Allows its eviction.
    fn close(&self) {
        self.object
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }
}

/// Pieces to be fetched and stored by the caller.
#[pyclass(frozen)]
pub(crate) struct NativeReservation(Mutex<Option<Reservation>>);

#[pymethods]
impl NativeReservation {
    /// Their ranges of bytes.
    #[getter]
    fn ranges(&self) -> Vec<(u64, u64)> {
        let own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ranges = own.iter().flat_map(Reservation::ranges);
        ranges.map(|one| (one.start, one.end)).collect()
    }

    /// Stores whole pieces. `crc32c`: checksum from the sender, if any.
    #[pyo3(signature = (offset, bytes, crc32c=None))]
    fn store(
        &self,
        py: Python<'_>,
        offset: u64,
        bytes: PyReadonlyArray1<'_, u8>,
        crc32c: Option<u32>,
    ) -> Result<()> {
        let bytes = bytes.as_slice().map_err(PyErr::from)?;
        detach(py, || {
            let mut own = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let check = crc32c.map_or(Check::VerifiedByCaller, Check::Crc32c);
            match own.as_mut() {
                Some(own) => own.store(offset, bytes, check).map_err(Error::from),
                None => {
                    let message = "the reservation was closed; reserve the range again";
                    Err(PackageError::new("CacheValueError", "closed", message.into()).into())
                }
            }
        })
    }

    /// Releases what was not stored.
    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
