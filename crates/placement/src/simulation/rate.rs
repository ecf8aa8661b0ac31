//! A rate shared equally by flows with own limits.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Processor sharing in virtual time: the bytes that a permanent flow would have received. A flow ends when that has
/// advanced by its bytes, whatever other flows do. O(log n) per event.
#[derive(Debug, Clone)]
pub(crate) struct SharedRate {
    rate: f64,
    flow_rate: f64,
    received: f64,
    at: u64,
    /// Virtual end time (as bits, which order positive floats) and run of each flow.
    flows: BinaryHeap<Reverse<(u64, u32)>>,
    /// Changes so far; each invalidates earlier predictions.
    pub(crate) version: u32,
}

impl SharedRate {
    pub(crate) fn new(rate: f64, flow_rate: f64) -> Self {
        Self {
            rate,
            flow_rate,
            received: 0.0,
            at: 0,
            flows: BinaryHeap::new(),
            version: 0,
        }
    }

    fn speed(&self) -> f64 {
        self.flow_rate.min(self.rate / self.flows.len() as f64)
    }

    fn advance(&mut self, now: u64) {
        if self.flows.is_empty() {
            // Restarting from 0 keeps virtual time exact.
            self.received = 0.0;
        } else {
            self.received += self.speed() * (now - self.at) as f64 / 1e9;
        }
        self.at = now;
        self.version = self.version.wrapping_add(1);
    }

    pub(crate) fn add(&mut self, now: u64, bytes: u64, what: u32) {
        self.advance(now);
        let end = self.received + bytes as f64;
        self.flows.push(Reverse((end.to_bits(), what)));
    }

    pub(crate) fn next_end(&self) -> Option<u64> {
        let Reverse((end, _)) = *self.flows.peek()?;
        let left = (f64::from_bits(end) - self.received).max(0.0);
        Some(self.at + (left / self.speed() * 1e9).ceil() as u64)
    }

    pub(crate) fn end(&mut self, now: u64) -> Option<u32> {
        self.advance(now);
        let Reverse((_, what)) = self.flows.pop()?;
        Some(what)
    }

    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::SharedRate;

    proptest! {
        #[test]
        fn flows_end_as_in_a_simulation_with_small_steps(
            flows in prop::collection::vec((0..3000u64, 1..2000u64), 1..12),
            rate in 1.0..10.0f64,
            flow_rate in 0.5..10.0f64,
        ) {
            // Per millisecond, for the slow model.
            let mut shared = SharedRate::new(rate * 1e3, flow_rate * 1e3);
            let mut order: Vec<_> = (0..flows.len()).collect();
            order.sort_by_key(|&flow| flows[flow].0);
            let mut ends = vec![0; flows.len()];
            let take = |shared: &mut SharedRate, until: u64, ends: &mut Vec<u64>| {
                while let Some(end) = shared.next_end().filter(|&end| end <= until) {
                    let flow = shared.end(end).unwrap();
                    ends[flow as usize] = end;
                }
            };
            for flow in order {
                let start = flows[flow].0 * 1_000_000;
                take(&mut shared, start, &mut ends);
                shared.add(start, flows[flow].1, flow as u32);
            }
            take(&mut shared, u64::MAX, &mut ends);
            let mut left: Vec<f64> = flows.iter().map(|flow| flow.1 as f64).collect();
            let mut slow = vec![0.0; flows.len()];
            let step = 0.25;
            let mut now = 0.0;
            while left.iter().any(|&left| left > 0.0) {
                let there = |flow: &usize| left[*flow] > 0.0 && flows[*flow].0 as f64 <= now;
                let active: Vec<_> = (0..flows.len()).filter(there).collect();
                let speed = flow_rate.min(rate / active.len().max(1) as f64);
                now += step;
                for flow in active {
                    left[flow] -= speed * step;
                    slow[flow] = now;
                }
            }
            for (end, slow) in ends.iter().zip(slow) {
                // The slow model sees each change at most one step late.
                let tolerance = step * (2.0 * flows.len() as f64 + 2.0);
                prop_assert!((*end as f64 / 1e6 - slow).abs() <= tolerance, "{end} {slow}");
            }
        }
    }
}
