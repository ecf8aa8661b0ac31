//! Which pieces are asked for, and how often, whoever reads and in whatever order.

use std::collections::HashMap;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::test_source::TestSource;

const SAMPLES: i64 = 30_000;

/// A source with a gap, of which nothing is read: it has no file.
fn signal() -> Arc<dyn Source> {
    TestSource::shared(Path::new("no such file"), SAMPLES, vec![10_000..15_000])
}

fn parts(range: Range<i64>) -> Vec<Range<i64>> {
    vec![range]
}

/// Tasks of so many samples.
fn tasks(len: i64) -> Vec<Vec<Range<i64>>> {
    let starts = (0..SAMPLES).step_by(len as usize);
    let ranges = starts.map(|start| start..SAMPLES.min(start + len));
    // Of what lies in the gap there is nothing to read.
    let read = |range: Range<i64>| match range.start >= 10_000 && range.end <= 15_000 {
        true => Vec::new(),
        false => parts(range),
    };
    ranges.map(read).collect()
}

/// Lanes, and what they ask for.
struct Model {
    lanes: Lanes<()>,
    /// How often each piece was asked for ahead.
    asked: HashMap<Range<i64>, u32>,
    /// Samples that were asked for and not taken.
    ahead: u64,
    most: u64,
}

impl Model {
    fn new(
        signal: &Arc<dyn Source>,
        piece: i64,
        readers: usize,
        tasks: Vec<Vec<Range<i64>>>,
    ) -> Self {
        let mut model = Self {
            lanes: Lanes::new(signal.clone(), piece, readers, Box::new(tasks.into_iter())),
            asked: HashMap::new(),
            ahead: 0,
            most: 0,
        };
        model.fill();
        model
    }

    fn fill(&mut self) {
        let (asked, ahead) = (&mut self.asked, &mut self.ahead);
        self.lanes.fill(|_, piece| {
            *asked.entry(piece.clone()).or_default() += 1;
            *ahead += samples(piece);
        });
        self.most = self.most.max(self.ahead);
    }

    /// Whether it had been asked for.
    fn take(&mut self, lane: u64, piece: &Range<i64>) -> bool {
        let there = self.lanes.front(lane, piece).is_some();
        if there {
            self.lanes.take(lane);
            self.ahead -= samples(piece);
        }
        self.fill();
        there
    }

    fn begin(&mut self, number: usize, parts: &[Range<i64>]) -> u64 {
        let lane = self.lanes.begin(number as u64, parts).0;
        self.fill();
        lane
    }

