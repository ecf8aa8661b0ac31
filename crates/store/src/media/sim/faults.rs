//! Faults to inject, and random numbers.

use crate::media::Site;

/// Faults to inject.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The power fails at this change, counted from 0 over the life of the medium.
    pub cut_at: Option<u64>,
    /// Syncs from this site have no effect.
    pub ignore: Option<Site>,
    /// The n-th sync from now on fails, from 0.
    pub fail_sync: Option<u64>,
    /// This change fails, counted as for `cut_at`.
    pub fail_at: Option<u64>,
    /// From this change on, for so many, every call that needs space fails.
    pub full: Option<(u64, u64)>,
}

/// Splitmix64: independent of any library's generator.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, above 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    /// True in `percent` of cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
