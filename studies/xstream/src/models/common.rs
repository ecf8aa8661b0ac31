//! Operators common to all models.

use std::collections::VecDeque;

use super::{Data, Flow};
use crate::data::{SENSORS, digest_range};
use crate::engine::{Emit, Node, Then};
use crate::kernels::{Detector, Peak, digest, is_leak};

/// Scores into ranges.
#[derive(Default)]
pub struct Cfar(Detector);

impl<D: Data> Node<Flow<D>> for Cfar {
    fn process(&mut self, _: usize, message: &mut Flow<D>, _: &mut dyn Emit<Flow<D>>) -> Then {
        let Flow::Score { start, score } = *message else {
            return Then::Taken;
        };
        let range = self.0.push(start, score).unwrap_or(0..0);
        let upto = self.0.upto();
        *message = Flow::Control { range, upto };
        Then::Tail
    }
}

/// Digest of ranges: DETECTAUDIO cut before sync.
#[derive(Default)]
pub struct RangeDigest(u64);

impl<D: Data> Node<Flow<D>> for RangeDigest {
    fn process(&mut self, _: usize, message: &mut Flow<D>, _: &mut dyn Emit<Flow<D>>) -> Then {
        if let Flow::Control { range, .. } = message
            && !range.is_empty()
        {
            self.0 = self.0.wrapping_add(digest_range(range));
        }
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.0
    }
}

/// Takes what nobody needs.
pub struct Null;

impl<D: Data> Node<Flow<D>> for Null {
    fn process(&mut self, _: usize, _: &mut Flow<D>, _: &mut dyn Emit<Flow<D>>) -> Then {
        Then::Taken
    }
}

/// Peaks of all sensors at equal times: zip, and the leak detector.
#[derive(Default)]
pub struct Leaks {
    waiting: [VecDeque<(i64, Peak)>; SENSORS],
    sum: u64,
}

impl Leaks {
    pub fn push(&mut self, sensor: usize, start: i64, peak: Peak) {
        self.waiting[sensor].push_back((start, peak));
        while self.waiting.iter().all(|queue| !queue.is_empty()) {
            let fronts: [(i64, Peak); SENSORS] =
                std::array::from_fn(|k| self.waiting[k].pop_front().unwrap_or_default());
            let peaks = fronts.map(|(_, peak)| peak);
            if is_leak(&peaks) {
                self.sum = self
                    .sum
                    .wrapping_add(digest(0, fronts[0].0, peaks[0].peak.to_bits()));
            }
        }
    }

    pub fn sum(&self) -> u64 {
        self.sum
    }
}

impl<D: Data> Node<Flow<D>> for Leaks {
    fn process(&mut self, port: usize, message: &mut Flow<D>, _: &mut dyn Emit<Flow<D>>) -> Then {
        if let Flow::Peak { start, peak } = *message {
            self.push(port, start, peak);
        }
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.sum
    }
}
