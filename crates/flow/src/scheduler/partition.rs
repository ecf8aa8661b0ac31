//! Cuts the recordings of a subgraph into task inputs, and lists them in advance for read-ahead.
//!
//! One recording is cut by its snapshot ([`Snapshot::portion_after`]). Several are cut at equal indices: a fixed number
//! of samples after the first sample of any, and wherever a part of any begins, since a task reads at most one part of
//! each. A recording without samples at a task's start gets the origin of its last contiguous range: operators after a
//! fan-in count from the latest anchor.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::task_queue::Partitioner;
use super::task_sizes::TaskSizes;
use crate::{IndexedSnapshot, Portion, RangePortion, Snapshot};

#[derive(Debug, Clone)]
pub(super) struct TaskInput {
    pub(super) range: Range<i64>,
    /// By recording, in scan order.
    pub(super) reads: Vec<RangePortion>,
}

#[derive(Clone)]
pub(super) struct RecordingPartitioner {
    pub(super) reads: Vec<(Arc<dyn Snapshot>, u64)>,
    pub(super) sizes: Arc<TaskSizes>,
}

impl Partitioner for RecordingPartitioner {
    type Part = TaskInput;

    fn part_after(&self, last: Option<&TaskInput>, number: u64) -> Option<TaskInput> {
        let samples = self.sizes.samples(number);
        let [(snapshot, grain)] = &self.reads[..] else {
            return self.part_of_several(last, samples);
        };
        let last = last.and_then(|last| last.reads.first()?.portion.as_ref());
        let portion = snapshot.portion_after(last, samples, *grain)?;
        Some(TaskInput {
            range: portion.range.clone(),
            reads: vec![RangePortion {
                portion: Some(portion),
                origin: None,
            }],
        })
    }

    fn parts_per_task(&self, number: u64) -> usize {
        self.sizes.portions(number)
    }

    fn bytes(&self) -> u64 {
        self.sizes.bytes()
    }
}

impl RecordingPartitioner {
    fn indexed(&self) -> impl Iterator<Item = (&dyn IndexedSnapshot, u64)> {
        let reads = self.reads.iter();
        reads.filter_map(|(snapshot, grain)| Some((snapshot.indexed()?, *grain)))
    }

    fn part_of_several(&self, last: Option<&TaskInput>, samples: u64) -> Option<TaskInput> {
        let from = last.map_or(i64::MIN, |last| last.range.end);
        let firsts = self.indexed().filter_map(|(one, _)| one.sample_from(from));
        let first = firsts.min()?;
        let wanted = first.saturating_add_unsigned(samples.max(1));
        // On a segment border of the first recording that continues there, as in one pass.
        let mut grains = self
            .indexed()
            .filter(|(one, _)| one.sample_from(wanted - 1) == Some(wanted - 1));
        let end = grains.next();
        let end = end.map_or(wanted, |(one, grain)| one.align_to_grain(wanted, grain));
        let parts = self
            .indexed()
            .filter_map(|(one, _)| one.next_part_start(first));
        let end = parts.fold(end, i64::min).max(first + 1);
        let range = last.map_or(first, |last| last.range.end)..end;
        Some(TaskInput {
            reads: self.indexed().map(|(one, _)| one.within(&range)).collect(),
            range,
        })
    }
}

struct TaskCursor {
    partitioner: RecordingPartitioner,
    last: Option<TaskInput>,
    inputs: VecDeque<TaskInput>,
    first: u64,
    next: Vec<u64>,
}

impl TaskCursor {
    fn next(&mut self, recording: usize) -> Option<Option<Portion>> {
        let at = (self.next[recording] - self.first) as usize;
        while self.inputs.len() <= at {
            let number = self.first + self.inputs.len() as u64;
            let input = self.partitioner.part_after(self.last.as_ref(), number)?;
            self.last = Some(input.clone());
            self.inputs.push_back(input);
        }
        let portion = self.inputs[at].reads[recording].portion.clone();
        self.next[recording] += 1;
        self.discard_passed();
        Some(portion)
    }

