//! Reads that stay in flight: of pipes without data.

use std::fs::File;
use std::io::{PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::*;
use crate::scan::BufferPool;

#[path = "../../tests/uring/mod.rs"]
mod kernel;

/// Longer than any operation takes on any machine.
const LONG: Duration = Duration::from_secs(60);

fn reads() -> Option<ReadRing> {
    if let Some(why) = kernel::refused() {
        eprintln!("no io_uring here: not tested: {why}");
        return None;
    }
    Some(ReadRing::new().unwrap())
}

fn pipe() -> (File, PipeWriter) {
    let (from, to) = std::io::pipe().unwrap();
    (File::from(OwnedFd::from(from)), to)
}

fn begin(reads: &mut ReadRing, request: PieceRequest) -> usize {
    let buffer = BufferPool::default().take(request.room()).unwrap();
    reads.submit(request, buffer).unwrap()
}

fn bytes(job: &mut ReadJob, part: usize) -> Vec<u8> {
    let from = job.request.parts[part].place(&job.buffer);
    let got = job.got[part];
    job.buffer.get_mut().unwrap()[from..from + got].to_vec()
}

#[test]
fn the_kernel_itself_reads_every_part_of_a_file() {
    let Some(mut reads) = reads() else { return };
    let mut file = tempfile::tempfile().unwrap();
    let written: Vec<u8> = (0..300_000_u32).map(|k| ((k * 7) >> 3) as u8).collect();
    file.write_all(&written).unwrap();
    // More parts than the ring holds.
    let part = |k: usize| (file.try_clone().unwrap(), k as u64 * 7_001, 7_001);
    let number = begin(&mut reads, PieceRequest::of((0..40).map(part)));
    let mut job = reads.wait(number).unwrap();
    for k in 0..40 {
        assert_eq!(job.got[k], 7_001, "part {k}");
        let from = k * 7_001;
        assert_eq!(bytes(&mut job, k), written[from..from + 7_001]);
    }
}

#[test]
fn pieces_completed_in_another_order_are_distinguished() {
    let Some(mut reads) = reads() else { return };
    let ((first, mut to_first), (second, mut to_second)) = (pipe(), pipe());
    let first = begin(&mut reads, PieceRequest::of([(first, 0, 5)]));
    let second = begin(&mut reads, PieceRequest::of([(second, 0, 6)]));
    assert_eq!(reads.in_flight, 2, "a pipe that is empty was read");
    to_second.write_all(b"second").unwrap();
    assert_eq!(bytes(&mut reads.wait(second).unwrap(), 0), b"second");
    to_first.write_all(b"first").unwrap();
    assert_eq!(bytes(&mut reads.wait(first).unwrap(), 0), b"first");
    assert!(reads.wait(first).is_err(), "it was given away already");
}

#[test]
fn parts_of_a_piece_may_complete_in_any_order_and_in_part() {
    let Some(mut reads) = reads() else { return };
    let ((one, mut to_one), (two, mut to_two)) = (pipe(), pipe());
    let number = begin(&mut reads, PieceRequest::of([(one, 0, 100), (two, 0, 3)]));
    to_two.write_all(b"two").unwrap();
    to_one
        .write_all(b"of a hundred bytes, forty or less")
        .unwrap();
    let mut job = reads.wait(number).unwrap();
    assert_eq!(job.got, [33, 3]);
    assert_eq!(bytes(&mut job, 0), b"of a hundred bytes, forty or less");
    assert_eq!(bytes(&mut job, 1), b"two");
}

#[test]
fn memory_is_kept_until_the_kernel_has_completed() {
    if reads().is_none() {
        return;
    }
    let (file, mut to) = pipe();
    let (say, said) = channel();
    let thread = std::thread::spawn(move || {
        let mut reads = reads().unwrap();
        begin(&mut reads, PieceRequest::of([(file, 0, 4)]));
        say.send(reads.in_flight).unwrap();
        drop(reads);
        say.send(0).unwrap();
    });
    assert_eq!(said.recv_timeout(LONG), Ok(1), "the kernel has the request");
    let early = said.recv_timeout(Duration::from_millis(200));
    assert_eq!(early, Err(RecvTimeoutError::Timeout), "it did not wait");
    to.write_all(b"late").unwrap();
    assert_eq!(said.recv_timeout(LONG), Ok(0), "it waits for ever");
    thread.join().unwrap();
}

#[test]
fn abandoned_pieces_keep_only_the_memory_that_the_kernel_uses() {
    let Some(mut reads) = reads() else { return };
    let (file, mut to) = pipe();
    let kept = |reads: &ReadRing| reads.jobs.iter().flatten().count();
    let pieces = || PieceRequest::of((0..3).map(|_| (file.try_clone().unwrap(), 0, 1)));
    for _ in 0..100 {
        let number = begin(&mut reads, pieces());
        reads.abandon(number);
        assert!(
            kept(&reads) <= RING_ENTRIES as usize / 3 + 1,
            "{}",
            kept(&reads)
        );
        assert!(reads.queued.is_empty());
    }
    assert_eq!(reads.in_flight, RING_ENTRIES as usize);
    // As many bytes as requests, completed in any order.
    let number = begin(&mut reads, pieces());
    to.write_all(&[7; RING_ENTRIES as usize + 3]).unwrap();
    assert_eq!(reads.wait(number).unwrap().got, [1, 1, 1]);
}

#[test]
fn requests_cancelled_with_their_thread_are_read_by_the_waiter() {
    let Some(mut reads) = reads() else { return };
    let (file, mut to) = pipe();
    let thread = std::thread::spawn(move || {
        let number = begin(&mut reads, PieceRequest::of([(file, 0, 4)]));
        (reads, number)
    });
    let (mut reads, number) = thread.join().unwrap();
    // Completes it, unless the kernel has cancelled it.
    to.write_all(b"late").unwrap();
    let mut job = reads.wait(number).unwrap();
    assert!(job.got == [0] || bytes(&mut job, 0) == b"late", "{job:?}");
    assert_eq!(reads.in_flight, 0);
}

#[test]
fn a_piece_that_cannot_be_requested_is_not_waited_for() {
    let Some(mut reads) = reads() else { return };
    let (say, said) = channel();
    std::thread::spawn(move || {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1_000).unwrap();
        // Everything in flight is complete, and fills the ring.
        let part = |_| (file.try_clone().unwrap(), 0, 10);
        begin(&mut reads, PieceRequest::of((0..RING_ENTRIES).map(part)));
        let request = PieceRequest::of([part(0)]);
        let buffer = BufferPool::default().take(request.room()).unwrap();
        let _view = buffer.clone();
        let number = reads.submit(request, buffer).unwrap();
        say.send(reads.wait(number).unwrap().got).unwrap();
    });
    assert_eq!(said.recv_timeout(LONG), Ok(vec![0]), "it waits for ever");
}
