//! Copies at every hop, and reference counts over contiguous blocks.

use std::ops::Range;
use std::sync::Arc;

use isochrony::Sample;

use super::Segment;

/// Each segment has its own samples.
pub struct CopyAlways<T> {
    start: i64,
    samples: Vec<T>,
}

impl<T: Sample> Segment<T> for CopyAlways<T> {
    type Memory = ();

    fn make(_: &mut (), start: i64, samples: &[T]) -> Self {
        let samples = samples.to_vec();
        Self { start, samples }
    }

    fn pass(&self) -> Self {
        Self::make(&mut (), self.start, &self.samples)
    }

    fn append(self, next: Self) -> Self {
        let samples = [self.samples.as_slice(), &next.samples].concat();
        Self { samples, ..self }
    }

    fn cut(&self, start: i64, end: i64) -> Self {
        let part = (start - self.start) as usize..(end - self.start) as usize;
        Self::make(&mut (), start, &self.samples[part])
    }

    fn start(&self) -> i64 {
        self.start
    }

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn visit(&self, each: &mut dyn FnMut(&[T])) {
        each(&self.samples);
    }
}

/// A part of a shared block; joining makes a new one.
pub struct RefCountCopy<T> {
    start: i64,
    block: Arc<Vec<T>>,
    part: Range<usize>,
}

impl<T> RefCountCopy<T> {
    fn samples(&self) -> &[T] {
        &self.block[self.part.clone()]
    }
}

impl<T: Sample> Segment<T> for RefCountCopy<T> {
    type Memory = ();

    fn make(_: &mut (), start: i64, samples: &[T]) -> Self {
        Self {
            start,
            block: Arc::new(samples.to_vec()),
            part: 0..samples.len(),
        }
    }

    fn pass(&self) -> Self {
        Self {
            block: self.block.clone(),
            part: self.part.clone(),
            ..*self
        }
    }

    fn append(self, next: Self) -> Self {
        Self {
            start: self.start,
            block: Arc::new([self.samples(), next.samples()].concat()),
            part: 0..self.len() + next.len(),
        }
    }

    fn cut(&self, start: i64, end: i64) -> Self {
        let from = self.part.start + (start - self.start) as usize;
        Self {
            start,
            block: self.block.clone(),
            part: from..from + (end - start) as usize,
        }
    }

    fn start(&self) -> i64 {
        self.start
    }

    fn len(&self) -> usize {
        self.part.len()
    }

    fn visit(&self, each: &mut dyn FnMut(&[T])) {
        each(self.samples());
    }
}
