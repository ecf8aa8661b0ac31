//! Sync over segments: each channel's samples in the detected ranges, by reference.

use std::collections::VecDeque;
use std::ops::Range;

use isochrony::SigSeg;

use super::blocks::Block;
use super::{Data, Flow};
use crate::data::CHANNELS;
use crate::engine::{Emit, Node, Then};
use crate::kernels::digest_samples;

impl Data for SigSeg {
    fn extent(&self) -> (i64, i64, u64) {
        (self.start(), self.end(), self.len())
    }
}

/// Segments that wait until it is known whether a range covers them.
pub struct Sync {
    waiting: Vec<VecDeque<SigSeg>>,
    ranges: VecDeque<Range<i64>>,
    upto: i64,
}

impl Default for Sync {
    fn default() -> Self {
        Self::of(CHANNELS)
    }
}

impl Sync {
    /// For so many channels; control is the last input.
    pub fn of(channels: usize) -> Self {
        Self {
            waiting: vec![VecDeque::new(); channels],
            ranges: VecDeque::new(),
            upto: 0,
        }
    }

    fn push(&mut self, channel: usize, segment: SigSeg, give: &mut dyn FnMut(usize, SigSeg)) {
        self.waiting[channel].push_back(segment);
        if !self.ranges.is_empty() {
            self.release(give);
        }
    }

    fn control(&mut self, range: Range<i64>, upto: i64, give: &mut dyn FnMut(usize, SigSeg)) {
        self.ranges.extend((!range.is_empty()).then_some(range));
        self.upto = self.upto.max(upto);
        self.release(give);
    }

    fn release(&mut self, give: &mut dyn FnMut(usize, SigSeg)) {
        while let Some(range) = self.ranges.front() {
            let covered = self
                .waiting
                .iter()
                .all(|queue| queue.back().is_some_and(|last| last.end() >= range.end));
            if !covered {
                break;
            }
            for (channel, queue) in self.waiting.iter().enumerate() {
                for segment in queue {
                    let (from, to) = (
                        segment.start().max(range.start),
                        segment.end().min(range.end),
                    );
                    if from < to {
                        give(channel, segment.subseg(from..to).expect("within"));
                    }
                }
            }
            self.ranges.pop_front();
        }
        let upto = self
            .ranges
            .front()
            .map_or(self.upto, |range| range.start.min(self.upto));
        for queue in &mut self.waiting {
            while queue.front().is_some_and(|front| front.end() <= upto) {
                queue.pop_front();
            }
        }
    }
}

impl Node<Flow<SigSeg>> for Sync {
    fn process(
        &mut self,
        port: usize,
        message: &mut Flow<SigSeg>,
        out: &mut dyn Emit<Flow<SigSeg>>,
    ) -> Then {
        let give = &mut |channel, segment| out.emit(channel, &mut Flow::Data(segment));
        match std::mem::replace(message, Flow::Nothing) {
            Flow::Data(segment) => self.push(port, segment, give),
            Flow::Control { range, upto } => self.control(range, upto, give),
            _ => {}
        }
        Then::Taken
    }
}

impl Node<Flow<Block>> for Sync {
    fn process(
        &mut self,
        port: usize,
        message: &mut Flow<Block>,
        out: &mut dyn Emit<Flow<Block>>,
    ) -> Then {
        let give =
            &mut |channel, segment| out.emit(channel, &mut Flow::Data(Block::Samples(segment)));
        match std::mem::replace(message, Flow::Nothing) {
            Flow::Data(Block::Samples(segment)) => self.push(port, segment, give),
            Flow::Control { range, upto } => self.control(range, upto, give),
            _ => {}
        }
        Then::Taken
    }
}

/// The digest of selected segments, by channel.
#[derive(Default)]
pub struct Selected(u64);

impl Selected {
    pub fn add(&mut self, channel: usize, segment: &SigSeg) {
        let mut at = segment.start();
        let read = segment.visit::<f32>(|part| {
            self.0 = self.0.wrapping_add(digest_samples(channel, at, part));
            at += part.len() as i64;
        });
        read.expect("32-bit samples");
    }

    pub fn sum(&self) -> u64 {
        self.0
    }
}

impl Node<Flow<SigSeg>> for Selected {
    fn process(
        &mut self,
        port: usize,
        message: &mut Flow<SigSeg>,
        _: &mut dyn Emit<Flow<SigSeg>>,
    ) -> Then {
        if let Flow::Data(segment) = message {
            self.add(port, segment);
        }
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.0
    }
}

impl Node<Flow<Block>> for Selected {
    fn process(
        &mut self,
        port: usize,
        message: &mut Flow<Block>,
        _: &mut dyn Emit<Flow<Block>>,
    ) -> Then {
        if let Flow::Data(Block::Samples(segment)) = message {
            self.add(port, segment);
        }
        Then::Taken
    }

    fn result(&self) -> u64 {
        self.0
    }
}
