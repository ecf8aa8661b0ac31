//! Wakes a run when a store's log changes.
//!
//! An idle run polls every 20 ms anyway: this only lowers latency and may fail. Inotify takes 0.1 ms and is free while
//! nobody writes; polling every millisecond would be slower and wake the machine as often.

#[cfg(target_os = "linux")]
pub(super) use linux::LogWatcher;
#[cfg(not(target_os = "linux"))]
pub(super) use unsupported::LogWatcher;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::Arc;
    use std::task::Waker;
    use std::thread::JoinHandle;

    use isochrony_store::layout;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::{Errno, read, write};

    /// A thread that waits for changes until dropped.
    #[derive(Debug)]
    pub(in super::super) struct LogWatcher {
        stop: Arc<OwnedFd>,
        thread: Option<JoinHandle<()>>,
    }

    impl LogWatcher {
        /// None if not supported.
        pub(in super::super) fn new(store: &Path, waker: Waker) -> Option<Self> {
            let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
            inotify::add_watch(&changes, layout::engine_folder(store), what).ok()?;
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
            let stopped = stop.clone();
            let thread = isochrony_runtime::start_helper("follow", move || {
                watch_log(&changes, &stopped, &waker)
            });
            let thread = thread.ok()?;
            Some(Self {
                stop,
                thread: Some(thread),
            })
        }
    }

    fn watch_log(changes: &OwnedFd, stop: &OwnedFd, waker: &Waker) {
        let mut events = [MaybeUninit::uninit(); 4096];
        loop {
            let mut either = [
                PollFd::new(changes, PollFlags::IN),
                PollFd::new(stop, PollFlags::IN),
            ];
            match poll(&mut either, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            if !either[1].revents().is_empty() {
                return;
            }
            // The run polls instead.
            while read(changes, &mut events).is_ok_and(|(told, _)| !told.is_empty()) {}
            waker.wake_by_ref();
        }
    }

    impl Drop for LogWatcher {
        fn drop(&mut self) {
            // An eventfd accepts 2^64 - 2 of these.
            let _ = write(&self.stop, &1u64.to_ne_bytes());
            if let Some(thread) = self.thread.take() {
                // It does not panic.
                let _ = thread.join();
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unsupported {
    use std::path::Path;
    use std::task::Waker;

    /// Wakes nobody: the run polls.
    #[derive(Debug)]
    pub(in super::super) struct LogWatcher;

    impl LogWatcher {
        pub(in super::super) fn new(_: &Path, _: Thread) -> Option<Self> {
            None
        }
    }
}
