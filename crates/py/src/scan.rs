//! Windowed statistics: the native half of `isochrony.plan`.

use isochrony_flow::{Column, FlowError, SourceError, Stat, Stretch, Tail, WindowTable};
use isochrony_segment::{BufferMut, DType};
use isochrony_store::{Selection as StoreSelection, Signal as StoreSignal};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Error, Result};
use crate::memory;
use crate::selection::Selection;
use crate::signal::Signal;

/// Bytes of samples between two looks at Ctrl-C and two calls of a progress function.
const BETWEEN_LOOKS: i64 = 32 << 20;

/// Statistics of the windows of a signal or of a selection.
///
/// Parameters:
///     source: a `Signal` or a `Selection`.
///     window: samples a window.
///     stats: names of statistics, each once.
///     keep_tail: make a row of a short last window too.
///     anchor_at_range: count windows from the selection's start instead of the gap-free stretch's.
///     progress: called now and then with samples done and samples in all.
///
/// Returns:
///     Columns by name: "start" and "end" (int64), then the statistics (int64 where exact, else float64).
#[pyfunction]
#[pyo3(signature = (source, window, stats, *, keep_tail=false, anchor_at_range=false, progress=None))]
pub(crate) fn window_stats<'py>(
    py: Python<'py>,
    source: &Bound<'py, PyAny>,
    window: u64,
    stats: Vec<String>,
    keep_tail: bool,
    anchor_at_range: bool,
    progress: Option<Py<PyAny>>,
) -> Result<Bound<'py, PyDict>> {
    let selection = match source.cast::<Selection>() {
        Ok(selection) => selection.get().selection.clone(),
        Err(_) => {
            let signal = source
                .cast::<Signal>()
                .map_err(PyErr::from)?
                .get()
                .get(py)?;
            signal.select(0..signal.end_index())?
        }
    };
    let stats = stats
        .iter()
        .map(|name| name.parse())
        .collect::<std::result::Result<Vec<Stat>, FlowError>>()?;
    let tail = if keep_tail { Tail::Keep } else { Tail::Drop };
    let table = py.detach(|| {
        let pieces = Pieces::new(&selection, anchor_at_range, progress);
        isochrony_flow::scan(pieces)
            .rewindow(window)?
            .tail(tail)
            .stats(stats)?
            .collect()
    })?;
    columns(py, table)
}

fn columns(py: Python<'_>, table: WindowTable) -> Result<Bound<'_, PyDict>> {
    let columns = PyDict::new(py);
    let integers = |values: Vec<i64>| -> Result<_> {
        let mut memory = BufferMut::zeroed_samples::<i64>(values.len())?;
        memory.samples_mut().copy_from_slice(&values);
        Ok(memory::own(py, memory, DType::I64, None)?)
    };
    columns.set_item("start", integers(table.start)?)?;
    columns.set_item("end", integers(table.end)?)?;
    for (stat, column) in table.columns {
        let array = match column {
            Column::I64(values) => integers(values)?,
            Column::F64(values) => {
                let mut memory = BufferMut::zeroed_samples::<f64>(values.len())?;
                memory.samples_mut().copy_from_slice(&values);
                memory::own(py, memory, DType::F64, None)?
            }
        };
        columns.set_item(stat.name(), array)?;
    }
    Ok(columns)
}

/// Gap-free stretches of a selection, cut so that an interrupt is seen in time. Cutting changes no window: each piece
/// says where its stretch's windows are counted from.
struct Pieces<'a> {
    signal: &'a StoreSignal,
    stretches: Box<dyn Iterator<Item = isochrony_store::Stretch> + 'a>,
    /// What is left of a stretch, and its anchor.
    current: Option<(std::ops::Range<i64>, i64)>,
    anchor_at_range: bool,
    step: i64,
    done: i64,
    total: i64,
    progress: Option<Py<PyAny>>,
}

impl<'a> Pieces<'a> {
    fn new(
        selection: &'a StoreSelection,
        anchor_at_range: bool,
        progress: Option<Py<PyAny>>,
    ) -> Self {
        let signal = selection.signal();
        Self {
            signal,
            stretches: Box::new(selection.stretches()),
            current: None,
            anchor_at_range,
            step: BETWEEN_LOOKS / signal.dtype().size() as i64,
            done: 0,
            total: selection.sample_count(),
            progress,
        }
    }

    /// First sample after the last gap or clock step at or before the stretch.
    fn anchor(&self, stretch: &isochrony_store::Stretch) -> i64 {
        let start = stretch.range.start;
        if self.anchor_at_range {
            return start;
        }
        let run = self
            .signal
            .state()
            .runs
            .by_id(stretch.run)
            .map_or(start, |run| run.start);
        let gaps = self.signal.gaps();
        let before = gaps.overlapping(0..start).end.checked_sub(1);
        let gap = before
            .and_then(|position| gaps.get(position))
            .map_or(0, |gap| gap.end());
        run.max(gap).min(start)
    }

    fn look(&self) -> std::result::Result<(), SourceError> {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, (self.done, self.total))?;
            }
            Ok::<(), PyErr>(())
        })?;
        Ok(())
    }
}

impl Iterator for Pieces<'_> {
    type Item = std::result::Result<Stretch, SourceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (range, anchor) = match self.current.take() {
            Some(left) => left,
            None => {
                let stretch = self.stretches.next()?;
                let anchor = self.anchor(&stretch);
                (stretch.range, anchor)
            }
        };
        let stop = range.end.min(range.start + self.step);
        if stop < range.end {
            self.current = Some((stop..range.end, anchor));
        }
        let before = self.done / self.step;
        self.done += stop - range.start;
        // Many short stretches between gaps share one look.
        if self.done / self.step != before
            && let Err(error) = self.look()
        {
            return Some(Err(error));
        }
        let samples = self
            .signal
            .select(range.start..stop)
            .and_then(|part| part.as_segment());
        Some(match samples {
            Ok(samples) => Ok(Stretch {
                samples,
                anchor: Some(anchor),
            }),
            Err(error) => Err(error.into()),
        })
    }
}

/// An error of the source comes back as what it was: an interrupt, an exception of the progress function, a failed read.
impl From<FlowError> for Error {
    fn from(error: FlowError) -> Self {
        let FlowError::Source { after, source } = error else {
            return crate::errors::Raised::new("PlanError", error.code(), error.to_string()).into();
        };
        let source = match source.downcast::<PyErr>() {
            Ok(error) => return Self::Python(*error),
            Err(other) => other,
        };
        match source.downcast::<isochrony_store::StoreError>() {
            Ok(error) => (*error).into(),
            Err(source) => {
                let error = FlowError::Source { after, source };
                crate::errors::Raised::new("PlanError", error.code(), error.to_string()).into()
            }
        }
    }
}
