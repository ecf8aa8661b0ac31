//! Which pieces are requested, and how often.

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::test_source::TestSource;

const SAMPLES: i64 = 30_000;

/// Has a gap and no file; nothing is read.
fn source() -> Arc<dyn SampleSource> {
    let gaps = std::iter::once(10_000..15_000).collect();
    TestSource::shared(Path::new("no such file"), SAMPLES, gaps)
}

fn parts(range: Range<i64>) -> Vec<Range<i64>> {
    vec![range]
}

fn tasks(len: i64) -> Vec<Vec<Range<i64>>> {
    let starts = (0..SAMPLES).step_by(len as usize);
    let ranges = starts.map(|start| start..SAMPLES.min(start + len));
    // Nothing to read in the gap.
    let read = |range: Range<i64>| match range.start >= 10_000 && range.end <= 15_000 {
        true => Vec::new(),
        false => parts(range),
    };
    ranges.map(read).collect()
}

struct QueueModel {
    queues: PieceQueues<()>,
    requested: HashMap<Range<i64>, u32>,
    ahead: u64,
    most: u64,
}

impl QueueModel {
    fn new(
        source: &Arc<dyn SampleSource>,
        piece: i64,
        readers: usize,
        tasks: Vec<Vec<Range<i64>>>,
    ) -> Self {
        let mut model = Self {
            queues: PieceQueues::new(source.clone(), piece, readers, Box::new(tasks.into_iter())),
            requested: HashMap::new(),
            ahead: 0,
            most: 0,
        };
        model.fill();
        model
    }

    fn fill(&mut self) {
        let (requested, ahead) = (&mut self.requested, &mut self.ahead);
        self.queues.fill(|_, piece| {
            *requested.entry(piece.clone()).or_default() += 1;
            *ahead += samples(piece);
        });
        self.most = self.most.max(self.ahead);
    }

    fn take(&mut self, queue: u64, piece: &Range<i64>) -> bool {
        let there = self.queues.front(queue, piece).is_some();
        if there {
            self.queues.take(queue);
            self.ahead -= samples(piece);
        }
        self.fill();
        there
    }

    fn begin(&mut self, number: usize, parts: &[Range<i64>]) -> u64 {
        let queue = self.queues.begin(number as u64, parts).0;
        self.fill();
        queue
    }

    fn end(&mut self, queue: u64) {
        self.queues.end(queue);
        self.fill();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_piece_is_requested_once_for_any_readers_in_task_order(
        readers in 1usize..5, len in 300i64..9_000, piece in 100i64..4_000, turns in prop::collection::vec(any::<prop::sample::Index>(), 500),
    ) {
        let source = source();
        let tasks = tasks(len);
        let mut model = QueueModel::new(&source, piece, readers, tasks.clone());
        let mut next = tasks.iter().enumerate();
        let mut under_way: Vec<Option<(u64, Vec<Range<i64>>)>> = vec![None; readers];
        let mut turns = turns.iter().cycle();
        let (mut read, mut late) = (0, 0);
        loop {
            let reader = turns.next().unwrap().index(readers);
            let Some((queue, pieces)) = &mut under_way[reader] else {
                let Some((number, parts)) = next.next() else {
                    if under_way.iter().all(Option::is_none) {
                        break;
                    }
                    continue;
                };
                let mut pieces: Vec<_> = PieceIter::new(source.clone(), parts.clone(), piece).collect();
                pieces.reverse();
                under_way[reader] = Some((model.begin(number, parts), pieces));
                continue;
            };
            let queue = *queue;
            match pieces.pop() {
                Some(piece) => {
                    read += samples(&piece);
                    late += u32::from(!model.take(queue, &piece));
                }
                None => {
                    model.end(queue);
                    under_way[reader] = None;
                }
            }
        }
        prop_assert_eq!(read, 25_000);
        prop_assert_eq!(late, 0, "pieces that were not requested for in time");
        prop_assert!(model.requested.values().all(|&times| times == 1), "{:?}", model.requested);
        prop_assert_eq!(model.requested.keys().map(samples).sum::<u64>(), 25_000);
        prop_assert_eq!(model.ahead, 0);
        // A piece may have a short end.
        let room = (QUEUE_DEPTH * readers + readers) as u64 * (piece + piece / 4) as u64;
        prop_assert!(model.most <= room, "{} samples ahead", model.most);
    }
}

#[test]
fn read_ahead_continues_into_the_next_tasks() {
    let source = source();
    let mut model = QueueModel::new(&source, 1_000, 1, tasks(2_000));
    assert_eq!(model.requested.len(), QUEUE_DEPTH);
    let queue = model.begin(0, &parts(0..2_000));
    assert!(model.take(queue, &(0..1_000)));
    assert!(model.requested.contains_key(&(4_000..5_000)));
    assert!(!model.requested.contains_key(&(5_000..6_000)));
}

#[test]
fn wrong_predictions_waste_only_their_requests() {
    let source = source();
    let mut model = QueueModel::new(&source, 1_000, 2, tasks(2_000));
    let first = model.begin(0, &parts(0..2_000));
    let second = model.begin(1, &parts(2_000..4_000));
    assert!(model.take(first, &(0..1_000)));
    model.end(first);
    assert!(model.take(second, &(2_000..3_000)));
    assert!(model.take(second, &(3_000..4_000)));
    model.end(second);
    let again = model.begin(0, &parts(0..2_000));
    assert!(model.take(again, &(0..1_000)) && model.take(again, &(1_000..2_000)));
    assert_eq!(model.requested[&(0..1_000)], 2);
    assert_eq!(model.requested[&(2_000..3_000)], 1);
    model.end(again);
    let other = model.begin(2, &parts(4_500..5_000));
    assert!(model.take(other, &(4_500..5_000)));
    model.end(other);
    // The pieces after an unexpected one were requested.
    let queue = model.begin(3, &parts(6_000..8_000));
    assert!(!model.take(queue, &(6_500..7_000)));
    assert!(model.take(queue, &(6_000..7_000)) && model.take(queue, &(7_000..8_000)));
    model.end(queue);
    // Tasks that nobody begins block none.
    let mut model = QueueModel::new(&source, 100, 1, tasks(200));
    for number in 40..140 {
        let start = number as i64 * 200;
        let queue = model.begin(number, &parts(start..start + 200));
        if !(10_000..15_000).contains(&start) {
            assert!(model.take(queue, &(start..start + 100)), "{number}");
        }
        if number >= 80 {
            assert!(model.requested.contains_key(&(start + 200..start + 300)));
        }
        model.end(queue);
    }
}

#[test]
fn read_ahead_is_bounded_except_for_a_piece_per_waiting_reader() {
    let source = source();
    let most = i64::try_from(READ_AHEAD_BYTES / 2).unwrap();
    let mut queues: PieceQueues<u64> = PieceQueues::new(
        source.clone(),
        most * 3 / 4,
        2,
        Box::new((0..8).map(move |k| parts(15_000 + k * most..15_000 + (k + 1) * most))),
    );
    let mut requested = Vec::new();
    queues.fill(|ticket, piece| {
        requested.push(piece.clone());
        ticket
    });
    assert_eq!(requested.len(), 2, "{requested:?}");
    let (first, _) = queues.begin(0, &parts(15_000..15_000 + most));
    let (second, _) = queues.begin(1, &parts(15_000 + most..15_000 + 2 * most));
    queues.fill(|ticket, piece| {
        requested.push(piece.clone());
        ticket
    });
    assert_eq!(requested.len(), 3, "{requested:?}");
    assert!(queues.take(first).is_some() && queues.take(second).is_some());
}
