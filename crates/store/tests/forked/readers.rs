//! Processes forked while another thread holds a lock of the store can read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::channel;

use super::medium::Medium;
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Signal, Store};
use isochrony_time::Rate;

fn samples(signal: &Signal) -> Vec<i16> {
    let selection = signal.select(0..signal.end_index()).unwrap();
    selection.counts(-1i16).unwrap()
}

/// Exit status, 0 for true.
fn forked(act: impl FnOnce() -> bool) -> i32 {
    // SAFETY: the new process has only this thread. It takes no lock that another thread may hold except those of the
    // store, which are under test; it unwinds to here and runs no exit code of the test.
    let process = unsafe { libc::fork() };
    assert!(process >= 0);
    if process == 0 {
        // Even if it blocks. SAFETY: the call changes this process's timer and no memory.
        unsafe { libc::alarm(20) };
        std::panic::set_hook(Box::new(|_| {}));
        let done = catch_unwind(AssertUnwindSafe(act)).unwrap_or(false);
        // SAFETY: it does not return.
        unsafe { libc::_exit(i32::from(!done)) }
    }
    let mut status = 0;
    // SAFETY: the kernel writes one number, which outlives the call.
    let ended = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(ended, process);
    status
}

fn read_in_a_fork_beside_a_read(mode: Mode, is_committed: bool) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let medium = Arc::new(Medium::new());
    let mut store = Store::open_on(&path, Mode::Create, medium.clone()).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("x", &options).unwrap();
    let stored: Vec<i16> = (0..1000).collect();
    writer.append(&stored).unwrap();
    if is_committed {
        store.commit(true).unwrap();
    }
    if mode == Mode::Read {
        store.close().unwrap();
        store = Store::open_on(&path, Mode::Read, medium.clone()).unwrap();
    }
    let signal = store.signal("x").unwrap();
    let (begin, begun) = channel();
    let (end, ended) = channel();
    medium.before_open("c/0", move || {
        begin.send(()).unwrap();
        ended.recv().unwrap();
    });
    std::thread::scope(|scope| {
        let other = scope.spawn(|| samples(&signal));
        begun.recv().unwrap();
        let status = forked(|| {
            let again = store.signal("x").map(|signal| samples(&signal));
            samples(&signal) == stored && again.is_ok_and(|again| again == stored) == is_committed
        });
        end.send(()).unwrap();
        assert_eq!(status, 0, "{mode:?}, committed: {is_committed}");
        assert_eq!(other.join().unwrap(), stored);
    });
}

#[test]
fn a_process_forked_during_a_read_reads_by_itself() {
    let _alone = super::alone();
    read_in_a_fork_beside_a_read(Mode::Create, true);
    read_in_a_fork_beside_a_read(Mode::Create, false);
    read_in_a_fork_beside_a_read(Mode::Read, true);
}

#[test]
fn a_forked_process_refuses_uncommitted_overwrites() {
    let _alone = super::alone();
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("x", &options).unwrap();
    writer.append(&[1i16; 100]).unwrap();
    store.commit(true).unwrap();
    let committed = writer.signal().unwrap();
    writer.write(10, &[2i16; 10]).unwrap();
    let overwritten = writer.signal().unwrap();
    let status = forked(|| {
        let selection = overwritten.select(0..100).unwrap();
        let refused = selection.counts(-1i16).unwrap_err();
        samples(&committed) == [1; 100] && refused.code() == "samples_replaced"
    });
    assert_eq!(status, 0);
    assert_eq!(samples(&overwritten)[10..20], [2; 10]);
}
