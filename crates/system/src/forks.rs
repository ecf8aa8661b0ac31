//! Detects forks, and keeps locks with the process that took them.
//!
//! A kernel's file lock belongs to the open file, which a forked child shares and would keep locked. So each child
//! first redirects such descriptors to a null file.
#![allow(unsafe_code)] // Handlers of forks have no safe crate.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// A descriptor that children replace. Reused, never freed.
#[derive(Debug)]
struct Entry {
    /// -1: none.
    descriptor: AtomicI32,
    next: AtomicPtr<Entry>,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());

/// Opened early, as a fork handler must not depend on resources that may run out.
static NULL_FILE: OnceLock<Option<File>> = OnceLock::new();

static FORKS: AtomicU32 = AtomicU32::new(0);

/// Distinguishes a process from its forks; cheaper than its pid.
#[must_use]
pub fn this_process() -> u32 {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        // SAFETY: the handler only changes an atomic number.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    FORKS.load(Ordering::Relaxed)
}

extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// An open file whose descriptor forked children do not share.
#[derive(Debug)]
pub struct UninheritedFile {
    file: File,
    entry: &'static Entry,
}

impl UninheritedFile {
    /// Call before locking, or a fork in between would keep the lock.
    #[must_use]
    pub fn new(file: File) -> Self {
        NULL_FILE.get_or_init(|| {
            // SAFETY: the handler calls only async-signal-safe functions, and reads atomics that are never freed.
            let registered = unsafe { libc::pthread_atfork(None, None, Some(exchange)) } == 0;
            File::options()
                .read(true)
                .write(true)
                .open("/dev/null")
                .ok()
                .filter(|_| registered)
        });
        let entry = enter(file.as_raw_fd());
        Self { file, entry }
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for UninheritedFile {
    fn drop(&mut self) {
        // Before the file is closed and its descriptor reused.
        self.entry.descriptor.store(-1, Ordering::SeqCst);
    }
}

fn enter(descriptor: i32) -> &'static Entry {
    for entry in entries() {
        let taken =
            entry
                .descriptor
                .compare_exchange(-1, descriptor, Ordering::SeqCst, Ordering::SeqCst);
        if taken.is_ok() {
            return entry;
        }
    }
    let entry: &'static Entry = Box::leak(Box::new(Entry {
        descriptor: AtomicI32::new(descriptor),
        next: AtomicPtr::new(std::ptr::null_mut()),
    }));
    let mut first = FIRST.load(Ordering::SeqCst);
    loop {
        entry.next.store(first, Ordering::SeqCst);
        let address = std::ptr::from_ref(entry).cast_mut();
        match FIRST.compare_exchange(first, address, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => return entry,
            Err(other) => first = other,
        }
    }
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    let at = |address: &AtomicPtr<Entry>| {
        let address = address.load(Ordering::SeqCst);
        // SAFETY: every address is null or of a leaked entry, changed only through its atomics.
        unsafe { address.as_ref() }
    };
    std::iter::successors(at(&FIRST), move |entry| at(&entry.next))
}

/// Runs in a child right after the fork: must not allocate or lock.
extern "C" fn exchange() {
    let Some(Some(nowhere)) = NULL_FILE.get() else {
        return;
    };
    for entry in entries() {
        let descriptor = entry.descriptor.load(Ordering::SeqCst);
        if descriptor >= 0 {
            // SAFETY: both descriptors are open: an entry loses its own before that is closed. The `File` still owns
            // the number. Programs that the child executes do not inherit it.
            unsafe { libc::dup3(nowhere.as_raw_fd(), descriptor, libc::O_CLOEXEC) };
        }
    }
}
