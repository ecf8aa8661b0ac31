//! Where times lie among consecutive samples.

use isochrony_dsp::interpolate::Interpolation;

/// Samples between two whose times are looked up.
pub(super) const EVERY: usize = 64;

/// Consecutive samples of one clock.
pub(super) struct Stretch {
    pub(super) start: i64,
    pub(super) values: Vec<f64>,
    /// Times of the samples at 0, 64, 128 ...
    pub(super) marks: Vec<i64>,
    /// Time of the last sample so far.
    pub(super) last: i64,
    /// Nothing continues it.
    pub(super) over: bool,
    /// The mark before the time that was looked for last.
    cursor: usize,
}

/// Where a time lies.
pub(super) enum Found {
    /// At this value.
    At(f64),
    /// No value is computed there.
    Nowhere,
    /// What it needs may come.
    NotYet,
}

impl Stretch {
    /// Without samples yet; the first is at this index and time.
    pub(super) fn beginning(start: i64, time: i64) -> Self {
        Self {
            start,
            values: Vec::new(),
            marks: Vec::new(),
            last: time,
            over: false,
            cursor: 0,
        }
    }

    pub(super) fn end(&self) -> i64 {
        self.start.saturating_add_unsigned(self.values.len() as u64)
    }

    /// Where a time that is not before the first sample lies.
    pub(super) fn find(&mut self, time: i64, method: Interpolation) -> Found {
        let Some(mark) = self.mark_before(time) else {
            return Found::Nowhere;
        };
        let from = self.marks[mark];
        let (to, steps) = match self.marks.get(mark + 1) {
            Some(&next) => (next, EVERY),
            // Behind the last one the end says how the clock runs, once it is known.
            None if !self.over => return Found::NotYet,
            None if time > self.last => return Found::Nowhere,
            None => (self.last, self.values.len() - 1 - mark * EVERY),
        };
        let place = match steps {
            0 => 0.0,
            _ => (time - from) as f64 * steps as f64 / (to - from) as f64,
        };
        let (mut at, mut part) = (mark * EVERY + place as usize, place.fract());
        if at + 1 == self.values.len() && part == 0.0 && at > 0 {
            (at, part) = (at - 1, 1.0);
        }
        if at < method.before() {
            return Found::Nowhere;
        }
        match at + method.after() < self.values.len() {
            true => Found::At(method.value(&self.values, at, part)),
            false if self.over => Found::Nowhere,
            false => Found::NotYet,
        }
    }

    /// The last mark that is not after a time.
    fn mark_before(&mut self, time: i64) -> Option<usize> {
        let at = |mark: usize| self.marks.get(mark).copied();
        let near = at(self.cursor).is_some_and(|mark| mark <= time)
            && at(self.cursor + 1).is_none_or(|next| time < next);
        if !near {
            let after = self.marks.partition_point(|&mark| mark <= time);
            self.cursor = after.checked_sub(1)?;
        }
        Some(self.cursor)
    }

    /// Forgets what lies before what a time needs.
    pub(super) fn forget_before(&mut self, time: i64) {
        let mark = self.marks.partition_point(|&mark| mark <= time);
        // One mark further, since a cubic looks back.
        let drop = mark.saturating_sub(2);
        if drop * EVERY >= 4096 {
            self.marks.drain(..drop);
            self.values.drain(..drop * EVERY);
            self.start += (drop * EVERY) as i64;
            self.cursor = 0;
        }
    }
}
