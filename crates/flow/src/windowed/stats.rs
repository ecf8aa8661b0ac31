//! Runs scan, rewindow and stats in one thread, one pass over mapped samples.
//!
//! The dtype is dispatched once a scan; full windows inside a slice are summarised in blocks, a
//! window that spans slices goes through one accumulator. Both give the same bits.

use std::iter;

use isochrony_dsp::stats::{Accumulator, Statistic, Summary, summaries};
use isochrony_segment::{SigSeg, dispatch};

use super::scan::Scanned;
use super::table::{Exact, Rows};
use super::{FlowError, Stat, Stretch, Tail, WindowTable};

/// Windows summarised at a time.
const BLOCK: usize = 128;

pub(crate) fn collect<S>(
    source: S,
    window: u64,
    tail: Tail,
    stats: &[Stat],
) -> Result<WindowTable, FlowError>
where
    S: Iterator,
    S::Item: Scanned,
{
    let mut after = i64::MIN;
    let mut stretches = source.map(|item| -> Result<Stretch, FlowError> {
        let stretch = item
            .into_stretch()
            .map_err(|source| FlowError::Source { after, source })?;
        after = stretch.samples.end();
        // The magnitude of a calibrated complex number does not follow from that of its counts.
        if stretch.samples.dtype().is_complex() {
            return Ok(Stretch {
                samples: stretch.samples.to_physical()?,
                ..stretch
            });
        }
        Ok(stretch)
    });
    let Some(first) = stretches.next().transpose()? else {
        let no_samples = &isochrony_segment::Calibration::default();
        return Ok(Rows::new(stats, false, no_samples).finish());
    };
    let dtype = first.samples.dtype();
    let calibration = &first.samples.stream().calibration;
    let rows = Rows::new(stats, !dtype.is_float(), calibration);
    let begun = first.samples.clone();
    dispatch!(dtype, T => {
        let mut windows = Windows::<T>::new(window, tail, rows);
        for stretch in iter::once(Ok(first)).chain(stretches) {
            let stretch = stretch?;
            same_signal(&begun, &stretch.samples)?;
            windows.add(&stretch)?;
        }
        Ok(windows.finish())
    })
}

fn same_signal(begun: &SigSeg, next: &SigSeg) -> Result<(), FlowError> {
    if begun.stream_id() == next.stream_id() && begun.dtype() == next.dtype() {
        return Ok(());
    }
    let name = |seg: &SigSeg| format!("{} ({})", seg.stream().name, seg.dtype());
    Err(FlowError::MixedStreams {
        expected: name(begun),
        got: name(next),
        at: next.start(),
    })
}

/// Cuts stretches into windows.
struct Windows<'a, T: Statistic> {
    window: u64,
    tail: Tail,
    rows: Rows<'a>,
    /// The window that is being filled: its first index, and how many samples it has.
    start: i64,
    filled: u64,
    current: Accumulator<T>,
    /// Anchor of the stretch, and the index that would continue it; None before the first.
    expected: Option<(i64, i64)>,
    block: Vec<Summary<T::Extreme>>,
}

impl<'a, T: Statistic<Extreme: Exact>> Windows<'a, T> {
    fn new(window: u64, tail: Tail, rows: Rows<'a>) -> Self {
        Self {
            window,
            tail,
            rows,
            start: 0,
            filled: 0,
            current: Accumulator::new(),
            expected: None,
            block: vec![Summary::EMPTY; BLOCK],
        }
    }

    fn add(&mut self, stretch: &Stretch) -> Result<(), FlowError> {
        let samples = &stretch.samples;
        let anchor = match (stretch.anchor, self.expected) {
            (Some(anchor), _) => anchor,
            (None, Some((anchor, next))) if next == samples.start() => anchor,
            (None, _) => samples.start(),
        };
        let start = samples.start();
        if anchor > start {
            return Err(FlowError::AnchorAfterStart { anchor, start });
        }
        let mut usable = start;
        if self.expected != Some((anchor, start)) {
            self.break_off();
            // The first window of the grid that begins within the segment, or after its end.
            let into = start.abs_diff(anchor) % self.window;
            let skip = if into == 0 { 0 } else { self.window - into };
            self.start = start.saturating_add_unsigned(skip);
        }
        // Before the first window nothing is filled yet; afterwards it starts in the past.
        if self.filled == 0 {
            usable = usable.max(self.start).min(samples.end());
        }
        self.expected = Some((anchor, samples.end()));
        let samples = samples.subseg(usable..samples.end())?;
        samples.visit::<T>(|slice| self.fill(slice))?;
        Ok(())
    }

    fn fill(&mut self, mut samples: &[T]) {
        if self.filled > 0 {
            let missing = self.window - self.filled;
            let take = usize::try_from(missing).map_or(samples.len(), |m| m.min(samples.len()));
            let (head, rest) = samples.split_at(take);
            self.push(head);
            samples = rest;
        }
        // A window longer than any slice only ever grows in the accumulator.
        let window = usize::try_from(self.window).unwrap_or(usize::MAX);
        for block in samples.chunks(window.saturating_mul(BLOCK)) {
            let full = block.len() / window;
            // Neither the window is zero nor the output short: the error cannot occur.
            if summaries(block, window, &mut self.block).is_ok() {
                for summary in &self.block[..full] {
                    let end = self.start.saturating_add_unsigned(self.window);
                    self.rows.push(self.start, end, summary);
                    self.start = end;
                }
            }
            self.push(&block[full * window..]);
        }
    }

    /// Adds samples that all belong to the current window.
    fn push(&mut self, samples: &[T]) {
        self.current.push(samples);
        self.filled += samples.len() as u64;
        if self.filled == self.window {
            self.flush();
        }
    }

    /// Ends the current window, full or not.
    fn flush(&mut self) {
        let end = self.start.saturating_add_unsigned(self.filled);
        self.rows.push(self.start, end, &self.current.finish());
        self.current.reset();
        self.start = end;
        self.filled = 0;
    }

    /// A break, or the end: nothing of the current window may meet what follows.
    fn break_off(&mut self) {
        if self.filled > 0 && self.tail == Tail::Keep {
            self.flush();
        }
        self.current.reset();
        self.filled = 0;
    }

    fn finish(mut self) -> WindowTable {
        self.break_off();
        self.rows.finish()
    }
}
