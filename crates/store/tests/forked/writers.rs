//! Processes forked from a writer change nothing in its store and keep no locks of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, StoreError};
use isochrony_time::Rate;
use serde_json::{Map, json};

fn options() -> CreateOptions {
    CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap())
}

fn new_store(path: &Path) -> Store {
    let store = Store::open(path, Mode::Create).unwrap();
    let writer = store.create("a", &options()).unwrap();
    writer.append(&[1i16, 2, 3]).unwrap();
    store.commit(true).unwrap();
    store
}

fn fork(act: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the new process has only this thread. It takes no lock that another thread may hold, except the
    // allocator's, which fork resets; it unwinds to here and runs no exit code of the test.
    let process = unsafe { libc::fork() };
    assert!(process >= 0);
    if process == 0 {
        // Even if it blocks. SAFETY: the call changes this process's timer and no memory.
        unsafe { libc::alarm(60) };
        std::panic::set_hook(Box::new(|_| {}));
        let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or(false);
        // SAFETY: it does not return.
        unsafe { libc::_exit(i32::from(!done)) }
    }
    process
}

fn wait(process: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: the kernel writes one number, which outlives the call.
    let ended = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(ended, process);
    status
}

fn is_refused<T>(result: Result<T, StoreError>) -> bool {
    result.is_err_and(|error| error.code() == "forked")
}

#[test]
fn a_forked_child_changes_nothing_of_its_parents_store() {
    let _alone = super::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let store = new_store(&path);
    let scratch = store.scratch(&options()).unwrap();
    scratch.append(&[7i16, 8]).unwrap();
    let mut attributes = Map::new();
    attributes.insert("site".into(), json!("parent"));
    store.set_attributes(&attributes).unwrap();
    let status = wait(fork(|| {
        let mut own = Map::new();
        own.insert("site".into(), json!("child"));
        let refused = [
            is_refused(store.set_attributes(&own)),
            is_refused(store.writer("a").and_then(|a| a.append(&[4i16]).map(drop))),
            is_refused(store.writer("a").and_then(|a| a.write(0, &[4i16]))),
            is_refused(store.create("b", &options()).map(drop)),
            is_refused(store.scratch(&options()).map(drop)),
            is_refused(store.commit(true)),
            is_refused(store.repair(&Default::default())),
        ];
        assert_eq!(refused, [true; 7]);
        assert!(!store.is_writable());
        assert_eq!(store.attributes().unwrap(), attributes);
        drop(scratch.clone());
        store.close().unwrap();
        true
    }));
    assert_eq!(status, 0);
    assert_eq!(store.attributes().unwrap(), attributes);
    store.writer("a").unwrap().append(&[4i16]).unwrap();
    store.commit(true).unwrap();
    assert!(scratch.folder().is_dir());
    store.close().unwrap();
}

#[test]
fn a_forked_child_that_ends_leaves_scratch_to_its_parent() {
    let _alone = super::alone();
    let folder = tempfile::tempdir().unwrap();
    let store = new_store(&folder.path().join("a.iso"));
    let mut scratch = Some(store.scratch(&options()).unwrap());
    scratch.as_ref().unwrap().append(&[7i16, 8]).unwrap();
    let status = wait(fork(|| {
        drop(scratch.take());
        true
    }));
    assert_eq!(status, 0);
    assert!(scratch.unwrap().folder().is_dir());
}

#[test]
fn the_lock_of_a_killed_writer_is_free_though_its_forked_child_lives() {
    let _alone = super::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    new_store(&path).close().unwrap();
    let mut pipe = [0; 2];
    // SAFETY: the kernel writes two numbers, which outlive the call.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    let writer = fork(|| {
        let store = Store::open(&path, Mode::ReadWrite).unwrap();
        store.writer("a").unwrap().append(&[4i16]).unwrap();
        store.commit(true).unwrap();
        let child = fork(|| {
            // SAFETY: it waits for a signal and accesses no memory.
            unsafe { libc::pause() };
            true
        });
        // SAFETY: the number is on the stack; the killed process is this one.
        unsafe {
            libc::write(pipe[1], (&raw const child).cast(), size_of_val(&child));
            libc::kill(libc::getpid(), libc::SIGKILL);
        }
        false
    });
    assert_ne!(wait(writer), 0);
    let mut child: libc::pid_t = 0;
    // SAFETY: the kernel writes one number, which outlives the call.
    let read = unsafe { libc::read(pipe[0], (&raw mut child).cast(), size_of_val(&child)) };
    assert_eq!(read, size_of_val(&child).cast_signed());
    // SAFETY: signal 0 is not delivered; the call only checks that the process exists.
    let lives = unsafe { libc::kill(child, 0) } == 0;
    assert!(lives, "the child ended: the test shows nothing");
    let opened = Store::open(&path, Mode::ReadWrite);
    // SAFETY: the process is the one forked above and existed a moment ago.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let store = opened.unwrap();
    assert_eq!(store.signal("a").unwrap().end_index(), 4);
    store.close().unwrap();
}

#[test]
fn the_lock_stays_with_the_parent_when_its_child_ends() {
    let _alone = super::alone();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let store = new_store(&path);
    assert_eq!(wait(fork(|| store.close().is_ok())), 0);
    let refused = Store::open(&path, Mode::ReadWrite).map(drop).unwrap_err();
    assert_eq!(refused.code(), "locked");
    store.close().unwrap();
}

#[test]
fn programs_that_a_forked_child_starts_get_no_descriptor_of_the_store() {
    let _alone = super::alone();
    let folder = tempfile::tempdir().unwrap();
    let store = new_store(&folder.path().join("a.iso"));
    let lock = store.path().join(".isochrony/LOCK");
    let to_lock = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path()).is_ok_and(|target| target == lock)
    };
    let open = std::fs::read_dir("/proc/self/fd").unwrap();
    let held: Vec<_> = open
        .map(Result::unwrap)
        .filter(to_lock)
        .map(|entry| entry.file_name())
        .collect();
    // One open file: the fork leaves no other to the child.
    assert_eq!(held.len(), 1);
    let status = wait(fork(|| {
        let about = Path::new("/proc/self/fdinfo").join(&held[0]);
        let about = std::fs::read_to_string(about).unwrap();
        let flags = about.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = i32::from_str_radix(flags.unwrap().trim(), 8).unwrap();
        flags & libc::O_CLOEXEC != 0
    }));
    assert_eq!(status, 0);
    store.close().unwrap();
}
