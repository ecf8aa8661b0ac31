//! [`MatchTally`]: counts per pattern, and positions of the first matches.

/// Number of matches of each pattern, and the first `max_positions` positions of matches, ascending.
#[derive(Debug)]
pub(super) struct MatchTally {
    counts: Vec<u64>,
    /// Offset in the stream, and pattern.
    first_positions: Vec<(u64, u32)>,
    max_positions: usize,
}

impl MatchTally {
    pub(super) fn new(patterns: usize, max_positions: usize) -> Self {
        Self {
            counts: vec![0; patterns],
            first_positions: Vec::new(),
            max_positions,
        }
    }

    /// Upper bound of heap memory in bytes: twice the positions, since `Vec` grows by doubling.
    pub(super) fn bytes(&self) -> usize {
        self.counts.len() * size_of::<u64>() + 2 * self.max_positions * size_of::<(u64, u32)>()
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.first_positions.clear();
    }

    /// Adds a match after all others.
    pub(super) fn add(&mut self, offset: u64, pattern: u32) {
        self.counts[pattern as usize] += 1;
        self.push_position(offset, pattern);
    }

    /// Adds a position without counting it.
    pub(super) fn push_position(&mut self, offset: u64, pattern: u32) {
        if self.first_positions.len() < self.max_positions {
            self.first_positions.push((offset, pattern));
        }
    }

    pub(super) fn count(&mut self, pattern: u32, matches: u64) {
        self.counts[pattern as usize] += matches;
    }

    pub(super) fn uncount(&mut self, pattern: u32) {
        self.counts[pattern as usize] -= 1;
    }

    /// Removes the first positions; counts stay.
    pub(super) fn drop_first_positions(&mut self, count: usize) {
        self.first_positions
            .drain(..count.min(self.first_positions.len()));
    }

    pub(super) fn position_count(&self) -> usize {
        self.first_positions.len()
    }

    /// Number of positions of `later` that would fit here but that `later` did not record.
    pub(super) fn missing_positions(&self, later: &Self) -> usize {
        let later_matches: u64 = later.counts.iter().sum();
        let room = self.max_positions - self.first_positions.len();
        let later_matches = usize::try_from(later_matches).unwrap_or(usize::MAX);
        room.min(later_matches)
            .saturating_sub(later.first_positions.len())
    }

    /// Appends later matches.
    pub(super) fn append(&mut self, later: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&later.counts) {
            *count += more;
        }
        let room = self.max_positions - self.first_positions.len();
        self.first_positions
            .extend(later.first_positions.iter().take(room).copied());
    }

    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }

    pub(super) fn offsets(&self) -> Vec<(u64, usize)> {
        self.first_positions
            .iter()
            .map(|&(offset, pattern)| (offset, pattern as usize))
            .collect()
    }
}
