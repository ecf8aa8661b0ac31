//! The paper's four segment memory managers (section III-B) and ours, behind one trait.
//!
//! | manager | passing on | append | cut |
//! |---|---|---|---|
//! | [`CopyAlways`] | copy | copy of both | copy |
//! | [`RefCountCopy`] | reference | copy of both into a new block | reference |
//! | [`RefCountRealloc`] | reference | `realloc` of the earlier block, copy of the later; a lock on every access | reference |
//! | [`RefCountLazy`] | reference | lists of references are spliced | list of references |
//! | [`Pooled`] | reference | lists of references are spliced, touching views become one | list of references |
//!
//! Ours reuses blocks; all others get memory from the heap for every segment of a source.

mod copying;
mod lazy;
mod pooled;
mod realloc;

pub use copying::{CopyAlways, RefCountCopy};
pub use lazy::RefCountLazy;
pub use pooled::{Pool, Pooled, stream};
pub use realloc::RefCountRealloc;

use isochrony::Sample;

/// A segment of one channel.
pub trait Segment<T: Sample>: Sized {
    /// What a source gets memory from.
    type Memory: Default;

    /// A source's samples.
    fn make(memory: &mut Self::Memory, start: i64, samples: &[T]) -> Self;
    /// Hands it to another operator, keeping it.
    fn pass(&self) -> Self;
    /// Joins what continues it.
    fn append(self, next: Self) -> Self;
    /// The samples with these indices.
    fn cut(&self, start: i64, end: i64) -> Self;
    fn start(&self) -> i64;
    fn len(&self) -> usize;
    /// All samples in order, in as many parts as it has.
    fn visit(&self, each: &mut dyn FnMut(&[T]));

    fn end(&self) -> i64 {
        self.start() + self.len() as i64
    }

    /// The samples as a window.
    fn window<const N: usize>(&self) -> [T; N] {
        let (mut window, mut at) = ([T::default(); N], 0);
        self.visit(&mut |part| {
            window[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        });
        window
    }
}
