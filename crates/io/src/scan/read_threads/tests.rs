use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use super::*;
use crate::source::SampleSource;
use crate::test_source::TestSource;
use isochrony_runtime::is_stop_requested;

fn thousand() -> Arc<dyn SampleSource> {
    TestSource::shared(Path::new("no such file"), 1_000, Vec::new())
}

struct NoFiller;

impl PieceFiller for NoFiller {
    fn fill(&mut self, _: &Range<i64>, _: &Mutex<BufferPool>) -> Result<Attempt, IoError> {
        Ok(Attempt::FallBack("it reads nothing".into()))
    }
}

/// Busy with pieces of others.
fn busy(parts: &[Range<i64>]) -> ReadThreads {
    let tasks = Box::new(std::iter::once(parts.to_vec()));
    let queues = PieceQueues::new(thousand(), 100, 1, tasks);
    ReadThreads::without_threads(queues, Box::new(|| Box::new(NoFiller)))
}

#[test]
fn a_waiting_reader_continues_when_read_ahead_stops() {
    let parts: Vec<_> = std::iter::once(0..1_000).collect();
    let threads = Arc::new(busy(&parts));
    let queue = threads.begin_task(0, &parts);
    let (waits, (say, said)) = (threads.clone(), channel());
    let thread = std::thread::spawn(move || {
        let read = waits.wait(queue, &(0..100));
        say.send(read.is_none()).unwrap();
    });
    let early = said.recv_timeout(Duration::from_millis(50));
    assert!(early.is_err(), "it did not wait");
    threads.stop();
    assert_eq!(said.recv_timeout(Duration::from_secs(60)), Ok(true));
    thread.join().unwrap();
}

#[test]
fn a_waiting_reader_continues_when_the_work_is_cancelled() {
    let parts: Vec<_> = std::iter::once(0..1_000).collect();
    let threads = busy(&parts);
    let queue = threads.begin_task(0, &parts);
    let begun = Instant::now();
    let is_stopped = move || begun.elapsed() > Duration::from_millis(50);
    let read = stoppable_waits(is_stopped, || threads.wait(queue, &(0..100)));
    assert!(matches!(read, Some((_, Err(IoError::Interrupted)))));
}

struct WaitingFiller;

impl PieceFiller for WaitingFiller {
    fn fill(&mut self, _: &Range<i64>, _: &Mutex<BufferPool>) -> Result<Attempt, IoError> {
        while !is_stop_requested() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(IoError::Interrupted)
    }
}

#[test]
fn the_end_of_a_scan_cancels_blocked_requests() {
    let parts: Vec<_> = std::iter::once(0..1_000).collect();
    let tasks = Box::new(std::iter::once(parts));
    let queues = PieceQueues::new(thousand(), 100, 1, tasks);
    let threads = ReadThreads::start(queues, 2, Box::new(|| Box::new(WaitingFiller))).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let begun = Instant::now();
    drop(threads);
    assert!(begun.elapsed() < Duration::from_secs(10));
}
