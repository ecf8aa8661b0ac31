//! Shards of signals in a host's cache, for Python.

use std::ops::Range;
use std::sync::Arc;

use isochrony_store::shard_cache::{
    Cache, ObjectKey, PeerAddress, PieceSource, ReportCursor, ShardCache,
};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::errors::Result;
use crate::interpreter::{attach, detach};

/// A host's cache as stores read through it.
#[pyclass(frozen)]
pub(crate) struct NativeShardCache(pub(crate) Arc<ShardCache>);

impl NativeShardCache {
    pub(super) fn new(
        cache: Cache,
        host: String,
        address: Option<PeerAddress>,
        fetch: Option<Py<PyAny>>,
    ) -> Result<Self> {
        let peers = fetch.map(|fetch| Arc::new(PythonPeers(fetch)) as Arc<dyn PieceSource>);
        let shards = ShardCache::new(cache, peers)?.named(host, address);
        Ok(Self(Arc::new(shards)))
    }
}

#[pymethods]
impl NativeShardCache {
    /// What it has, for a scheduler of tasks.
    fn report<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyBytes>> {
        let report = detach(py, || {
            self.0.report(&mut ReportCursor::default()).to_bytes()
        })?;
        Ok(PyBytes::new(py, &report))
    }

    /// Where bytes of signals came from in this process.
    fn counts<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyDict>> {
        let counts = self.0.counts();
        let dict = PyDict::new(py);
        dict.set_item("local_bytes", counts.local_bytes)?;
        dict.set_item("peer_bytes", counts.peer_bytes)?;
        dict.set_item("storage_bytes", counts.storage_bytes)?;
        dict.set_item("hits", counts.hits)?;
        dict.set_item("misses", counts.misses)?;
        dict.set_item("rejected", counts.rejected)?;
        Ok(dict)
    }

    /// Lets all be evicted that nobody reads now.
    fn release(&self, py: Python<'_>) {
        detach(py, || self.0.release());
    }
}

/// A function of Python that gives blocks of an object: called with its key, its length, ranges that are missing and
/// addresses of hosts, it gives pairs of an offset and an array of bytes.
#[derive(Debug)]
struct PythonPeers(Py<PyAny>);

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
        // What goes wrong there is no reason to fail: the store is read instead.
        let _: PyResult<()> = attach(|py| {
            let blocks = self.0.call1(py, (key, object_bytes, missing, sources))?;
            let mut blocks = blocks.bind(py).try_iter()?;
            while let Some(block) = blocks.next() {
                let (offset, bytes): (u64, PyReadonlyArray1<'_, u8>) = block?.extract()?;
                let bytes = bytes.as_slice()?;
                if !detach(py, || take(offset, bytes)) {
                    // A generator ends its transfer.
                    blocks.call_method0("close")?;
                    break;
                }
            }
            Ok(())
        });
    }
}
