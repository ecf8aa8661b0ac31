//! Two levels of reference counts: a shared list of references to parts of blocks, never made contiguous.

use std::collections::LinkedList;
use std::ops::Range;
use std::sync::Arc;

use isochrony::Sample;

use super::Segment;

#[derive(Clone)]
struct List<T> {
    start: i64,
    len: usize,
    parts: LinkedList<(Arc<[T]>, Range<usize>)>,
}

/// A reference to a list.
pub struct RefCountLazy<T>(Arc<List<T>>);

impl<T: Sample> Segment<T> for RefCountLazy<T> {
    type Memory = ();

    fn make(_: &mut (), start: i64, samples: &[T]) -> Self {
        let (len, block) = (samples.len(), Arc::from(samples));
        Self(Arc::new(List {
            start,
            len,
            parts: LinkedList::from([(block, 0..len)]),
        }))
    }

    fn pass(&self) -> Self {
        Self(self.0.clone())
    }

    fn append(mut self, next: Self) -> Self {
        // In place if nobody else has the list.
        let list = Arc::make_mut(&mut self.0);
        let mut next = Arc::unwrap_or_clone(next.0);
        list.len += next.len;
        list.parts.append(&mut next.parts);
        self
    }

    fn cut(&self, start: i64, end: i64) -> Self {
        let mut skip = (start - self.0.start) as usize;
        let mut left = (end - start) as usize;
        let mut parts = LinkedList::new();
        for (block, part) in &self.0.parts {
            if left == 0 {
                break;
            }
            if skip >= part.len() {
                skip -= part.len();
                continue;
            }
            let take = left.min(part.len() - skip);
            let from = part.start + skip;
            parts.push_back((block.clone(), from..from + take));
            (skip, left) = (0, left - take);
        }
        Self(Arc::new(List {
            start,
            len: (end - start) as usize,
            parts,
        }))
    }

    fn start(&self) -> i64 {
        self.0.start
    }

    fn len(&self) -> usize {
        self.0.len
    }

    fn visit(&self, each: &mut dyn FnMut(&[T])) {
        for (block, part) in &self.0.parts {
            each(&block[part.clone()]);
        }
    }
}
