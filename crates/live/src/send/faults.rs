//! Simulated network faults: loss, duplication and jitter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use crate::LiveError;
use crate::address::Address;

/// Limit, as a run waits for its last frames.
const MAX_JITTER: Duration = Duration::from_secs(60);

/// Equal seeds give equal faults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkFaults {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that a frame is sent twice.
    pub twice: f64,
    /// Maximum delay, up to a minute; drawn uniformly, so frames may overtake.
    pub jitter: Duration,
    /// Random seed.
    pub seed: u64,
}

impl Default for NetworkFaults {
    fn default() -> Self {
        Self {
            loss: 0.0,
            twice: 0.0,
            jitter: Duration::ZERO,
            seed: 1,
        }
    }
}

impl NetworkFaults {
    /// Checks faults and address.
    ///
    /// # Errors
    /// [`LiveError::Option`]: a probability outside 0 to 1, a delay above a minute, or a transport other than UDP.
    pub fn check(&self, address: &Address) -> Result<(), LiveError> {
        for (option, value) in [("loss", self.loss), ("twice", self.twice)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(LiveError::Option {
                    option,
                    got: value.to_string(),
                    legal: "a probability from 0 to 1".into(),
                });
            }
        }
        if self.jitter > MAX_JITTER {
            return Err(LiveError::Option {
                option: "jitter",
                got: format!("{} s", self.jitter.as_secs_f64()),
                legal: format!("at most {} s", MAX_JITTER.as_secs()),
            });
        }
        let none = Self {
            seed: self.seed,
            ..Self::default()
        };
        if *self != none && !matches!(address, Address::Udp(_)) {
            return Err(LiveError::Option {
                option: "faults",
                got: format!("{self:?}"),
                legal: "none: only UDP loses, duplicates or reorders frames".into(),
            });
        }
        Ok(())
    }
}

type DelayedFrame = Reverse<(Instant, u64, Vec<u8>)>;

#[derive(Debug)]
pub(super) struct FaultInjector {
    faults: NetworkFaults,
    random_state: u64,
    delayed: BinaryHeap<DelayedFrame>,
}

impl FaultInjector {
    pub(super) fn new(faults: NetworkFaults) -> Self {
        Self {
            faults,
            random_state: mix(faults.seed),
            delayed: BinaryHeap::new(),
        }
    }

    /// 0: lost; 2: twice.
    pub(super) fn draw_copies(&mut self) -> u32 {
        if self.uniform() < self.faults.loss {
            return 0;
        }
        1 + u32::from(self.uniform() < self.faults.twice)
    }

    pub(super) fn draw_delay(&mut self) -> Option<Duration> {
        let jitter = self.faults.jitter;
        (!jitter.is_zero()).then(|| jitter.mul_f64(self.uniform()))
    }

    /// `index` breaks ties.
    pub(super) fn hold(&mut self, delay: Duration, index: u64, frame: Vec<u8>) {
        let held = (Instant::now() + delay, index, frame);
        self.delayed.push(Reverse(held));
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.delayed.peek().map(|Reverse((due, _, _))| *due)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next_due().filter(|due| *due <= now)?;
        self.delayed.pop().map(|Reverse((_, _, frame))| frame)
    }

    fn uniform(&mut self) -> f64 {
        self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.random_state) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The finaliser of SplitMix64.
pub(super) fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
