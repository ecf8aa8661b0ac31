//! [`BatchArrivals`]: when the input of a block arrived, which is cut of batches of events. Pure.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Instant;

/// Batches of which not all events are in blocks, by the numbers of their events.
#[derive(Default)]
pub(super) struct BatchArrivals {
    batches: VecDeque<(Range<u64>, Instant)>,
    pushed: u64,
    last: Option<Instant>,
}

impl BatchArrivals {
    pub(super) fn push(&mut self, events: usize, arrived: Option<Instant>) {
        let begin = self.pushed;
        self.pushed += events as u64;
        if let Some(arrived) = arrived {
            self.batches.push_back((begin..self.pushed, arrived));
        }
    }

    /// Of the first batch from which something was taken since the last call; as before, if from none. `left`: events
    /// that are not taken yet.
    pub(super) fn take(&mut self, left: usize) -> Option<Instant> {
        let taken = self.pushed - left as u64;
        let mut first = None;
        while let Some((events, arrived)) = self.batches.front()
            && events.start < taken
        {
            first = first.or(Some(*arrived));
            if taken < events.end {
                break;
            }
            self.batches.pop_front();
        }
        self.last = first.or(self.last);
        self.last
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_block_arrived_with_the_first_batch_that_is_in_it() {
        let begun = Instant::now();
        let at = |second| Some(begun + Duration::from_secs(second));
        let mut arrivals = BatchArrivals::default();
        assert_eq!(arrivals.take(0), None);
        arrivals.push(2, at(1));
        arrivals.push(3, None);
        arrivals.push(4, at(2));
        // Two batches, and one event of the third.
        assert_eq!(arrivals.take(3), at(1));
        assert_eq!(arrivals.take(1), at(2));
        assert_eq!(arrivals.take(0), at(2));
        // Of what was retained.
        assert_eq!(arrivals.take(0), at(2));
        arrivals.push(1, at(5));
        arrivals.push(1, at(7));
        assert_eq!(arrivals.take(0), at(5));
    }
}
