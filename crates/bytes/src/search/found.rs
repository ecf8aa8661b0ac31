//! Counts per pattern, and positions of the first matches.

/// Matches so far, ascending.
#[derive(Debug)]
pub(super) struct Found {
    counts: Vec<u64>,
    first: Vec<(u64, u32)>,
    keep: usize,
}

impl Found {
    pub(super) fn new(patterns: usize, keep: usize) -> Self {
        Self {
            counts: vec![0; patterns],
            first: Vec::new(),
            keep,
        }
    }

    /// Upper bound of the heap: vectors double.
    pub(super) fn bytes(&self) -> usize {
        self.counts.len() * size_of::<u64>() + 2 * self.keep * size_of::<(u64, u32)>()
    }

    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.first.clear();
    }

    /// Adds a match after all others.
    pub(super) fn add(&mut self, offset: u64, pattern: u32) {
        self.counts[pattern as usize] += 1;
        self.keep(offset, pattern);
    }

    /// Adds a position without counting it.
    pub(super) fn keep(&mut self, offset: u64, pattern: u32) {
        if self.first.len() < self.keep {
            self.first.push((offset, pattern));
        }
    }

    pub(super) fn count(&mut self, pattern: u32, matches: u64) {
        self.counts[pattern as usize] += matches;
    }

    pub(super) fn uncount(&mut self, pattern: u32) {
        self.counts[pattern as usize] -= 1;
    }

    /// Forgets the positions of the first matches.
    pub(super) fn drop_first(&mut self, matches: usize) {
        self.first.drain(..matches.min(self.first.len()));
    }

    pub(super) fn kept(&self) -> usize {
        self.first.len()
    }

    /// How many positions of later matches are wanted here that these did not keep.
    pub(super) fn wants(&self, later: &Self) -> usize {
        let matches: u64 = later.counts.iter().sum();
        let room = self.keep - self.first.len();
        let there = usize::try_from(matches).unwrap_or(usize::MAX);
        room.min(there).saturating_sub(later.first.len())
    }

    /// Appends later matches.
    pub(super) fn append(&mut self, later: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&later.counts) {
            *count += more;
        }
        let room = self.keep - self.first.len();
        self.first.extend(later.first.iter().take(room).copied());
    }

    pub(super) fn counts(&self) -> &[u64] {
        &self.counts
    }

    pub(super) fn offsets(&self) -> Vec<(u64, usize)> {
        self.first
            .iter()
            .map(|&(offset, pattern)| (offset, pattern as usize))
            .collect()
    }
}
