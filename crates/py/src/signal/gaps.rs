//! `isochrony.Gaps`: ranges of a signal without samples.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use isochrony_segment::BufferMut;
use isochrony_store::Signal;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::PySlice;

use crate::errors::Result;
use crate::memory;
use crate::time::Time;

/// Consecutive indices without samples, within one run.
///
/// `length` is in indices; `duration` is how long the gap lasted.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.zeros(100, "i2")), signal.append_gap(seconds=2), signal.append(np.zeros(50, "i2"))
/// >>> gap = signal.gaps[0]
/// >>> gap.start, gap.length, gap.duration, gap.start_time
/// (100, 200, Fraction(2, 1), Time('2026-01-01T00:00:01Z'))
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Gap {
    pub(crate) gap: isochrony_store::state::Gap,
    signal: Signal,
}

impl Gap {
    pub(crate) fn new(gap: isochrony_store::state::Gap, signal: &Signal) -> Self {
        Self {
            gap,
            signal: signal.clone(),
        }
    }
}

#[pymethods]
impl Gap {
    /// First missing index.
    ///
    /// >>> gap.start
    /// 100
    #[getter]
    fn start(&self) -> i64 {
        self.gap.start
    }

    /// Number of missing samples.
    ///
    /// >>> gap.length
    /// 200
    #[getter]
    fn length(&self) -> i64 {
        self.gap.end() - self.gap.start
    }

    /// Index of the first sample after the gap.
    ///
    /// >>> gap.end
    /// 300
    #[getter]
    fn end(&self) -> i64 {
        self.gap.end()
    }

    /// Civil time at which the last sample before the gap ends; None without civil time.
    ///
    /// >>> gap.start_time
    /// Time('2026-01-01T00:00:01Z')
    #[getter]
    fn start_time(&self) -> Result<Option<Time>> {
        let times = self.signal.gap_times(self.gap)?;
        Ok(times.map(|times| Time::civil(times.start)))
    }

    /// Civil time of the first sample after the gap; None without civil time.
    ///
    /// >>> gap.end_time
    /// Time('2026-01-01T00:00:03Z')
    #[getter]
    fn end_time(&self) -> Result<Option<Time>> {
        let times = self.signal.gap_times(self.gap)?;
        Ok(times.map(|times| Time::civil(times.end)))
    }

    /// Duration, a `Fraction` of seconds; None without civil time.
    ///
    /// >>> gap.duration
    /// Fraction(2, 1)
    #[getter]
    fn duration<'py>(&self, py: Python<'py>) -> Result<Option<Bound<'py, PyAny>>> {
        let Some(times) = self.signal.gap_times(self.gap)? else {
            return Ok(None);
        };
        Ok(Some(crate::time::seconds(
            py,
            times.duration_ns().to_bits(),
        )?))
    }

    /// The recording before the gap, a `GapEdge`: the importer's file, if any, and the last stamp.
    ///
    /// >>> gap.before.stamp_index
    /// 0
    #[getter]
    fn before(&self) -> Result<GapEdge> {
        Ok(isochrony_ingest::gap_edges(&self.signal, self.gap)
            .before
            .into())
    }

    /// The recording after the gap, a `GapEdge`: the importer's file, if any, and its stamp.
    ///
    /// >>> gap.after.source is None
    /// True
    #[getter]
    fn after(&self) -> Result<GapEdge> {
        Ok(isochrony_ingest::gap_edges(&self.signal, self.gap)
            .after
            .into())
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.gap == other.gap && self.signal.id() == other.signal.id()
    }

    fn __hash__(&self) -> u64 {
        (self.gap.start as u64).rotate_left(32) ^ self.gap.end() as u64
    }

    fn __repr__(&self) -> String {
        let text = format!("<Gap start={} length={}", self.start(), self.length());
        match self.signal.gap_times(self.gap) {
            Ok(Some(times)) => format!("{text} at {}>", isochrony_time::civil::format(times.start)),
            _ => text + ">",
        }
    }
}

/// The recording on one side of a gap.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.zeros(100, "i2")), signal.append_gap(seconds=2), signal.append(np.zeros(50, "i2"))
/// >>> edge = signal.gaps[0].before
/// >>> edge.source, edge.stamp, edge.stamp_index
/// (None, Time('2026-01-01T00:00:00Z'), 0)
#[pyclass(frozen, module = "isochrony", get_all)]
pub(crate) struct GapEdge {
    /// Path of the file below the imported folder; None if appended by a program.
    ///
    /// >>> edge.source is None
    /// True
    source: Option<String>,
    /// Time stamp of the recording, by its own clock, uncorrected. Before a gap: the last stamp. After it: the stamp of the
    /// first sample. None if there is none.
    ///
    /// >>> edge.stamp
    /// Time('2026-01-01T00:00:00Z')
    stamp: Option<Time>,
    /// Width in seconds of the interval from `stamp` that holds the true time; None without a stamp.
    ///
    /// >>> edge.resolution
    /// 0.0
    resolution: Option<f64>,
    /// Index of the stamped sample; None without a stamp.
    ///
    /// >>> edge.stamp_index
    /// 0
    stamp_index: Option<i64>,
}

#[pymethods]
impl GapEdge {
    fn __repr__(&self) -> String {
        let source = self.source.as_deref().unwrap_or("no file");
        match self.stamp {
            Some(stamp) => {
                let stamp = isochrony_time::civil::format(stamp.value);
                format!("<GapEdge {source}, stamped {stamp}>")
            }
            None => format!("<GapEdge {source}, no stamp>"),
        }
    }
}

