//! What the tasks of a front will read, for those who read ahead of them.
//!
//! Where several recordings are read together, where a task ends is looked up in all of them: so that is done once for all who
//! look ahead, and kept until the last of them has passed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::cells::{Cell, Cutting};
use super::queue::Cut;
use crate::Portion;

struct State {
    cutting: Cutting,
    last: Option<Cell>,
    /// Tasks from the first that somebody has not passed yet on.
    cells: VecDeque<Cell>,
    first: u64,
    /// Of each recording the task that it will be told of next.
    next: Vec<u64>,
}

impl State {
    fn next(&mut self, recording: usize) -> Option<Option<Portion>> {
        let at = (self.next[recording] - self.first) as usize;
        while self.cells.len() <= at {
            let cell = self.cutting.after(self.last.as_ref())?;
            self.last = Some(cell.clone());
            self.cells.push_back(cell);
        }
        let portion = self.cells[at].reads[recording].portion.clone();
        self.next[recording] += 1;
        self.forget();
        Some(portion)
    }

    /// Forgets what all have passed.
    fn forget(&mut self) {
        let least = self.next.iter().copied().min().unwrap_or(u64::MAX);
        while self.first < least && self.cells.pop_front().is_some() {
            self.first += 1;
        }
    }
}

/// What each task will read of one recording, in the order in which tasks are handed out; None: nothing.
pub(super) struct Ahead {
    walk: Arc<Mutex<State>>,
    recording: usize,
}

impl Ahead {
    /// One for each recording.
    pub(super) fn of(cutting: &Cutting) -> impl Iterator<Item = Self> + use<> {
        let recordings = cutting.reads.len();
        let walk = Arc::new(Mutex::new(State {
            cutting: cutting.clone(),
            last: None,
            cells: VecDeque::new(),
            first: 0,
            next: vec![0; recordings],
        }));
        // All at once: who is not there yet has not passed.
        let all: Vec<Self> = (0..recordings)
            .map(|recording| Self {
                walk: walk.clone(),
                recording,
            })
            .collect();
        all.into_iter()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.walk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Iterator for Ahead {
    type Item = Option<Portion>;

    fn next(&mut self) -> Option<Option<Portion>> {
        self.lock().next(self.recording)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut state = self.lock();
        state.next[self.recording] = u64::MAX;
        state.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use isochrony_segment::{SigSeg, Stream};
    use isochrony_time::{Rate, TimebaseId};

    use super::*;
    use crate::{Recording, Segments};

    /// Channels with these stretches, cut into tasks of about so many samples.
    fn channels(channels: &[&[Range<i64>]], samples: u64) -> Cutting {
        let rate = Rate::new(100, 1).unwrap();
        let stream = Stream::new("p", TimebaseId(0), rate).intern();
        let segment = |range: &Range<i64>| {
            let zeros = vec![0_i16; range.clone().count()];
            SigSeg::from_slice(&zeros, range.start, stream).unwrap()
        };
        let reads = channels.iter().map(|stretches| {
            let segments = Segments::new(stretches.iter().map(segment)).unwrap();
            (segments.snapshot(None).unwrap().unwrap(), 7)
        });
        Cutting {
            reads: reads.collect(),
            samples,
            bytes: 0,
        }
    }

    #[test]
    fn each_recording_is_told_of_the_tasks_that_are_handed_out_and_what_all_passed_is_forgotten() {
        let cutting = channels(&[&[0..100, 130..400], &[20..300, 310..390]], 30);
        let mut cells = Vec::new();
        while let Some(cell) = cutting.after(cells.last()) {
            cells.push(cell);
        }
        assert!(cells.len() > 10);
        let mut ahead: Vec<Ahead> = Ahead::of(&cutting).collect();
        for (number, cell) in cells.iter().enumerate() {
            for (recording, ahead) in ahead.iter_mut().enumerate() {
                let told = ahead.next().unwrap();
                assert_eq!(told, cell.reads[recording].portion, "{number}");
            }
            assert!(ahead[0].lock().cells.is_empty());
        }
        assert_eq!(ahead[0].next(), None);
        // One that reads nothing ahead keeps nothing for itself.
        let mut ahead: Vec<Ahead> = Ahead::of(&cutting).collect();
        drop(ahead.pop());
        assert_eq!(ahead[0].by_ref().count(), cells.len());
        assert!(ahead[0].lock().cells.is_empty());
    }
}
