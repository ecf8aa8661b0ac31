//! Ranges where a stream exceeds a threshold.

use std::ops::Range;

use crate::DspError;

const BLOCK: usize = 64;

/// Number k starts at index `start + k * hop` and covers `span` indices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// First index of the first number.
    pub start: i64,
    /// Indices between numbers, at least 1.
    pub hop: u64,
    /// Indices per number: 1, or the window length.
    pub span: u64,
}

impl Grid {
    fn start_of(&self, k: usize) -> i64 {
        self.start
            .saturating_add_unsigned(self.hop.saturating_mul(k as u64))
    }

    fn end_of(&self, k: usize) -> i64 {
        self.start_of(k).saturating_add_unsigned(self.span)
    }
}

/// Two-threshold trigger: ranges that start at `on` or above and continue at `off` or above.
///
/// Input: numbers with their indices. Output: half-open ranges, from the start of the first number at or above `on` to
/// the end of the last consecutive one at or above `off`. Ranges with at most `merge` indices between them are joined,
/// then those of fewer than `least` are dropped. A range is emitted once it cannot grow. NaN is below all thresholds.
///
/// Source: ObsPy's `trigger_onset`, whose ends are inclusive.
///
/// ```
/// use isochrony_dsp::detect::{Grid, Triggers};
/// let mut triggers = Triggers::new(3.0, 1.0, 1, 0)?;
/// let mut found = Vec::new();
/// let samples = Grid { start: 10, hop: 1, span: 1 };
/// triggers.run(&[0.0, 3.5, 2.0, 0.5, 2.0], samples, |range| found.push(range));
/// assert_eq!(found, [11..13]);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Triggers {
    on: f64,
    off: f64,
    least: u64,
    merge: u64,
    open: Option<Range<i64>>,
    /// Above `on` earlier, not below `off` since.
    active: bool,
}

impl Triggers {
    /// `least` and `merge` are in indices.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if `off` is above `on`, or either is not finite.
    pub fn new(on: f64, off: f64, least: u64, merge: u64) -> Result<Self, DspError> {
        let mut new = Self {
            on,
            off,
            least,
            merge,
            open: None,
            active: false,
        };
        new.set(on, off)?;
        Ok(new)
    }

    /// Changes the thresholds; an open range continues.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn set(&mut self, on: f64, off: f64) -> Result<(), DspError> {
        let refused = |parameter, got: f64, allowed: String| DspError::Parameter {
            operator: "triggers",
            parameter,
            got: got.to_string(),
            allowed,
        };
        if !on.is_finite() {
            return Err(refused("on", on, "a finite number".into()));
        }
        if !off.is_finite() || off > on {
            return Err(refused("off", off, format!("at most on={on}")));
        }
        (self.on, self.off) = (on, off);
        Ok(())
    }

    /// Takes the next numbers, emits complete ranges.
    pub fn run(&mut self, values: &[f64], grid: Grid, mut found: impl FnMut(Range<i64>)) {
        let mut k = 0;
        loop {
            if self.active {
                let stays = |value: &f64| *value >= self.off; // NaN does not
                let falls = values[k..].iter().position(|value| !stays(value));
                let end = falls.map_or(values.len(), |at| k + at);
                if let (Some(open), Some(last)) = (&mut self.open, end.checked_sub(1))
                    && end > k
                {
                    open.end = open.end.max(grid.end_of(last));
                }
                k = end;
                self.active = falls.is_none();
            }
            let Some(at) = self.rises(&values[k..]) else {
                break;
            };
            k += at;
            let start = grid.start_of(k);
            match &self.open {
                Some(open) if start <= open.end.saturating_add_unsigned(self.merge) => {}
                _ => {
                    self.flush(&mut found);
                    self.open = Some(start..start);
                }
            }
            self.active = true;
        }
        let next = grid.start_of(values.len());
        let far = |open: &Range<i64>| next > open.end.saturating_add_unsigned(self.merge);
        if !self.active && self.open.as_ref().is_some_and(far) {
            self.flush(&mut found);
        }
    }

    fn rises(&self, values: &[f64]) -> Option<usize> {
        if self.active {
            return None;
        }
        let mut from = 0;
        for block in values.chunks(BLOCK) {
            // Without early exit: vectorises.
            if block
                .iter()
                .fold(false, |any, value| any | (*value >= self.on))
            {
                return block
                    .iter()
                    .position(|value| *value >= self.on)
                    .map(|at| from + at);
            }
            from += block.len();
        }
        None
    }

    fn flush(&mut self, found: &mut impl FnMut(Range<i64>)) {
        if let Some(open) = self.open.take()
            && open.end.abs_diff(open.start) >= self.least
        {
            found(open);
        }
    }

    /// Ends the range: emits the rest and resets.
    pub fn finish(&mut self, mut found: impl FnMut(Range<i64>)) {
        self.flush(&mut found);
        self.active = false;
    }

    /// Start of the range that may still grow.
    #[must_use]
    pub fn open_from(&self) -> Option<i64> {
        self.open.as_ref().map(|open| open.start)
    }
}
