//! Order statistics of replaced numbers.
//!
//! Numbers below a rank are in a max-heap, the others in a min-heap, and each *slot* knows its number's position:
//! replacing takes O(log n) comparisons. -0 is before 0: results do not depend on arrival order. Invariants: each used
//! slot's position names its entry; after [`RankHeaps::divide`] no number of the lower heap exceeds one of the upper.

/// NaN is stored as infinity and counted.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: f64,
    slot: u32,
    nan: bool,
}

/// Marks a position in the lower heap.
const LOWER: u32 = 1 << 31;

/// `MAX`: greatest first.
#[derive(Debug, Clone, Default)]
struct Heap<const MAX: bool>(Vec<Entry>);

impl<const MAX: bool> Heap<MAX> {
    const MARK: u32 = if MAX { LOWER } else { 0 };

    #[inline(always)]
    fn goes_before(a: f64, b: f64) -> bool {
        let order = a.total_cmp(&b);
        if MAX { order.is_gt() } else { order.is_lt() }
    }

    #[inline(always)]
    fn put(&mut self, at: usize, entry: Entry, places: &mut [u32]) {
        self.0[at] = entry;
        places[entry.slot as usize] = at as u32 | Self::MARK;
    }

    /// The entry replaces the one at `at`.
    fn up(&mut self, mut at: usize, entry: Entry, places: &mut [u32]) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if !Self::goes_before(entry.key, self.0[parent].key) {
                break;
            }
            self.put(at, self.0[parent], places);
            at = parent;
        }
        self.put(at, entry, places);
    }

    /// The entry replaces the one at `at`.
    fn down(&mut self, mut at: usize, entry: Entry, places: &mut [u32]) {
        loop {
            let left = 2 * at + 1;
            let Some(mut child) = self.0.get(left).copied() else {
                break;
            };
            let mut next = left;
            if let Some(right) = self.0.get(left + 1)
                && Self::goes_before(right.key, child.key)
            {
                (child, next) = (*right, left + 1);
            }
            if !Self::goes_before(child.key, entry.key) {
                break;
            }
            self.put(at, child, places);
            at = next;
        }
        self.put(at, entry, places);
    }

    fn replace(&mut self, at: usize, entry: Entry, places: &mut [u32]) {
        if Self::goes_before(entry.key, self.0[at].key) {
            self.up(at, entry, places);
        } else {
            self.down(at, entry, places);
        }
    }

    fn push(&mut self, entry: Entry, places: &mut [u32]) {
        self.0.push(entry);
        self.up(self.0.len() - 1, entry, places);
    }

    fn pop(&mut self, places: &mut [u32]) -> Option<Entry> {
        let last = self.0.pop()?;
        let Some(top) = self.0.first().copied() else {
            return Some(last);
        };
        self.down(0, last, places);
        Some(top)
    }
}

/// Numbers in slots, divided at a rank.
///
/// ```
/// use isochrony_dsp::running::RankHeaps;
/// let mut three = RankHeaps::new(3);
/// for (slot, number) in [5.0, 1.0, 3.0].into_iter().enumerate() {
///     three.set(slot, number);
/// }
/// three.divide(2); // two below the rank
/// assert_eq!(three.below(), Some(3.0));
/// three.set(0, 2.0); // instead of 5
/// three.divide(2);
/// assert_eq!((three.below(), three.above()), (Some(2.0), Some(3.0)));
/// ```
#[derive(Debug, Clone)]
pub struct RankHeaps {
    lower: Heap<true>,
    upper: Heap<false>,
    places: Vec<u32>,
    nans: usize,
}

impl RankHeaps {
    const EMPTY: u32 = u32::MAX;

    /// An entry in either heap, and a position, per slot.
    #[must_use]
    pub const fn bytes(slots: usize) -> usize {
        slots * (2 * size_of::<Entry>() + size_of::<u32>())
    }

    /// Empty slots, fewer than 2^31.
    #[must_use]
    pub fn new(slots: usize) -> Self {
        Self {
            lower: Heap(Vec::with_capacity(slots)),
            upper: Heap(Vec::with_capacity(slots)),
            places: vec![Self::EMPTY; slots],
            nans: 0,
        }
    }

    /// Replaces a slot's number.
    ///
    /// # Panics
    /// Without such a slot.
    #[inline]
    pub fn set(&mut self, slot: usize, number: f64) {
        let nan = number.is_nan();
        let entry = Entry {
            key: if nan { f64::INFINITY } else { number },
            slot: slot as u32,
            nan,
        };
        self.nans += usize::from(nan);
        let place = self.places[slot];
        let places = &mut self.places;
        if place == Self::EMPTY {
            match self.lower.0.first() {
                Some(top) if entry.key.total_cmp(&top.key).is_lt() => {
                    self.lower.push(entry, places)
                }
                _ => self.upper.push(entry, places),
            }
            return;
        }
        let at = (place & !LOWER) as usize;
        if place & LOWER != 0 {
            self.nans -= usize::from(self.lower.0[at].nan);
            self.lower.replace(at, entry, places);
        } else {
            self.nans -= usize::from(self.upper.0[at].nan);
            self.upper.replace(at, entry, places);
        }
        if let (Some(&below), Some(&above)) = (self.lower.0.first(), self.upper.0.first())
            && below.key.total_cmp(&above.key).is_gt()
        {
            self.lower.down(0, above, places);
            self.upper.down(0, below, places);
        }
    }

    /// The lower heap gets `below` numbers, at most all.
    #[inline]
    pub fn divide(&mut self, below: usize) {
        while self.lower.0.len() < below
            && let Some(entry) = self.upper.pop(&mut self.places)
        {
            self.lower.push(entry, &mut self.places);
        }
        while self.lower.0.len() > below
            && let Some(entry) = self.lower.pop(&mut self.places)
        {
            self.upper.push(entry, &mut self.places);
        }
    }

    /// Greatest number of the lower heap.
    #[inline]
    #[must_use]
    pub fn below(&self) -> Option<f64> {
        self.lower.0.first().map(|entry| entry.key)
    }

    /// Least number of the upper heap.
    #[inline]
    #[must_use]
    pub fn above(&self) -> Option<f64> {
        self.upper.0.first().map(|entry| entry.key)
    }

    /// Whether a number is NaN.
    #[inline]
    #[must_use]
    pub fn has_nan(&self) -> bool {
        self.nans > 0
    }

    /// Empties all slots.
    pub fn clear(&mut self) {
        self.lower.0.clear();
        self.upper.0.clear();
        self.places.fill(Self::EMPTY);
        self.nans = 0;
    }
}
