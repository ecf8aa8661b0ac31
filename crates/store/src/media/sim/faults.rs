//! What shall go wrong, and chance.

use crate::media::Site;

/// What shall go wrong.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The power goes at this change of the medium, counted from 0 over the life of the medium.
    pub cut_at: Option<u64>,
    /// Syncs from this place in the protocol do nothing, and say that they did.
    pub ignore: Option<Site>,
    /// The n-th sync from now on fails, counted from 0.
    pub fail_sync: Option<u64>,
    /// This change of the medium, counted from 0 over the life of the medium, is not made, and fails with an I/O error.
    pub fail_at: Option<u64>,
    /// From this change on, and for so many, every call that needs space fails.
    pub full: Option<(u64, u64)>,
}

/// A small generator of random numbers (splitmix64): tests must not depend on anybody's choice of another one.
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

    /// A number below `limit`, which is above 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.roll() % limit
    }

    /// True in `percent` of all cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}
