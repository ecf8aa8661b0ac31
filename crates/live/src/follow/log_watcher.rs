//! Wakes a run when a store's log changes.
//!
//! An idle run polls every 20 ms anyway: this only lowers latency and may fail. A notification takes 0.1 ms and is free
//! while nobody writes; polling every millisecond would be slower.

use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;

use isochrony_store::layout;
use isochrony_system::folder_watch::FolderWatch;

#[derive(Debug)]
pub(super) struct LogWatcher {
    watch: Arc<FolderWatch>,
    thread: Option<JoinHandle<()>>,
}

impl LogWatcher {
    /// None if not supported.
    pub(super) fn new(store: &Path, waker: Waker) -> Option<Self> {
        let watch = Arc::new(FolderWatch::new(&layout::engine_folder(store))?);
        let watched = Arc::clone(&watch);
        let thread = isochrony_runtime::start_helper("follow", move || {
            while watched.wait() {
                waker.wake_by_ref();
            }
        });
        Some(Self {
            watch,
            thread: Some(thread.ok()?),
        })
    }
}

impl Drop for LogWatcher {
    fn drop(&mut self) {
        self.watch.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
