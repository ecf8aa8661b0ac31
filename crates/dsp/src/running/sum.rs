//! Sums of sliding windows without subtraction.
//!
//! The stream is cut into blocks of W samples. A window's sum is a suffix sum of one block plus a running sum of the
//! next. For numbers of one sign the error is at most W - 1 roundings of 2^-53, however long the stream, and infinities
//! and NaN leave with their window. Additions are ordered by block: the same bits for any cutting.
//!
//! Rejected: a running sum (add new, subtract old) keeps the rounding errors of the largest samples for ever. Source:
//! van Herk, Gil and Werman's sliding maxima (1992, 1993).

/// Sums of the last W values.
#[derive(Debug, Clone)]
pub struct SlidingSum {
    window: usize,
    /// `[..at]`: values of this block; `[at..]`: suffix sums of the block before.
    kept: Vec<f64>,
    at: usize,
    head: f64,
}

impl SlidingSum {
    /// `window` of at least one value.
    #[must_use]
    pub fn new(window: usize) -> Self {
        Self {
            window: window.max(1),
            // Allocated with the first value: a plan that does not run takes no memory.
            kept: Vec::new(),
            at: 0,
            head: 0.0,
        }
    }

    /// Window length.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window
    }

    /// Allocates; call before [`add`](Self::add).
    #[inline]
    pub fn prepare(&mut self) {
        if self.kept.is_empty() {
            self.kept = vec![0.0; self.window + 1];
        }
    }

    /// Adds a value; returns the sum of the last W, or of all if fewer.
    ///
    /// # Panics
    /// Before [`prepare`](Self::prepare).
    #[inline(always)]
    pub fn add(&mut self, value: f64) -> f64 {
        self.kept[self.at] = value;
        self.head += value;
        self.at += 1;
        match self.at == self.window {
            false => self.head + self.kept[self.at],
            true => self.end_block(),
        }
    }

    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.window - self.at
    }

    #[inline(always)]
    pub(crate) fn head(&self) -> f64 {
        self.head
    }

    /// Slots of the next `count` values, at most [`room`](Self::room), and one more. Each holds the suffix sum for the
    /// value before, until overwritten.
    #[inline(always)]
    pub(crate) fn places(&mut self, count: usize) -> &mut [f64] {
        &mut self.kept[self.at..][..=count]
    }

    /// Accepts values written to their slots; `head` is the block's sum.
    #[inline(always)]
    pub(crate) fn advance(&mut self, count: usize, head: f64) {
        self.at += count;
        self.head = head;
        if self.at == self.window {
            self.end_block();
        }
    }

    #[inline(never)]
    fn end_block(&mut self) -> f64 {
        // Shortens the dependency chain.
        let mut tail = 0.0;
        let mut fours = self.kept[..self.window].rchunks_exact_mut(4);
        for four in &mut fours {
            let last = four[3];
            let two = four[2] + last;
            let three = four[1] + two;
            let all = four[0] + three;
            (four[3], four[2], four[1]) = (last + tail, two + tail, three + tail);
            tail += all;
            four[0] = tail;
        }
        for value in fours.into_remainder().iter_mut().rev() {
            tail += *value;
            *value = tail;
        }
        self.at = 0;
        std::mem::take(&mut self.head)
    }

    /// Forgets all values.
    pub fn reset(&mut self) {
        self.kept.fill(0.0);
        self.at = 0;
        self.head = 0.0;
    }

    /// Bytes of state.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.window + 1) * size_of::<f64>()
    }
}
