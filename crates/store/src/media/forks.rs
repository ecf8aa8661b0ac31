//! Locks that stay with the process that took them, and which process this is.
//!
//! The kernel's lock on a file belongs to the opening of that file, which a forked child shares: the lock of a writer
//! that was killed would be held by a child that knows nothing of it. So a child exchanges each such descriptor for one
//! that leads nowhere, as the first thing that it does.
#![allow(unsafe_code)] // Handlers of forks have no safe crate.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

/// A descriptor that no child keeps; entries are never freed, but used again.
#[derive(Debug)]
struct Entry {
    /// -1: none.
    descriptor: AtomicI32,
    next: AtomicPtr<Entry>,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(std::ptr::null_mut());

/// What the descriptors of children lead to. Opened early: a handler of forks must not need what may be used up.
static NOWHERE: OnceLock<Option<File>> = OnceLock::new();

/// How many forks lead from the program that was started to this process, as far as they are watched.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Tells a process from those that it is forked off; as cheap as a look at memory, unlike the process's number.
pub(crate) fn this_process() -> u32 {
    static WATCHED: OnceLock<()> = OnceLock::new();
    WATCHED.get_or_init(|| {
        // SAFETY: the handler changes an atomic number and does nothing else.
        unsafe { libc::pthread_atfork(None, None, Some(count)) };
    });
    FORKS.load(Ordering::Relaxed)
}

/// In a child, right after the fork.
extern "C" fn count() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A file whose descriptor forked children do not share.
#[derive(Debug)]
pub(super) struct NotInherited {
    file: File,
    entry: &'static Entry,
}

impl NotInherited {
    /// Call it before the lock is taken, or a fork in between would keep it.
    pub(super) fn new(file: File) -> Self {
        NOWHERE.get_or_init(|| {
            // SAFETY: the handler calls only functions that are safe in the child of a process with threads, and reads
            // atomics that live as long as the program.
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

    pub(super) fn file(&self) -> &File {
        &self.file
    }
}

impl Drop for NotInherited {
    fn drop(&mut self) {
        // Before the file is closed and its number is given to another.
        self.entry.descriptor.store(-1, Ordering::SeqCst);
    }
}

/// A free entry, or a new one, with this descriptor.
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
        // SAFETY: every address in the list is null or of an entry that was leaked, and nobody changes an entry except
        // through its atomics.
        unsafe { address.as_ref() }
    };
    std::iter::successors(at(&FIRST), move |entry| at(&entry.next))
}

/// In a child, right after the fork: allocates nothing, takes no lock.
extern "C" fn exchange() {
    let Some(Some(nowhere)) = NOWHERE.get() else {
        return;
    };
    for entry in entries() {
        let descriptor = entry.descriptor.load(Ordering::SeqCst);
        if descriptor >= 0 {
            // SAFETY: both descriptors are open: an entry loses its own before that is closed. The number stays with
            // the `File` that owns it, only that it leads nowhere now. Programs that the child starts do not get it.
            unsafe { libc::dup3(nowhere.as_raw_fd(), descriptor, libc::O_CLOEXEC) };
        }
    }
}
