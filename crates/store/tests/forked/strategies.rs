//! Forks while a signal is read, as by a Python program with `multiprocessing`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::time::Duration;

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Signal, SignalReader, Store, Strategy};
use isochrony_time::Rate;

const PIECE: i64 = 10_000;
const PIECES: i64 = 20;

fn sample(index: i64) -> i16 {
    (index.wrapping_mul(2_654_435_761) >> 13) as i16
}

fn made(folder: &std::path::Path) -> (Store, Signal) {
    let store = Store::open(folder.join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    let samples: Vec<i16> = (0..PIECE * PIECES).map(sample).collect();
    writer.append(&samples).unwrap();
    store.commit(true).unwrap();
    let signal = writer.signal().unwrap();
    (store, signal)
}

fn is_read(reader: &mut SignalReader, piece: i64) -> bool {
    let range = piece * PIECE..(piece + 1) * PIECE;
    let found = reader.read(range.clone()).unwrap().to_vec::<i16>().unwrap();
    found.into_iter().eq(range.map(sample))
}

/// Exit status, 0 for true.
fn forked(act: impl FnOnce() -> bool) -> i32 {
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
    let mut status = 0;
    // SAFETY: the kernel writes one number, which outlives the call.
    let ended = unsafe { libc::waitpid(process, &raw mut status, 0) };
    assert_eq!(ended, process);
    status
}

/// Forks in between; gives the child's status once all is read here.
fn read(strategy: Strategy, act: fn(SignalReader) -> bool) -> i32 {
    let (say, said) = channel();
    std::thread::spawn(move || {
        let folder = tempfile::tempdir().unwrap();
        let (_store, signal) = made(folder.path());
        let parts = signal.select(0..PIECE * PIECES).unwrap().parts().to_vec();
        let mut reader = Some(SignalReader::new(&signal, &parts, PIECE, strategy).unwrap());
        assert!((0..3).all(|piece| is_read(reader.as_mut().unwrap(), piece)));
        let status = forked(|| act(reader.take().unwrap()));
        let mut reader = reader.unwrap();
        let before = reader.reading().clone();
        assert!((3..PIECES).all(|piece| is_read(&mut reader, piece)));
        assert_eq!(*reader.reading(), before);
        drop(reader);
        say.send(status).unwrap();
    });
    let status = said.recv_timeout(Duration::from_secs(120));
    status.unwrap_or_else(|error| panic!("{strategy}: the parent: {error}"))
}

#[test]
fn a_forked_process_that_ends_takes_nothing_from_its_parent() {
    let _alone = super::alone();
    for strategy in Strategy::ALL {
        let status = read(strategy, |reader| {
            drop(reader);
            true
        });
        assert_eq!(status, 0, "{strategy}: the child");
    }
}

#[test]
fn a_forked_process_reads_by_itself() {
    let _alone = super::alone();
    for strategy in Strategy::ALL {
        let status = read(strategy, |mut reader| {
            let right = (3..PIECES).all(|piece| is_read(&mut reader, piece));
            let reading = reader.reading();
            let apart = reading.asked.uses_io_uring() || reading.asked == Strategy::Direct;
            let why = reading.why.clone().unwrap_or_default();
            let said = !apart || reading.used == Some(Strategy::Read);
            drop(reader);
            // An io_uring may have been refused from the beginning.
            right && said && (!apart || !why.is_empty())
        });
        assert_eq!(status, 0, "{strategy}: the child");
    }
}
