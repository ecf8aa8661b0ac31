//! A persistent sorted sequence, the container of a signal's tables.
//!
//! Rows are in chunks of at most [`CHUNK`] behind `Arc`s, listed in a directory behind an `Arc`. Cloning copies one
//! pointer; the first change afterwards copies the directory (1,000,000 rows: some 2,000 entries) and the affected
//! chunks. Append: O(1) amortised; lookup: O(log n); change in the middle: O(chunk + directory).
//!
//! Invariants: no chunk is empty or longer than `CHUNK`; `first` is the number of rows in earlier chunks, `before`
//! their aggregate, `own` that of the chunk; `len` and `total` cover all rows. Callers of `splice` keep rows sorted.

use std::ops::Range;
use std::sync::Arc;

const CHUNK: usize = 512;

/// The aggregate is a monoid over `i64`.
pub(crate) trait Row: Clone {
    const NONE: i64 = 0;

    fn measure(&self) -> i64 {
        0
    }

    fn join(a: i64, b: i64) -> i64 {
        a + b
    }
}

#[derive(Debug, Clone)]
struct Entry<T> {
    first: usize,
    before: i64,
    own: i64,
    rows: Arc<Vec<T>>,
}

impl<T: Row> Entry<T> {
    fn new(first: usize, before: i64, rows: Vec<T>) -> Self {
        Self {
            first,
            before,
            own: aggregate(&rows),
            rows: Arc::new(rows),
        }
    }

    fn after(&self) -> (usize, i64) {
        (self.first + self.rows.len(), T::join(self.before, self.own))
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Seq<T> {
    entries: Arc<Vec<Entry<T>>>,
    len: usize,
    total: i64,
}

impl<T: Row> Default for Seq<T> {
    fn default() -> Self {
        Self {
            entries: Arc::default(),
            len: 0,
            total: T::NONE,
        }
    }
}

impl<T: Row> FromIterator<T> for Seq<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let mut seq = Self::default();
        let mut chunk = Vec::new();
        for row in rows {
            if chunk.len() == CHUNK {
                seq.push_chunk(std::mem::take(&mut chunk));
            }
            if chunk.capacity() == 0 {
                chunk.reserve_exact(CHUNK);
            }
            chunk.push(row);
        }
        seq.push_chunk(chunk);
        seq
    }
}

fn aggregate<T: Row>(rows: &[T]) -> i64 {
    rows.iter()
        .fold(T::NONE, |sum, row| T::join(sum, row.measure()))
}

