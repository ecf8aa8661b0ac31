//! Representations of signals between operators (section IV-B, figure 8), each as nodes of the small engine.
//!
//! | model | what passes between operators |
//! |---|---|
//! | Samples | each sample as a `<time, value>` tuple |
//! | WindowStride | windows of `<time, value>` tuples, by reference; operators stride through them |
//! | Windows | the same, copied to a column and back around a heavy operator |
//! | Segs | windows as signal segments, one per item |
//! | Blocks | many windows per item: ours |

pub mod blocks;
pub mod common;
mod join;
pub mod rows;
pub mod samples;
pub mod segments;
mod sync;
pub mod tuples;

pub use join::Join;
pub use sync::{Selected, Sync};

use std::ops::Range;

use crate::engine::{Engine, Graph, Held, Message, Scheduler};
use crate::kernels::Peak;

/// What a model passes besides the results common to all.
pub trait Data: Clone {
    /// Index of the first sample, next index, and samples.
    fn extent(&self) -> (i64, i64, u64);
}

/// A message of a model.
#[derive(Clone)]
pub enum Flow<D> {
    Nothing,
    Data(D),
    /// Of the window at `start`.
    Score {
        start: i64,
        score: f32,
    },
    /// A detected range, if not empty; no later one begins before `upto`.
    Control {
        range: Range<i64>,
        upto: i64,
    },
    /// Of the window at `start`.
    Peak {
        start: i64,
        peak: Peak,
    },
    /// Samples of all channels at one time.
    Joined {
        time: i64,
        values: [f32; 4],
    },
}

impl<D: Data> Message for Flow<D> {
    fn nothing() -> Self {
        Self::Nothing
    }

    fn extent(&self) -> (i64, i64, u64) {
        match self {
            Self::Data(data) => data.extent(),
            Self::Score { start, .. } | Self::Peak { start, .. } => (*start, *start, 0),
            Self::Control { upto, .. } => (*upto, *upto, 0),
            Self::Nothing | Self::Joined { .. } => (0, 0, 0),
        }
    }
}

/// A graph and its result node.
pub struct Query<D> {
    pub graph: Graph<Flow<D>>,
    pub sink: usize,
}

/// Whether DETECTAUDIO ends before sync, or its continuation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Cut,
    Sync,
}

/// Makes the messages of a source's segment, between two indices.
pub type Make<'a, D> = dyn FnMut(usize, Range<usize>, &mut dyn FnMut(D)) + 'a;

/// What sources give, and how much at once.
#[derive(Debug, Clone, Copy)]
pub struct Admission {
    pub sources: usize,
    /// Samples of each.
    pub total: usize,
    /// Samples of a segment.
    pub segment: usize,
    /// Segments of each, admitted before all is done.
    pub burst: usize,
}

/// Runs a query to its end under a scheduler, with rate control at the sources.
pub fn drive<D: Data, Q: Held<Flow<D>>>(
    query: Query<D>,
    scheduler: Scheduler,
    admission: Admission,
    make: &mut Make<'_, D>,
) -> u64 {
    let mut engine: Engine<Flow<D>, Q> = Engine::new(query.graph, scheduler);
    let Admission {
        sources,
        total,
        segment,
        burst,
    } = admission;
    for begin in (0..total).step_by(burst * segment) {
        for start in (begin..total.min(begin + burst * segment)).step_by(segment) {
            for source in 0..sources {
                let end = total.min(start + segment);
                make(source, start..end, &mut |data| {
                    engine.offer(source, Flow::Data(data))
                });
            }
        }
        engine.drain();
    }
    engine.result(query.sink)
}