    fn end(&mut self, lane: u64) {
        self.lanes.end(lane);
        self.fill();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_piece_is_asked_for_once_ahead_of_any_readers_of_tasks_in_turn(
        readers in 1usize..5, len in 300i64..9_000, piece in 100i64..4_000, turns in prop::collection::vec(any::<prop::sample::Index>(), 500),
    ) {
        let signal = signal();
        let tasks = tasks(len);
        let mut model = Model::new(&signal, piece, readers, tasks.clone());
        let mut next = tasks.iter().enumerate();
        // Lane and pieces of each reader's task.
        let mut under_way: Vec<Option<(u64, Vec<Range<i64>>)>> = vec![None; readers];
        let mut turns = turns.iter().cycle();
        let (mut read, mut late) = (0, 0);
        loop {
            let reader = turns.next().unwrap().index(readers);
            let Some((lane, pieces)) = &mut under_way[reader] else {
                let Some((number, parts)) = next.next() else {
                    if under_way.iter().all(Option::is_none) {
                        break;
                    }
                    continue;
                };
                let mut pieces: Vec<_> = Pieces::new(signal.clone(), parts.clone(), piece).collect();
                pieces.reverse();
                under_way[reader] = Some((model.begin(number, parts), pieces));
                continue;
            };
            let lane = *lane;
            match pieces.pop() {
                Some(piece) => {
                    read += samples(&piece);
                    late += u32::from(!model.take(lane, &piece));
                }
                None => {
                    model.end(lane);
                    under_way[reader] = None;
                }
            }
        }
        prop_assert_eq!(read, 25_000);
        prop_assert_eq!(late, 0, "pieces that were not asked for in time");
        prop_assert!(model.asked.values().all(|&times| times == 1), "{:?}", model.asked);
        prop_assert_eq!(model.asked.keys().map(samples).sum::<u64>(), 25_000);
        prop_assert_eq!(model.ahead, 0);
        // A piece may have a short end.
        let room = (DEEP * readers + readers) as u64 * (piece + piece / 4) as u64;
        prop_assert!(model.most <= room, "{} samples ahead", model.most);
    }
}

#[test]
fn what_is_read_ahead_goes_on_into_the_next_tasks() {
    let signal = signal();
    let mut model = Model::new(&signal, 1_000, 1, tasks(2_000));
    // Nobody has begun.
    assert_eq!(model.asked.len(), DEEP);
    let lane = model.begin(0, &parts(0..2_000));
    assert!(model.take(lane, &(0..1_000)));
    assert!(model.asked.contains_key(&(4_000..5_000)));
    // The own task is first: there is room for no more.
    assert!(!model.asked.contains_key(&(5_000..6_000)));
}

#[test]
fn wrong_guesses_cost_what_was_asked_for_and_nothing_else() {
    let signal = signal();
    let mut model = Model::new(&signal, 1_000, 2, tasks(2_000));
    let first = model.begin(0, &parts(0..2_000));
    let second = model.begin(1, &parts(2_000..4_000));
    assert!(model.take(first, &(0..1_000)));
    // It is given up, and done again by the other one, which had the next.
    model.end(first);
    assert!(model.take(second, &(2_000..3_000)));
    assert!(model.take(second, &(3_000..4_000)));
    model.end(second);
    let again = model.begin(0, &parts(0..2_000));
    assert!(model.take(again, &(0..1_000)) && model.take(again, &(1_000..2_000)));
    assert_eq!(model.asked[&(0..1_000)], 2);
    assert_eq!(model.asked[&(2_000..3_000)], 1);
    model.end(again);
    // It reads something else than was foreseen.
    let other = model.begin(2, &parts(4_500..5_000));
    assert!(model.take(other, &(4_500..5_000)));
    model.end(other);
    // What is out of turn was not asked for, and what comes behind it is.
    let lane = model.begin(3, &parts(6_000..8_000));
    assert!(!model.take(lane, &(6_500..7_000)));
    assert!(model.take(lane, &(6_000..7_000)) && model.take(lane, &(7_000..8_000)));
    model.end(lane);
    // Tasks that nobody begins are forgotten when many behind them have: they hold up nobody.
    let mut model = Model::new(&signal, 100, 1, tasks(200));
    for number in 40..140 {
        let start = number as i64 * 200;
        let lane = model.begin(number, &parts(start..start + 200));
        if !(10_000..15_000).contains(&start) {
            assert!(model.take(lane, &(start..start + 100)), "{number}");
        }
        if number >= 80 {
            assert!(model.asked.contains_key(&(start + 200..start + 300)));
        }
        model.end(lane);
    }
}

#[test]
fn bytes_ahead_are_bounded_but_for_a_piece_of_whoever_reads() {
    let signal = signal();
    // Pieces are looked up, not read: so large ones are there on the index only.
    let most = i64::try_from(AHEAD / 2).unwrap();
    let mut lanes: Lanes<u64> = Lanes::new(
        signal.clone(),
        most * 3 / 4,
        2,
        Box::new((0..8).map(move |k| parts(15_000 + k * most..15_000 + (k + 1) * most))),
    );
    let mut asked = Vec::new();
    lanes.fill(|ticket, piece| {
        asked.push(piece.clone());
        ticket
    });
    // The first task's, which are all that may be.
    assert_eq!(asked.len(), 2, "{asked:?}");
    // Who reads has one in any case, and no other.
    let (first, _) = lanes.begin(0, &parts(15_000..15_000 + most));
    let (second, _) = lanes.begin(1, &parts(15_000 + most..15_000 + 2 * most));
    lanes.fill(|ticket, piece| {
        asked.push(piece.clone());
        ticket
    });
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert!(lanes.take(first).is_some() && lanes.take(second).is_some());
}