    fn discard_passed(&mut self) {
        let least = self.next.iter().copied().min().unwrap_or(u64::MAX);
        while self.first < least && self.inputs.pop_front().is_some() {
            self.first += 1;
        }
    }
}

/// Portions of one recording in task order; None: the task reads nothing of it. Iterators of a subgraph share a cursor,
/// so each border is looked up once; inputs are kept until the slowest has passed.
pub(super) struct UpcomingPortions {
    cursor: Arc<Mutex<TaskCursor>>,
    recording: usize,
}

impl UpcomingPortions {
    pub(super) fn of(partitioner: &RecordingPartitioner) -> impl Iterator<Item = Self> + use<> {
        let recordings = partitioner.reads.len();
        let cursor = Arc::new(Mutex::new(TaskCursor {
            partitioner: partitioner.clone(),
            last: None,
            inputs: VecDeque::new(),
            first: 0,
            next: vec![0; recordings],
        }));
        // Created together: a later one would miss inputs.
        let all: Vec<Self> = (0..recordings)
            .map(|recording| Self {
                cursor: cursor.clone(),
                recording,
            })
            .collect();
        all.into_iter()
    }

    fn lock(&self) -> MutexGuard<'_, TaskCursor> {
        self.cursor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Iterator for UpcomingPortions {
    type Item = Option<Portion>;

    fn next(&mut self) -> Option<Option<Portion>> {
        self.lock().next(self.recording)
    }
}

impl Drop for UpcomingPortions {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.next[self.recording] = u64::MAX;
        state.discard_passed();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use isochrony_segment::{SigSeg, Stream};
    use isochrony_time::{Rate, TimebaseId};

    use super::super::task_sizes::TaskSize;
    use super::*;
    use crate::{Recording, Segments};

    fn channels(channels: &[&[Range<i64>]], samples: u64) -> RecordingPartitioner {
        let rate = Rate::new(100, 1).unwrap();
        let stream = Stream::new("p", TimebaseId(0), rate).intern();
        let segment = |range: &Range<i64>| {
            let zeros = vec![0_i16; range.clone().count()];
            SigSeg::from_slice(&zeros, range.start, stream).unwrap()
        };
        let reads = channels.iter().map(|ranges| {
            let segments = Segments::new(ranges.iter().map(segment)).unwrap();
            (segments.snapshot(None).unwrap().unwrap(), 7)
        });
        RecordingPartitioner {
            reads: reads.collect(),
            sizes: Arc::new(TaskSizes::new(TaskSize::fixed(samples), None)),
        }
    }

    #[test]
    fn upcoming_portions_are_those_of_the_tasks_and_passed_inputs_are_discarded() {
        let partitioner = channels(&[&[0..100, 130..400], &[20..300, 310..390]], 30);
        let mut inputs = Vec::new();
        while let Some(input) = partitioner.part_after(inputs.last(), inputs.len() as u64) {
            inputs.push(input);
        }
        assert!(inputs.len() > 10);
        let mut ahead: Vec<UpcomingPortions> = UpcomingPortions::of(&partitioner).collect();
        for (number, input) in inputs.iter().enumerate() {
            for (recording, ahead) in ahead.iter_mut().enumerate() {
                let upcoming = ahead.next().unwrap();
                assert_eq!(upcoming, input.reads[recording].portion, "{number}");
            }
            assert!(ahead[0].lock().inputs.is_empty());
        }
        assert_eq!(ahead[0].next(), None);
        // A dropped iterator holds no inputs back.
        let mut ahead: Vec<UpcomingPortions> = UpcomingPortions::of(&partitioner).collect();
        drop(ahead.pop());
        assert_eq!(ahead[0].by_ref().count(), inputs.len());
        assert!(ahead[0].lock().inputs.is_empty());
    }
}
