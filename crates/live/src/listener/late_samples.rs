use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Samples that arrived after they were given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateSamples {
    /// First index, on the axis of the run.
    pub start: i64,
    /// Its civil time, ns since 1970, if known.
    pub time: Option<i64>,
    /// The samples, in native order.
    pub samples: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct LateBuffer {
    /// Maximum bytes of samples; 0 keeps none.
    limit: usize,
    kept: Mutex<KeptSamples>,
}

#[derive(Debug, Default)]
struct KeptSamples {
    pieces: VecDeque<LateSamples>,
    bytes: usize,
}

impl LateBuffer {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: Mutex::default(),
        }
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.limit > 0
    }

    /// Drops the oldest to make room.
    pub(super) fn add(&self, piece: LateSamples) {
        // Each change is atomic, so a poisoned state is valid.
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += piece.samples.len();
        kept.pieces.push_back(piece);
        while kept.bytes > self.limit
            && let Some(oldest) = kept.pieces.pop_front()
        {
            kept.bytes -= oldest.samples.len();
        }
    }

    pub(super) fn take(&self) -> Vec<LateSamples> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *kept).pieces.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_piece_is_dropped() {
        let buffer = LateBuffer::new(10);
        let piece = |start, bytes| LateSamples {
            start,
            time: None,
            samples: vec![0; bytes],
        };
        (0..4).for_each(|k| buffer.add(piece(k, 4)));
        assert_eq!(buffer.take(), [piece(2, 4), piece(3, 4)]);
        buffer.add(piece(9, 11));
        assert_eq!(buffer.take(), []);
    }
}
