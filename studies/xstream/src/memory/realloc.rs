//! Reference counts over blocks that grow in place: their address may change, so every access takes a lock.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use isochrony::Sample;

use super::Segment;

/// A part of a shared block, to be extended by whoever ends it.
pub struct RefCountRealloc<T> {
    start: i64,
    block: Arc<Mutex<Vec<T>>>,
    part: Range<usize>,
}

impl<T: Sample> RefCountRealloc<T> {
    fn read<R>(&self, each: impl FnOnce(&[T]) -> R) -> R {
        let block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
        each(&block[self.part.clone()])
    }

    fn alone(start: i64, samples: &[T]) -> Self {
        Self {
            start,
            part: 0..samples.len(),
            block: Arc::new(Mutex::new(samples.to_vec())),
        }
    }
}

impl<T: Sample> Segment<T> for RefCountRealloc<T> {
    type Memory = ();

    fn make(_: &mut (), start: i64, samples: &[T]) -> Self {
        Self::alone(start, samples)
    }

    fn pass(&self) -> Self {
        Self {
            block: self.block.clone(),
            part: self.part.clone(),
            ..*self
        }
    }

    fn append(mut self, next: Self) -> Self {
        let whole = self.part.end
            == self
                .block
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .len();
        if !whole {
            // Somebody else has extended the block.
            self = self.read(|samples| Self::alone(self.start, samples));
        }
        next.read(|more| {
            let mut block = self.block.lock().unwrap_or_else(PoisonError::into_inner);
            // One call of `realloc` per append, as in the paper.
            block.reserve_exact(more.len());
            block.extend_from_slice(more);
        });
        self.part.end += next.len();
        self
    }

    fn cut(&self, start: i64, end: i64) -> Self {
        let from = self.part.start + (start - self.start) as usize;
        let part = from..from + (end - start) as usize;
        let mut cut = Self {
            start,
            block: self.block.clone(),
            part,
        };
        // A block that goes on growing would never free its beginning.
        if end == self.end() && 2 * cut.part.start > cut.part.end {
            cut = cut.read(|samples| Self::alone(start, samples));
        }
        cut
    }

    fn start(&self) -> i64 {
        self.start
    }

    fn len(&self) -> usize {
        self.part.len()
    }

    fn visit(&self, each: &mut dyn FnMut(&[T])) {
        self.read(|samples| each(samples));
    }
}
