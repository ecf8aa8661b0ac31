//! What goes wrong on the way, where that is asked for.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use super::{Sender, mix};
use crate::LiveError;
use crate::receive::Address;

/// What goes wrong on the way, by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// Probability that a frame is lost.
    pub loss: f64,
    /// Probability that it comes twice.
    pub twice: f64,
    /// Longest time that a frame is held back, uniformly; those behind it overtake.
    pub jitter: Duration,
    /// Where chance begins.
    pub seed: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            loss: 0.0,
            twice: 0.0,
            jitter: Duration::ZERO,
            seed: 1,
        }
    }
}

impl Faults {
    /// Whether they can happen on the way to an address.
    ///
    /// # Errors
    /// [`LiveError::Option`] of a probability outside 0 to 1, or over what loses nothing.
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
        let none = Self {
            seed: self.seed,
            ..Self::default()
        };
        if *self != none && !matches!(address, Address::Udp(_)) {
            return Err(LiveError::Option {
                option: "faults",
                got: format!("{self:?}"),
                legal: "none: only datagrams are lost on the way".into(),
            });
        }
        Ok(())
    }
}

impl Sender {
    /// Sends what was held back long enough.
    ///
    /// # Errors
    /// [`LiveError::Socket`].
    pub fn release(&mut self) -> Result<(), LiveError> {
        let now = Instant::now();
        while self
            .held
            .peek()
            .is_some_and(|Reverse((due, _, _))| *due <= now)
        {
            if let Some(Reverse((_, _, frame))) = self.held.pop() {
                self.write(&frame)?;
            }
        }
        Ok(())
    }

    /// Sends the frame, unless chance has it otherwise.
    pub(super) fn hand_over(&mut self, samples: u64) -> Result<(), LiveError> {
        if self.uniform() < self.faults.loss {
            self.sent.dropped_samples += samples;
            return self.release();
        }
        let twice = self.uniform() < self.faults.twice;
        self.sent.doubled_frames += u64::from(twice);
        for _ in 0..=u8::from(twice) {
            let frame = std::mem::take(&mut self.frame);
            if self.faults.jitter.is_zero() {
                let wrote = self.write(&frame);
                self.frame = frame;
                wrote?;
            } else {
                let wait = self.faults.jitter.mul_f64(self.uniform());
                let kept = frame.clone();
                self.held
                    .push(Reverse((Instant::now() + wait, self.header.first, frame)));
                self.frame = kept;
            }
        }
        self.release()
    }

    fn uniform(&mut self) -> f64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (mix(self.chance) >> 11) as f64 / (1u64 << 53) as f64
    }
}