impl From<isochrony_ingest::GapEdge> for GapEdge {
    fn from(edge: isochrony_ingest::GapEdge) -> Self {
        let stamp = edge.stamp.as_ref();
        Self {
            stamp: stamp.map(|(_, stamp)| Time::civil(stamp.civil)),
            resolution: stamp.map(|(_, stamp)| stamp.resolution.to_f64() / 1e9),
            stamp_index: stamp.map(|(index, _)| *index),
            source: edge.source,
        }
    }
}

/// The gaps of a signal or selection, in index order: a sequence that creates items on access.
///
/// `numpy.asarray(gaps)` gives starts and lengths, shape (n, 2), int64.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.zeros(100, "i2")), signal.append_gap(seconds=2), signal.append(np.zeros(50, "i2"))
/// >>> len(signal.gaps), signal.gaps.missing, np.asarray(signal.gaps)
/// (1, 200, array([[100, 200]]))
#[pyclass(frozen, sequence, module = "isochrony")]
pub(crate) struct Gaps {
    signal: Signal,
    /// Gaps cut to a selection, or positions in the signal's table.
    items: Items,
}

enum Items {
    Positions(Range<usize>),
    Listed(Vec<isochrony_store::state::Gap>),
}

impl Gaps {
    pub(crate) fn of(signal: Signal) -> Self {
        let items = Items::Positions(0..signal.gaps().len());
        Self { signal, items }
    }

    pub(crate) fn listed(signal: Signal, gaps: Vec<isochrony_store::state::Gap>) -> Self {
        Self {
            signal,
            items: Items::Listed(gaps),
        }
    }

    fn len(&self) -> usize {
        match &self.items {
            Items::Positions(range) => range.len(),
            Items::Listed(gaps) => gaps.len(),
        }
    }

    fn at(&self, position: usize) -> Option<isochrony_store::state::Gap> {
        match &self.items {
            Items::Positions(range) => {
                let position = Some(position).filter(|position| *position < range.len())?;
                self.signal.gaps().get(range.start + position)
            }
            Items::Listed(gaps) => gaps.get(position).copied(),
        }
    }
}

#[pymethods]
impl Gaps {
    /// Total number of indices without samples.
    ///
    /// >>> signal.gaps.missing
    /// 200
    #[getter]
    fn missing(&self) -> i64 {
        match &self.items {
            Items::Positions(range) if range.len() == self.signal.gaps().len() => {
                self.signal.gaps().missing()
            }
            _ => (0..self.len())
                .filter_map(|position| self.at(position))
                .map(|gap| gap.end() - gap.start)
                .sum(),
        }
    }

    fn __len__(&self) -> usize {
        self.len()
    }

    fn __iter__(slf: Py<Self>) -> GapIterator {
        GapIterator {
            gaps: slf,
            next: AtomicUsize::new(0),
        }
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        let (py, gaps) = (slf.py(), slf.get());
        let len = gaps.len();
        if let Ok(slice) = key.cast::<PySlice>() {
            let indices = slice.indices(len as isize)?;
            let signal = gaps.signal.clone();
            let items = match &gaps.items {
                Items::Positions(range) if indices.step == 1 => {
                    let start = range.start + indices.start as usize;
                    Items::Positions(start..start + indices.slicelength)
                }
                _ => Items::Listed(
                    (0..indices.slicelength as isize)
                        .filter_map(|k| gaps.at((indices.start + k * indices.step) as usize))
                        .collect(),
                ),
            };
            return Ok(Bound::new(py, Self { signal, items })?.into_any());
        }
        let position = crate::signal::index::as_index(key)?;
        let position = if position < 0 {
            position + len as i64
        } else {
            position
        };
        let gap = usize::try_from(position)
            .ok()
            .and_then(|position| gaps.at(position));
        let Some(gap) = gap else {
            let message = format!(
                "gap {key} was asked for, but there are {len}; count from 0, or from -1 backwards"
            );
            return Err(PyIndexError::new_err(message).into());
        };
        Ok(Bound::new(py, Gap::new(gap, &gaps.signal))?.into_any())
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let mut memory = BufferMut::zeroed_samples::<i64>(self.len() * 2)?;
        for (position, row) in memory.samples_mut::<i64>().chunks_exact_mut(2).enumerate() {
            if let Some(gap) = self.at(position) {
                row.copy_from_slice(&[gap.start, gap.end() - gap.start]);
            }
        }
        let array = memory::own(py, memory, isochrony_segment::DType::I64, Some(2))?;
        crate::signal::segment::array_as_requested(array, false, dtype, copy)
    }

    fn __repr__(&self) -> String {
        format!(
            "<Gaps: {} of {}, {} samples missing>",
            self.len(),
            self.signal.name(),
            self.missing()
        )
    }
}

#[pyclass(frozen, module = "isochrony._native", name = "_GapIterator")]
struct GapIterator {
    gaps: Py<Gaps>,
    next: AtomicUsize,
}

#[pymethods]
impl GapIterator {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self) -> Option<Gap> {
        let gaps = self.gaps.get();
        let gap = gaps.at(self.next.fetch_add(1, Ordering::Relaxed))?;
        Some(Gap::new(gap, &gaps.signal))
    }
}
