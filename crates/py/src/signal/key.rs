//! Keys of a signal: in brackets, or as arguments for a range.

use isochrony_store::Signal;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyString};

use crate::errors::{Error, PackageError, Result};
use crate::signal::gaps::Gap;
use crate::signal::index::is_index;
use crate::signal::key_range::KeyRange;
use crate::signal::runs::Run;
use crate::signal::selection::Selection;
use crate::time::TimeArg;
use crate::time::range;
use crate::time::span::Span;

/// Resolves a slice of indices or times, a span, a range of any timebase, another signal's selection, a run or a gap.
/// None: all.
pub(crate) fn resolve_key(signal: &Signal, key: Option<&Bound<'_, PyAny>>) -> Result<KeyRange> {
    let Some(key) = key else {
        return Ok(KeyRange::Index(0..signal.end_index()));
    };
    if let Ok(slice) = key.cast::<PySlice>() {
        return resolve_slice(signal, signal.end_index(), slice);
    }
    if let Ok(span) = key.cast::<Span>() {
        return civil_range(signal, span.get());
    }
    if let Ok(other) = key.cast::<Selection>() {
        let other = other.get();
        return Ok(match other.key_range() {
            KeyRange::Index(range) => KeyRange::OfSignal(Box::new(other.signal().clone()), range),
            other => other,
        });
    }
    if let Ok(range) = key.cast::<range::Range>() {
        return range.get().key_range(key.py(), signal);
    }
    if let Ok(run) = key.cast::<Run>() {
        return Ok(KeyRange::Index(run.get().start..run.get().end));
    }
    if let Ok(gap) = key.cast::<Gap>() {
        return Ok(KeyRange::Index(gap.get().gap.range()));
    }
    let kind = key.get_type().name()?;
    Err(refuse(&match key.cast::<PyString>() {
        Ok(text) => format!("got {kind} {:?}", text.to_cow()?),
        Err(_) => format!("got {kind}"),
    }))
}

fn refuse(got: &str) -> Error {
    let message = format!(
        "{got} where a range of a signal is expected; give a slice of indices or of times without a step, \
         isochrony.span(start, end), a range of a timebase, a run, a gap or a selection"
    );
    PackageError::new("StoreTypeError", "bad_key", message).into()
}

pub(crate) fn resolve_slice(
    signal: &Signal,
    length: i64,
    slice: &Bound<'_, PySlice>,
) -> Result<KeyRange> {
    // As in Python: negative indices count from the end; ends are clamped.
    let length = isize::try_from(length).unwrap_or(isize::MAX);
    if let Ok(indices) = slice.indices(length)
        && indices.step == 1
    {
        let (start, stop) = (indices.start as i64, indices.stop as i64);
        return Ok(KeyRange::Index(start..stop.max(start)));
    }
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
    civil_range(signal, &Span { start, end })
}

fn civil_range(signal: &Signal, span: &Span) -> Result<KeyRange> {
    let mut range = match (span.start, span.end) {
        (Some(start), Some(end)) => return Ok(KeyRange::Civil(start.value..end.value)),
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
    // An open end is never on the wrong side of the other.
    let start = range
        .start
        .take()
        .unwrap_or_else(|| range.end.map_or(least, |end| end.min(least)));
    let end = range.end.take().unwrap_or_else(|| most.max(start));
    Ok(KeyRange::Civil(start..end))
}
