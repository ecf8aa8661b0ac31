//! Shards of signals in a host's cache, for Python.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use isochrony_store::shard_cache::{
    Cache, ObjectKey, ObjectName, PeerAddress, PieceSource, ReportCursor, ShardCache,
};
use numpy::PyReadonlyArray1;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::Result;
use crate::interpreter::{attach, detach};

/// A host's cache as stores read through it.
#[pyclass(frozen)]
pub(crate) struct NativeShardCache {
    pub(crate) shards: Arc<ShardCache>,
    peers: Option<Arc<PythonPeers>>,
}

impl NativeShardCache {
    pub(super) fn new(
        cache: Cache,
        host: String,
        address: Option<PeerAddress>,
        fetch: Option<Py<PyAny>>,
    ) -> Result<Self> {
        let peers = fetch.map(|fetch| Arc::new(PythonPeers(Mutex::new(Some(fetch)))));
        let source = peers.clone().map(|peers| peers as Arc<dyn PieceSource>);
        let shards = ShardCache::new(cache, source)?.named(host, address);
        Ok(Self {
            shards: Arc::new(shards),
            peers,
        })
    }
}

#[pymethods]
impl NativeShardCache {
    /// Its content, for a task scheduler.
    fn report<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        let report = detach(py, || {
            self.shards.report(&mut ReportCursor::default()).to_bytes()
        })?;
        Ok(PyBytes::new(py, &report))
    }

    /// Registers another host, about to fetch pieces of a shard, as a source.
    fn add_source(
        &self,
        store: [u8; 16],
        signal: u64,
        shard: u64,
        content_version: u64,
        address: PeerAddress,
    ) {
        let key = ObjectKey::Shard {
            store,
            signal,
            shard,
            content_version,
        };
        (self.shards).add_sources(ObjectName::from(&key), vec![address]);
    }

    /// Sources of signal bytes in this process.
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let counts = self.shards.counts();
        let dict = PyDict::new(py);
        dict.set_item("local_bytes", counts.local_bytes)?;
        dict.set_item("peer_bytes", counts.peer_bytes)?;
        dict.set_item("storage_bytes", counts.storage_bytes)?;
        dict.set_item("hits", counts.hits)?;
        dict.set_item("misses", counts.misses)?;
        dict.set_item("rejected", counts.rejected)?;
        Ok(dict)
    }

    /// Unpins everything not being read, and asks no more peers. Until then the cache and its function form a cycle
    /// invisible to Python's collector.
    fn close(&self, py: Python<'_>) {
        let function = self.peers.as_ref().and_then(|peers| peers.lock().take());
        drop(function);
        detach(py, || self.shards.release());
    }
}

/// A Python function of key, length, missing ranges and addresses of hosts; it gives offsets and arrays of bytes. None
/// once closed.
#[derive(Debug)]
struct PythonPeers(Mutex<Option<Py<PyAny>>>);

impl PythonPeers {
    fn lock(&self) -> MutexGuard<'_, Option<Py<PyAny>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PieceSource for PythonPeers {
    fn fetch(
        &self,
        object: &ObjectKey,
        object_bytes: u64,
        missing: &[Range<u64>],
        sources: &[PeerAddress],
        take: &mut (dyn FnMut(u64, &[u8]) -> bool + Send),
    ) {
        let ObjectKey::Shard {
            store,
            signal,
            shard,
            content_version,
        } = object
        else {
            return;
        };
        let store: String = store.iter().map(|byte| format!("{byte:02x}")).collect();
        let key = (store, *signal, *shard, *content_version);
        let missing: Vec<_> = missing.iter().map(|part| (part.start, part.end)).collect();
        let sources = sources.to_vec();
        let fetched: PyResult<()> = attach(|py| {
            let Some(function) = self.lock().as_ref().map(|function| function.clone_ref(py)) else {
                return Ok(());
            };
            let blocks = function.call1(py, (key, object_bytes, missing, sources))?;
            let mut blocks = blocks.bind(py).try_iter()?;
            while let Some(block) = blocks.next() {
                let (offset, bytes): (u64, PyReadonlyArray1<'_, u8>) = block?.extract()?;
                let bytes = bytes.as_slice()?;
                if !detach(py, || take(offset, bytes)) {
                    blocks.call_method0("close")?;
                    break;
                }
            }
            Ok(())
        });
        // The store is read instead.
        if let Err(error) = fetched {
            attach(|py| {
                let is_expected = error.is_instance_of::<PyOSError>(py)
                    || error.is_instance_of::<PyValueError>(py);
                if !is_expected {
                    error.write_unraisable(py, None);
                }
            });
        }
    }
}
