//! The plan: where segments come from, how they are cut, what is computed. Making it reads nothing.

use std::fmt;

use isochrony_segment::SigSeg;

use super::{FlowError, SourceError, Stat, WindowTable, stats};

/// A segment, and where the gap-free stretch that it belongs to begins.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// Samples without a gap.
    pub samples: SigSeg,
    /// Index of the first sample after the last gap or clock step, at or before the segment's start;
    /// windows are counted from there. A new anchor is a break, even where indices continue.
    /// None: that of the segment before if this one continues it, else the segment's own start.
    pub anchor: Option<i64>,
}

impl From<SigSeg> for Stretch {
    fn from(samples: SigSeg) -> Self {
        Self {
            samples,
            anchor: None,
        }
    }
}

/// What an iterator of segments may yield.
pub trait Scanned {
    /// The stretch, or why the source failed.
    ///
    /// # Errors
    /// Whatever the source reports: a failed read, an interrupt.
    fn into_stretch(self) -> Result<Stretch, SourceError>;
}

impl Scanned for SigSeg {
    fn into_stretch(self) -> Result<Stretch, SourceError> {
        Ok(self.into())
    }
}

impl Scanned for Stretch {
    fn into_stretch(self) -> Result<Stretch, SourceError> {
        Ok(self)
    }
}

impl<T: Scanned, E: Into<SourceError>> Scanned for Result<T, E> {
    fn into_stretch(self) -> Result<Stretch, SourceError> {
        self.map_err(Into::into)?.into_stretch()
    }
}

/// Starts a plan over the segments of one signal, in index order within each run.
///
/// `source` yields [`SigSeg`], [`Stretch`], or a `Result` of either; it is asked for the next
/// segment only when the last is done with, so that one that reads lazily keeps memory bounded.
pub fn scan<S>(source: S) -> Scan<S::IntoIter>
where
    S: IntoIterator,
    S::Item: Scanned,
{
    Scan {
        source: source.into_iter(),
    }
}

/// Segments as they come; made by [`scan`].
#[derive(Debug, Clone)]
pub struct Scan<S> {
    source: S,
}

/// What happens to a last window that a break or the end leaves short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tail {
    /// It is left out.
    #[default]
    Drop,
    /// It becomes a row of its own.
    Keep,
}

impl<S> Scan<S> {
    /// The longest window: more samples than any memory holds, few enough for exact sums.
    pub const LONGEST_WINDOW: u64 = 1 << 46;

    /// Cuts every gap-free stretch into consecutive windows of `window` samples.
    ///
    /// # Errors
    /// [`FlowError::WindowLength`] unless `window` is 1 to [`Self::LONGEST_WINDOW`].
    pub fn rewindow(self, window: u64) -> Result<Rewindowed<S>, FlowError> {
        let most = Self::LONGEST_WINDOW;
        if window == 0 || window > most {
            return Err(FlowError::WindowLength { window, most });
        }
        Ok(Rewindowed {
            source: self.source,
            window,
            tail: Tail::Drop,
        })
    }
}

/// Windows of a fixed number of samples; made by [`Scan::rewindow`].
#[derive(Debug, Clone)]
pub struct Rewindowed<S> {
    source: S,
    window: u64,
    tail: Tail,
}

impl<S> Rewindowed<S> {
    /// Chooses what happens to short last windows.
    #[must_use]
    pub fn tail(mut self, tail: Tail) -> Self {
        self.tail = tail;
        self
    }

    /// Computes statistics of each window.
    ///
    /// # Errors
    /// [`FlowError::NoStats`], [`FlowError::RepeatedStat`].
    pub fn stats(self, stats: impl IntoIterator<Item = Stat>) -> Result<WindowStats<S>, FlowError> {
        let stats: Vec<Stat> = stats.into_iter().collect();
        if stats.is_empty() {
            return Err(FlowError::NoStats);
        }
        for (at, &stat) in stats.iter().enumerate() {
            if stats[..at].contains(&stat) {
                return Err(FlowError::RepeatedStat { stat });
            }
        }
        Ok(WindowStats {
            source: self.source,
            window: self.window,
            tail: self.tail,
            stats,
        })
    }
}

/// A plan that is ready to run; made by [`Rewindowed::stats`]. It prints as what it does.
#[derive(Debug, Clone)]
pub struct WindowStats<S> {
    source: S,
    pub(crate) window: u64,
    pub(crate) tail: Tail,
    pub(crate) stats: Vec<Stat>,
}

impl<S> WindowStats<S>
where
    S: Iterator,
    S::Item: Scanned,
{
    /// Runs the plan in this thread and gathers one row a window.
    ///
    /// Windows lie wholly within the scanned segments and begin at multiples of the window from
    /// their stretch's anchor; samples before the first such window are passed over.
    ///
    /// # Errors
    /// [`FlowError::MixedStreams`], [`FlowError::AnchorAfterStart`], [`FlowError::Segment`], and
    /// [`FlowError::Source`] with what the source reported.
    pub fn collect(self) -> Result<WindowTable, FlowError> {
        let Self {
            source,
            window,
            tail,
            stats,
        } = self;
        stats::collect(source, window, tail, &stats)
    }
}

impl<S> fmt::Display for WindowStats<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.stats.iter().map(|stat| stat.name()).collect();
        let tail = match self.tail {
            Tail::Drop => "",
            Tail::Keep => ", tail=\"keep\"",
        };
        write!(
            f,
            "scan -> rewindow({}{tail}) -> stats({})",
            self.window,
            names.join(", ")
        )
    }
}
