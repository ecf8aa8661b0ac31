//! What goes wrong on the way, where that is asked for.

use std::time::Duration;

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
