//! What may stand between the brackets of a signal, or name a stretch of it elsewhere.

use std::ops::Range;

use isochrony_store::{Signal, Span as StoreSpan};
use isochrony_time::Fixed;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyInt, PySlice};

use crate::errors::{Error, Raised, Result};
use crate::signal::gaps::Gap;
use crate::signal::runs::Run;
use crate::signal::selection::Selection;
use crate::time::TimeArg;
use crate::time::range;
use crate::time::span::Span;

/// A stretch of a signal as the user named it.
#[derive(Clone)]
pub(crate) enum Stretch {
    /// Indices of the signal itself.
    Index(Range<i64>),
    /// Civil time.
    Civil(Range<Fixed>),
    /// Indices of another signal.
    Of(Box<Signal>, Range<i64>),
}

impl Stretch {
    pub(crate) fn span(&self) -> StoreSpan<'_> {
        match self {
            Self::Index(range) => StoreSpan::Index(range.clone()),
            Self::Civil(range) => StoreSpan::Civil(range.clone()),
            Self::Of(signal, range) => StoreSpan::Of(signal, range.clone()),
        }
    }

    /// Without the indices that a signal of that length does not have.
    pub(crate) fn cut(self, length: i64) -> Self {
        match self {
            Self::Index(range) => {
                let start = range.start.clamp(0, length);
                Self::Index(start..range.end.clamp(start, length))
            }
            other => other,
        }
    }
}

/// Reads a stretch of `signal`: a slice of indices or of times, a span, a range of any timebase, another signal's
/// selection, a run or a gap; None means all of it.
pub(crate) fn stretch(signal: &Signal, key: Option<&Bound<'_, PyAny>>) -> Result<Stretch> {
    let Some(key) = key else {
        return Ok(Stretch::Index(0..signal.end_index()));
    };
    if let Ok(slice) = key.cast::<PySlice>() {
        return sliced(signal, signal.end_index(), slice);
    }
    if let Ok(span) = key.cast::<Span>() {
        return civil(signal, span.get());
    }
    if let Ok(other) = key.cast::<Selection>() {
        let other = other.get();
        return Ok(match other.stretch() {
            Stretch::Index(range) => Stretch::Of(Box::new(other.signal().clone()), range),
            other => other,
        });
    }
    if let Ok(range) = key.cast::<range::Range>() {
        return range.get().stretch(key.py(), signal);
    }
    if let Ok(run) = key.cast::<Run>() {
        return Ok(Stretch::Index(run.get().start..run.get().end));
    }
    if let Ok(gap) = key.cast::<Gap>() {
        return Ok(Stretch::Index(gap.get().gap.range()));
    }
    Err(refuse(&format!("got {}", key.get_type().name()?)))
}

fn refuse(got: &str) -> Error {
    let message = format!(
        "{got} where a stretch of a signal is expected; give a slice of indices or of times without a step, \
         isochrony.span(start, end), a range of a timebase, a run, a gap or a selection"
    );
    Raised::new("StoreTypeError", "bad_key", message).into()
}

/// A slice of indices of an axis of that length, or of times.
pub(crate) fn sliced(signal: &Signal, length: i64, slice: &Bound<'_, PySlice>) -> Result<Stretch> {
    // As everywhere in Python: negative counts from the end, beyond the ends is cut off.
    let length = isize::try_from(length).unwrap_or(isize::MAX);
    if let Ok(indices) = slice.indices(length)
        && indices.step == 1
    {
        let (start, stop) = (indices.start as i64, indices.stop as i64);
        return Ok(Stretch::Index(start..stop.max(start)));
    }
    // Times, or something that is wrong.
    let py = slice.py();
    let (start, stop) = (
        slice.getattr(intern!(py, "start"))?,
        slice.getattr(intern!(py, "stop"))?,
    );
    let step = slice.getattr(intern!(py, "step"))?;
    if !step.is_none() && !step.eq(1)? {
        return Err(refuse(&format!("got a step of {step}")));
    }
    if (is_index(&start) && !stop.is_none()) || (is_index(&stop) && !start.is_none()) {
        return Err(refuse("got an index and a time in one slice"));
    }
    let time = |end: &Bound<'_, PyAny>| -> Result<_> {
        Ok(if end.is_none() {
            None
        } else {
            Some(end.extract::<TimeArg>()?.0)
        })
    };
    let (start, end) = (time(&start)?, time(&stop)?);
    civil(signal, &Span { start, end })
}

/// Open ends become those of the signal.
fn civil(signal: &Signal, span: &Span) -> Result<Stretch> {
    let mut range = match (span.start, span.end) {
        (Some(start), Some(end)) => return Ok(Stretch::Civil(start.value..end.value)),
        (start, end) => start.map(|t| t.value)..end.map(|t| t.value),
    };
    let runs = signal.runs()?;
    let mut ends = runs.iter().filter_map(|run| run.civil);
    let Some(first) = ends.next() else {
        return Err(isochrony_store::StoreError::NoCivilTime {
            signal: signal.name().into(),
        }
        .into());
    };
    let (least, most) = ends.fold(first, |have, run| (have.0.min(run.0), have.1.max(run.1)));
    // An open end never lies on the wrong side of the other one.
    let start = range
        .start
        .take()
        .unwrap_or_else(|| range.end.map_or(least, |end| end.min(least)));
    let end = range.end.take().unwrap_or_else(|| most.max(start));
    Ok(Stretch::Civil(start..end))
}

/// Whether an object counts as an index: a whole number, but no bool.
pub(crate) fn is_index(object: &Bound<'_, PyAny>) -> bool {
    // Asking for an attribute that is not there is slow, so the commonest other key is told first.
    if object.is_instance_of::<PySlice>() {
        return false;
    }
    object.is_instance_of::<PyInt>() && !object.is_instance_of::<PyBool>()
        || !object.is_instance_of::<PyBool>()
            && object.hasattr("__index__").unwrap_or(false)
            && !object.hasattr("__len__").unwrap_or(true)
}

/// An index; whole numbers of NumPy count, floats and bools do not.
pub(crate) fn as_index(object: &Bound<'_, PyAny>) -> Result<i64> {
    if !is_index(object) {
        let got = object.get_type().name()?;
        let message = format!(
            "got {got} where an index is expected; give a whole number, or a time to index_of()"
        );
        return Err(Raised::new("StoreTypeError", "bad_index", message).into());
    }
    object.extract().map_err(|_| {
        let message = format!("index {object} is beyond 64 bits; indices count samples from 0");
        Raised::new("StoreIndexError", "out_of_bounds", message).into()
    })
}

/// The range of the one index that `object` names on an axis of that length, where negative ones count from the end.
pub(crate) fn single(object: &Bound<'_, PyAny>, length: i64) -> Result<Range<i64>> {
    let index = as_index(object)?;
    let index = if index < 0 {
        index.saturating_add(length)
    } else {
        index
    };
    Ok(index..index.saturating_add(1))
}