impl<T: Row> Seq<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn total(&self) -> i64 {
        self.total
    }

    pub(crate) fn get(&self, position: usize) -> Option<&T> {
        if position >= self.len {
            return None;
        }
        let entry = &self.entries[self.chunk_of(position)];
        entry.rows.get(position - entry.first)
    }

    pub(crate) fn last(&self) -> Option<&T> {
        self.entries.last()?.rows.last()
    }

    pub(crate) fn iter_from(&self, position: usize) -> impl Iterator<Item = &T> + '_ {
        let chunk = self.chunk_of(position);
        let skip = match self.entries.get(chunk) {
            Some(entry) if position < self.len => position - entry.first,
            _ => usize::MAX,
        };
        self.entries[chunk.min(self.entries.len())..]
            .iter()
            .flat_map(|entry| entry.rows.iter())
            .skip(skip)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> + '_ {
        self.entries.iter().flat_map(|entry| entry.rows.iter())
    }

    /// Rows at a range of positions; double-ended.
    pub(crate) fn range(&self, range: Range<usize>) -> impl Iterator<Item = &T> + '_ {
        let count = range.end.saturating_sub(range.start);
        self.iter_from(range.start).take(count)
    }

    /// Number of leading rows for which `before` holds; it must partition the rows.
    pub(crate) fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let after = self
            .entries
            .partition_point(|entry| entry.rows.first().is_some_and(&mut before));
        match after.checked_sub(1) {
            None => 0,
            Some(chunk) => {
                let entry = &self.entries[chunk];
                entry.first + entry.rows.partition_point(before)
            }
        }
    }

    pub(crate) fn aggregate_before(&self, position: usize) -> i64 {
        if position >= self.len {
            return self.total;
        }
        let entry = &self.entries[self.chunk_of(position)];
        T::join(
            entry.before,
            aggregate(&entry.rows[..position - entry.first]),
        )
    }

    /// First position whose inclusive, non-decreasing aggregate exceeds `bound`; else `len`.
    pub(crate) fn first_above(&self, bound: i64) -> usize {
        let chunk = self
            .entries
            .partition_point(|entry| entry.before <= bound)
            .saturating_sub(1);
        let Some(entry) = self.entries.get(chunk) else {
            return 0;
        };
        let mut sum = entry.before;
        for (offset, row) in entry.rows.iter().enumerate() {
            sum = T::join(sum, row.measure());
            if sum > bound {
                return entry.first + offset;
            }
        }
        entry.first + entry.rows.len()
    }

    pub(crate) fn push(&mut self, row: T) {
        let measure = row.measure();
        let entries = Arc::make_mut(&mut self.entries);
        match entries.last_mut() {
            Some(entry) if entry.rows.len() < CHUNK => {
                entry.own = T::join(entry.own, measure);
                push_shared(&mut entry.rows, row);
            }
            _ => entries.push(Entry::new(self.len, self.total, vec![row])),
        }
        self.len += 1;
        self.total = T::join(self.total, measure);
    }

    pub(crate) fn splice(&mut self, range: Range<usize>, with: impl IntoIterator<Item = T>) {
        let start = range.start.min(self.len);
        let end = range.end.clamp(start, self.len);
        if start == self.len {
            with.into_iter().for_each(|row| self.push(row));
            return;
        }
        let mut head = self.chunk_of(start);
        let tail = self.chunk_of(end.saturating_sub(1).max(start));
        let mut rows = self.entries[head].rows[..start - self.entries[head].first].to_vec();
        rows.extend(with);
        rows.extend_from_slice(&self.entries[tail].rows[end - self.entries[tail].first..]);
        // Merge small chunks, or the directory would outgrow the rows.
        if rows.len() < CHUNK / 4 && head > 0 {
            head -= 1;
            rows.splice(0..0, self.entries[head].rows.iter().cloned());
        }
        let size = rows.len().div_ceil(rows.len().div_ceil(CHUNK).max(1));
        let new: Vec<_> = rows
            .chunks(size.max(1))
            .map(|part| Entry::new(0, T::NONE, part.to_vec()))
            .collect();
        let entries = Arc::make_mut(&mut self.entries);
        entries.splice(head..=tail, new);

        let (mut first, mut before) = match head.checked_sub(1) {
            None => (0, T::NONE),
            Some(previous) => entries[previous].after(),
        };
        for entry in &mut entries[head..] {
            (entry.first, entry.before) = (first, before);
            (first, before) = entry.after();
        }
        (self.len, self.total) = (first, before);
    }

    fn push_chunk(&mut self, rows: Vec<T>) {
        if rows.is_empty() {
            return;
        }
        let entry = Entry::new(self.len, self.total, rows);
        (self.len, self.total) = entry.after();
        Arc::make_mut(&mut self.entries).push(entry);
    }

    fn chunk_of(&self, position: usize) -> usize {
        if position >= self.len {
            return self.entries.len();
        }
        self.entries
            .partition_point(|entry| entry.first <= position)
            - 1
    }
}

/// A vector shared with a snapshot is copied with room to grow.
fn push_shared<T: Clone>(rows: &mut Arc<Vec<T>>, row: T) {
    if let Some(own) = Arc::get_mut(rows) {
        own.push(row);
        return;
    }
    let mut copy = Vec::with_capacity((rows.len() * 2).clamp(4, CHUNK));
    copy.extend_from_slice(rows);
    copy.push(row);
    *rows = Arc::new(copy);
}
