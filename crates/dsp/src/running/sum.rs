//! Sums of sliding windows without subtraction.
//!
//! The stream is cut into blocks of W samples, counted from the stretch's first. A window that ends within a block is a
//! beginning of this block and an end of the one before, so its sum is a sum from the block's first sample on plus one
//! that was computed backwards from the last sample of the block before. Each sample is added twice and never
//! subtracted: of numbers of one sign the error is at most W - 1 roundings, 2^-53 of the sum each, however long the stream
//! and whatever went through before; infinities and NaN are gone when they have left the window. Only additions in an
//! order that the block fixes: the same bits for any cutting of the stream.
//!
//! Rejected: a running sum (adds what comes, subtracts what goes) keeps the rounding errors of the largest samples for
//! ever; exact integers would need floating samples to be scaled. The scheme is the two stacks by which a queue is
//! made, as van Herk and Gil and Werman used it for sliding maxima (1992, 1993).

/// Sums of the last W values.
#[derive(Debug, Clone)]
pub struct SlidingSum {
    window: usize,
    /// In `[..at]` the values of this block; in `[at..]` the sums from there to the end of the block before, and 0 behind.
    kept: Vec<f64>,
    at: usize,
    /// Sum of the values of this block.
    head: f64,
}

impl SlidingSum {
    /// Of windows of so many values, at least one.
    #[must_use]
    pub fn new(window: usize) -> Self {
        Self {
            window: window.max(1),
            // Memory is taken with the first value: a plan that is only written takes none.
            kept: Vec::new(),
            at: 0,
            head: 0.0,
        }
    }

    /// Values of a window.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window
    }

    /// Takes memory, if it has none; before the first of [`add`](Self::add).
    #[inline]
    pub fn prepare(&mut self) {
        if self.kept.is_empty() {
            self.kept = vec![0.0; self.window + 1];
        }
    }

    /// Adds a value; the sum of the last W of them, of fewer where fewer have come.
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
            true => self.turn(),
        }
    }

    /// Values until the block is full, at least one.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.window - self.at
    }

    /// Sum of the values of this block.
    #[inline(always)]
    pub(crate) fn head(&self) -> f64 {
        self.head
    }

    /// Places of the next `count` values, of which there is [`room`](Self::room) for, and one behind. Each holds, until its
    /// value is put there, what is to be added to the sum of this block with the value before.
    #[inline(always)]
    pub(crate) fn places(&mut self, count: usize) -> &mut [f64] {
        &mut self.kept[self.at..][..=count]
    }

    /// Takes in the values that were put into their places; `head` is the sum of this block with them.
    #[inline(always)]
    pub(crate) fn advance(&mut self, count: usize, head: f64) {
        self.at += count;
        self.head = head;
        if self.at == self.window {
            self.turn();
        }
    }

    /// The block is full: its sums from behind are what the next one needs. Its sum.
    #[inline(never)]
    fn turn(&mut self) -> f64 {
        // Four at a time, so that one addition in four waits for the one before.
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

    /// Bytes that it keeps.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.window + 1) * size_of::<f64>()
    }
}
