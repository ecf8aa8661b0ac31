//! A run's source over a followed signal.

use std::ops::Range;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use isochrony_flow::{Break, Item, OpError, RangeOrigin, Source, SourceEvent, StoredRecording};
use isochrony_store::Signal;
use isochrony_time::civil;

use super::log_watcher::LogWatcher;
use super::run_starts::RunStarts;
use super::shared::{FollowedInner, failed};
use crate::feed_counts::add;
use crate::lateness::{MARK_INTERVAL, SilenceClock};
use crate::receive::RunClock;

#[cfg(test)]
mod tests;

/// A check takes the store's lock for an instant.
const WRITER_CHECK_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct FollowSource {
    followed: Arc<FollowedInner>,
    signal: Signal,
    within: Range<i64>,
    segment: u64,
    /// Reads up to `next`. None: all is read.
    reader: Option<Box<dyn Source>>,
    /// First index that no reader covers.
    next: i64,
    /// End of the samples read, and their last clock run: the next reader announces a break between.
    last_run: Option<(i64, u32)>,
    /// None if samples have no times.
    run_starts: Option<Arc<RunStarts>>,
    /// As of the last poll; later additions were backfilled.
    samples_before_next: i64,
    committed: Option<i64>,
    clock: RunClock,
    /// Start of the time counted for `silence`.
    last_commit: Duration,
    last_writer_check: Duration,
    silence_clock: SilenceClock,
    silent_from: Option<i64>,
    last_mark: Duration,
    pending: Option<SourceEvent>,
    watcher: Option<LogWatcher>,
}

impl FollowSource {
    pub(super) fn new(followed: Arc<FollowedInner>, within: Range<i64>, segment: u64) -> Self {
        let silence_clock = SilenceClock::new(followed.signal.rate(), followed.options.lateness);
        let clock = followed.clock.as_ref();
        let run_starts = clock.map(|clock| clock.starts.open());
        Self {
            signal: followed.signal.clone(),
            followed,
            next: within.start,
            within,
            segment,
            reader: None,
            last_run: None,
            run_starts,
            samples_before_next: 0,
            committed: None,
            clock: RunClock::start(),
            last_commit: Duration::ZERO,
            last_writer_check: Duration::ZERO,
            silence_clock,
            silent_from: None,
            last_mark: Duration::ZERO,
            pending: None,
            watcher: None,
        }
    }

    /// Whether there are new samples, which `reader` then reads.
    fn look_for_commits(&mut self) -> Result<bool, OpError> {
        match self.signal.refresh_committed().map_err(failed)? {
            None => return Ok(false),
            Some(false) if self.committed.is_some() => return Ok(false),
            Some(_) => {}
        }
        // Stop before a gap at the signal's end, whose fills are still read, but wait for no other gap.
        let end = self.signal.end_index();
        let gap = self.signal.gaps().at(end - 1);
        let committed = gap.map_or(end, |gap| gap.start);
        self.note_commit(committed);
        let counters = &self.followed.counters;
        // In a silence `next` is beyond the end.
        let samples_now = samples_in(&self.signal, self.within.start..self.next.min(end));
        // Negative if samples were declared invalid.
        let backfilled = u64::try_from(samples_now - self.samples_before_next).unwrap_or(0);
        add(&counters.backfilled, backfilled);
        self.samples_before_next = samples_now;
        let end = committed.min(self.within.end);
        if end <= self.next {
            return Ok(false);
        }
        let range = self.next..end;
        let samples = samples_in(&self.signal, range.clone());
        if samples == 0 {
            self.next = end;
            return Ok(false);
        }
        // Before the clock is that of the new runs.
        if let Some(starts) = &self.run_starts {
            let before = self.last_run.map(|(_, run)| run);
            starts.add(&self.signal, range.clone(), before);
        }
        let stored = match &self.followed.clock {
            Some(times) => times.stored(&self.followed.store, &self.signal),
            None => StoredRecording::new(self.followed.store.path(), self.signal.clone()),
        };
        let reader = stored.resume(self.signal.clone(), range, self.last_run, self.segment)?;
        self.reader = Some(reader);
        let runs = &self.signal.state().runs;
        self.last_run = runs.at(end - 1).map(|run| (end, run.id));
        self.samples_before_next += samples;
        self.next = end;
        add(&counters.commits, 1);
        Ok(true)
    }

