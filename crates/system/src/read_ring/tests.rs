use std::fs::File;
use std::io::{PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::*;

#[path = "../../tests/uring/mod.rs"]
mod kernel;

/// Longer than any operation takes on any machine.
const LONG: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct TestRead {
    /// File, offset and length of each.
    files: Vec<(File, u64, usize)>,
    memory: Vec<u8>,
    /// As if someone else had a view of the memory.
    is_shared: bool,
}

impl TestRead {
    fn new(files: impl IntoIterator<Item = (File, u64, usize)>) -> Self {
        let files: Vec<_> = files.into_iter().collect();
        let len = files.iter().map(|(_, _, len)| len).sum();
        Self {
            files,
            memory: vec![0; len],
            is_shared: false,
        }
    }
}

// SAFETY: files and memory belong to the value alone, and a vector's memory stays when it is moved.
unsafe impl ReadTarget for TestRead {
    fn part_count(&self) -> usize {
        self.files.len()
    }

    fn parts(&mut self) -> Option<Vec<ReadPart>> {
        if self.is_shared {
            return None;
        }
        let mut memory = self.memory.as_mut_ptr();
        let parts = self.files.iter().map(|(file, offset, len)| {
            let part = ReadPart {
                file: file.as_raw_fd(),
                offset: *offset,
                memory,
                len: *len,
            };
            memory = memory.wrapping_add(*len);
            part
        });
        Some(parts.collect())
    }
}

fn reads() -> Option<ReadRing<TestRead>> {
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

fn bytes(read: &CompletedRead<TestRead>, part: usize) -> &[u8] {
    let lens = read.target.files.iter().map(|(_, _, len)| len);
    let from: usize = lens.take(part).sum();
    &read.target.memory[from..from + read.got[part]]
}

#[test]
fn the_kernel_itself_reads_every_part_of_a_file() {
    let Some(mut reads) = reads() else { return };
    let mut file = tempfile::tempfile().unwrap();
    let written: Vec<u8> = (0..300_000_u32).map(|k| ((k * 7) >> 3) as u8).collect();
    file.write_all(&written).unwrap();
    // More parts than the ring holds.
    let part = |k: usize| (file.try_clone().unwrap(), k as u64 * 7_001, 7_001);
    let number = reads.submit(TestRead::new((0..40).map(part))).unwrap();
    let read = reads.wait(number).unwrap();
    for k in 0..40 {
        assert_eq!(read.got[k], 7_001, "part {k}");
        let from = k * 7_001;
        assert_eq!(bytes(&read, k), &written[from..from + 7_001]);
    }
}

#[test]
fn reads_completed_in_another_order_are_distinguished() {
    let Some(mut reads) = reads() else { return };
    let ((first, mut to_first), (second, mut to_second)) = (pipe(), pipe());
    let first = reads.submit(TestRead::new([(first, 0, 5)])).unwrap();
    let second = reads.submit(TestRead::new([(second, 0, 6)])).unwrap();
    assert_eq!(reads.in_flight, 2, "a pipe that is empty was read");
    to_second.write_all(b"second").unwrap();
    assert_eq!(bytes(&reads.wait(second).unwrap(), 0), b"second");
    to_first.write_all(b"first").unwrap();
    assert_eq!(bytes(&reads.wait(first).unwrap(), 0), b"first");
    assert!(reads.wait(first).is_err(), "it was given away already");
}

#[test]
fn parts_of_a_read_may_complete_in_any_order_and_in_part() {
    let Some(mut reads) = reads() else { return };
    let ((one, mut to_one), (two, mut to_two)) = (pipe(), pipe());
    let target = TestRead::new([(one, 0, 100), (two, 0, 3)]);
    let number = reads.submit(target).unwrap();
    to_two.write_all(b"two").unwrap();
    to_one
        .write_all(b"of a hundred bytes, forty or less")
        .unwrap();
    let read = reads.wait(number).unwrap();
    assert_eq!(read.got, [33, 3]);
    assert_eq!(bytes(&read, 0), b"of a hundred bytes, forty or less");
    assert_eq!(bytes(&read, 1), b"two");
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
        reads.submit(TestRead::new([(file, 0, 4)])).unwrap();
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
fn abandoned_reads_keep_only_the_memory_that_the_kernel_uses() {
    let Some(mut reads) = reads() else { return };
    let (file, mut to) = pipe();
    let kept = |reads: &ReadRing<TestRead>| reads.reads.iter().flatten().count();
    let three = || TestRead::new((0..3).map(|_| (file.try_clone().unwrap(), 0, 1)));
    for _ in 0..100 {
        let number = reads.submit(three()).unwrap();
        reads.abandon(number);
        assert!(
            kept(&reads) <= RING_ENTRIES as usize / 3 + 1,
            "{}",
            kept(&reads)
        );
        assert!(reads.queued.is_empty());
    }
    assert_eq!(reads.in_flight, RING_ENTRIES as usize);
    let number = reads.submit(three()).unwrap();
    to.write_all(&[7; RING_ENTRIES as usize + 3]).unwrap();
    assert_eq!(reads.wait(number).unwrap().got, [1, 1, 1]);
}

#[test]
fn requests_cancelled_with_their_thread_are_read_by_the_waiter() {
    let Some(mut reads) = reads() else { return };
    let (file, mut to) = pipe();
    let thread = std::thread::spawn(move || {
        let number = reads.submit(TestRead::new([(file, 0, 4)])).unwrap();
        (reads, number)
    });
    let (mut reads, number) = thread.join().unwrap();
    // Completes it, unless the kernel has cancelled it.
    to.write_all(b"late").unwrap();
    let read = reads.wait(number).unwrap();
    assert!(read.got == [0] || bytes(&read, 0) == b"late", "{read:?}");
    assert_eq!(reads.in_flight, 0);
}

#[test]
fn a_read_that_cannot_be_requested_is_not_waited_for() {
    let Some(mut reads) = reads() else { return };
    let (say, said) = channel();
    std::thread::spawn(move || {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1_000).unwrap();
        let part = |_| (file.try_clone().unwrap(), 0, 10);
        reads
            .submit(TestRead::new((0..RING_ENTRIES).map(part)))
            .unwrap();
        let shared = TestRead {
            is_shared: true,
            ..TestRead::new([part(0)])
        };
        let number = reads.submit(shared).unwrap();
        say.send(reads.wait(number).unwrap().got).unwrap();
    });
    assert_eq!(said.recv_timeout(LONG), Ok(vec![0]), "it waits for ever");
}
