//! Temporary signals.
//!
//! A scratch signal is the only one of a store of its own, which lies in the `tmp/` of the store that it was asked of (in
//! the system's temporary folder if that is open for reading only). It is never committed and its folder is removed when
//! the last handle is dropped; what a crash leaves behind, recovery removes.

use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::append::SignalWriter;
use crate::backend::Backend;
use crate::engine::{Engine, OpenMode};
use crate::error::StoreError;
use crate::options::{CreateOptions, Mode};
use crate::store::{Shared, Store};

/// A temporary signal: written and read as any other, zero-copy too, but never listed nor committed.
///
/// [`SignalWriter::write`] changes its samples where they lie: segments taken before show the new ones.
#[derive(Clone)]
pub struct Scratch {
    writer: SignalWriter,
    _store: Arc<TemporaryStore>,
}

/// Name of the signal in its store.
const NAME: &str = "scratch";

struct TemporaryStore {
    store: Store,
    folder: PathBuf,
}

impl Drop for TemporaryStore {
    fn drop(&mut self) {
        // Best effort: recovery of the surrounding store empties `tmp/` too.
        let _ = self.store.close();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Scratch {
    pub(crate) fn new(shared: &Arc<Shared>, options: &CreateOptions) -> Result<Self, StoreError> {
        let folder = match shared.backend.engine_in_place("make a scratch signal") {
            Ok(engine) => engine.new_tmp().1,
            Err(StoreError::ReadOnly { .. }) => system_folder(),
            Err(error) => return Err(error),
        };
        let engine = Engine::open(&folder, OpenMode::CreateNew)?;
        let store = Store::new(Backend::writer(&folder, engine), Mode::Create, true);
        let store = Arc::new(TemporaryStore { store, folder });
        let writer = store.store.create(NAME, options)?;
        Ok(Self {
            writer,
            _store: store,
        })
    }
}

impl Deref for Scratch {
    type Target = SignalWriter;

    fn deref(&self) -> &SignalWriter {
        &self.writer
    }
}

fn system_folder() -> PathBuf {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("isochrony-scratch-{}-{count}", std::process::id());
    std::env::temp_dir().join(name)
}