    /// Updates the clocks, also for a commit wholly before `next`: a writer that paused may continue there.
    fn note_commit(&mut self, end: i64) {
        let now = self.clock.since_start();
        self.last_commit = now;
        let first = match self.committed.replace(end) {
            Some(before) if end <= before => return,
            Some(before) => self
                .signal
                .gaps()
                .at(before)
                .map_or(before, |gap| gap.end()),
            None if end == 0 => return,
            // Stored before the run: it only shows that later samples are due.
            None => end,
        };
        let (first, end) = (first.cast_unsigned(), end.cast_unsigned());
        self.silence_clock.note(first, end, now);
    }

    /// Polls again when the writer has closed the store.
    fn is_over(&mut self) -> Result<bool, OpError> {
        let options = &self.followed.options;
        let now = self.clock.since_start();
        let sealed = self.signal.is_sealed();
        let silent = options
            .silence
            .is_some_and(|timeout| now.saturating_sub(self.last_commit) >= timeout);
        if sealed || silent || self.next >= self.within.end {
            return Ok(true);
        }
        if !options.while_written
            || now.saturating_sub(self.last_writer_check) < WRITER_CHECK_INTERVAL
        {
            return Ok(false);
        }
        let written = self.followed.store.is_written().map_err(failed)?;
        self.last_writer_check = self.clock.since_start();
        // Its last commits are still read.
        Ok(!written && !self.look_for_commits()?)
    }

    fn give_up(&mut self) -> Option<SourceEvent> {
        let now = self.clock.since_start();
        let upto = i64::try_from(self.silence_clock.given_up_at(now)?).unwrap_or(i64::MAX);
        let (from, upto) = (self.next, upto.min(self.within.end));
        let is_due = now.saturating_sub(self.last_mark) >= MARK_INTERVAL;
        if upto <= from || self.silent_from.is_some() && !is_due {
            return None;
        }
        (self.next, self.last_mark) = (upto, now);
        let mark = SourceEvent::ProgressMark(upto);
        if self.silent_from.is_some() {
            return Some(mark);
        }
        self.silent_from = Some(from);
        self.pending = Some(mark);
        // Of unknown length: operators only learn of a discontinuity.
        Some(SourceEvent::RangeStart {
            origin: RangeOrigin::at(from + 1),
            why: Some(Break::Dropped(from..from + 1)),
        })
    }

    /// Drops what was given up, even if present by now.
    fn end_silence(&mut self, event: SourceEvent) -> SourceEvent {
        let (SourceEvent::RangeStart { origin, why }, Some(from)) = (&event, self.silent_from)
        else {
            return event;
        };
        self.silent_from = None;
        match why {
            Some(Break::Removed) | None if origin.first > from + 1 => SourceEvent::RangeStart {
                origin: RangeOrigin::at(origin.first),
                why: Some(Break::Dropped(from + 1..origin.first)),
            },
            _ => event,
        }
    }
}

fn samples_in(signal: &Signal, range: Range<i64>) -> i64 {
    if range.is_empty() {
        return 0;
    }
    range.end - range.start - signal.gaps().missing_within(range)
}

impl Source for FollowSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(event) = self.pending.take() {
            return Ok(event);
        }
        loop {
            if let Some(reader) = &mut self.reader {
                match reader.pull()? {
                    SourceEvent::End => self.reader = None,
                    SourceEvent::Item(item) => {
                        add(&self.followed.counters.samples, Item::samples(&item));
                        return Ok(SourceEvent::Item(item));
                    }
                    other => return Ok(self.end_silence(other)),
                }
            } else if !self.look_for_commits()? {
                if self.is_over()? {
                    return Ok(SourceEvent::End);
                }
                // `is_over` may have found samples.
                if self.reader.is_none() {
                    return Ok(self.give_up().unwrap_or(SourceEvent::Idle));
                }
            }
        }
    }

    fn time_of(&self, index: i64) -> Option<String> {
        let time = self.signal.time_of(index).ok()?;
        Some(civil::format(time.value))
    }

    fn set_waker(&mut self, waker: &Waker) {
        self.watcher = LogWatcher::new(self.followed.store.path(), waker.clone());
    }
}
