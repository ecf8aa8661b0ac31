//! Interpolates buffered samples at given times.

use isochrony_dsp::interpolate::Interpolation;

pub(super) const MARK_SPACING: usize = 64;

pub(super) struct InterpolationBuffer {
    pub(super) start: i64,
    pub(super) values: Vec<f64>,
    /// Time of every [`MARK_SPACING`]th sample.
    pub(super) marks: Vec<i64>,
    pub(super) last: i64,
    pub(super) complete: bool,
    /// Mark before the last lookup.
    cursor: usize,
}

pub(super) enum LookupResult {
    Value(f64),
    Missing,
    /// Needs samples that may still arrive.
    Pending,
}

impl InterpolationBuffer {
    pub(super) fn new(start: i64, time: i64) -> Self {
        Self {
            start,
            values: Vec::new(),
            marks: Vec::new(),
            last: time,
            complete: false,
            cursor: 0,
        }
    }

    pub(super) fn end(&self) -> i64 {
        self.start.saturating_add_unsigned(self.values.len() as u64)
    }

    /// `time` must not be before the first sample.
    pub(super) fn find(&mut self, time: i64, method: Interpolation) -> LookupResult {
        let Some(mark) = self.mark_before(time) else {
            return LookupResult::Missing;
        };
        let from = self.marks[mark];
        let (to, steps) = match self.marks.get(mark + 1) {
            Some(&next) => (next, MARK_SPACING),
            // The slope after the last mark needs the last sample.
            None if !self.complete => return LookupResult::Pending,
            None if time > self.last => return LookupResult::Missing,
            None => (self.last, self.values.len() - 1 - mark * MARK_SPACING),
        };
        let place = match steps {
            0 => 0.0,
            _ => (time - from) as f64 * steps as f64 / (to - from) as f64,
        };
        let (mut at, mut part) = (mark * MARK_SPACING + place as usize, place.fract());
        if at + 1 == self.values.len() && part == 0.0 && at > 0 {
            (at, part) = (at - 1, 1.0);
        }
        if at < method.before() {
            return LookupResult::Missing;
        }
        match at + method.after() < self.values.len() {
            true => LookupResult::Value(method.value(&self.values, at, part)),
            false if self.complete => LookupResult::Missing,
            false => LookupResult::Pending,
        }
    }

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

    pub(super) fn discard_before(&mut self, time: i64) {
        let mark = self.marks.partition_point(|&mark| mark <= time);
        // One more mark stays: cubic interpolation needs a sample before.
        let drop = mark.saturating_sub(2);
        if drop * MARK_SPACING >= 4096 {
            self.marks.drain(..drop);
            self.values.drain(..drop * MARK_SPACING);
            self.start += (drop * MARK_SPACING) as i64;
            self.cursor = 0;
        }
    }
}
