//! `isochrony.LevelSelection`: consecutive buckets of a level, read lazily.

use std::ops::Range;

use isochrony_segment::{BufferMut, DType};
use isochrony_store::StoreError;
use isochrony_store::views::{Decimated, Measure};
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::interrupt::interruptible;
use crate::memory;
use crate::signal::conversion::civil_times;

/// Values of consecutive buckets, read lazily; made by `level[...]`.
///
/// `numpy.asarray(selection)` gives float64 values in the unit, shape (n,), of a selection without gaps.
///
/// Raises:
///     isochrony.GapError: an array was requested across a gap.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, start="2026-01-01")
/// >>> _ = signal.append(np.arange(10_000, dtype="i2")), store.commit()
/// >>> selection = signal.level(512, "max")[2:4]
/// >>> selection.values()
/// array([1535., 2047.])
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct LevelSelection {
    pub(crate) level: Decimated,
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
    pub(crate) parts: Vec<Range<i64>>,
}

impl LevelSelection {
    fn len(&self) -> usize {
        let length: i64 = self.parts.iter().map(|part| part.end - part.start).sum();
        usize::try_from(length).unwrap_or(usize::MAX)
    }
}

#[pymethods]
impl LevelSelection {
    /// One value in the unit per selected bucket, `fill` in gaps.
    ///
    /// Parameters:
    ///     fill: value for buckets without samples. Buckets without finite samples are NaN.
    ///
    /// Returns:
    ///     A new 1-D array of float64, gaps included.
    ///
    /// Raises:
    ///     isochrony.StoreError: complex samples whose calibration has an offset.
    #[pyo3(signature = (fill=f64::NAN))]
    pub(crate) fn values<'py>(&self, py: Python<'py>, fill: f64) -> Result<Bound<'py, PyAny>> {
        let bytes = self.len() as u64 * 32;
        let values = interruptible(py, bytes, || {
            let mut out = Vec::new();
            // With gaps filled, it may be far longer than stored.
            out.try_reserve_exact(self.len())
                .map_err(|_| StoreError::TooLarge {
                    what: "one array for this selection",
                    bytes: self.len() as u128 * size_of::<f64>() as u128,
                    limit: isize::MAX as u128,
                })?;
            for part in &self.parts {
                let base = out.len();
                for stretch in self.level.values(self.measure, part.clone())? {
                    out.resize(base + (stretch.start - part.start) as usize, fill);
                    out.extend(stretch.values);
                }
                out.resize(base + (part.end - part.start) as usize, fill);
            }
            Ok(out)
        })?;
        Ok(PyArray1::from_vec(py, values).into_any())
    }

    /// Compute the civil times of the selected buckets' first samples.
    ///
    /// Returns:
    ///     A datetime64[ns] array, one time per element of `values()`, rounded to the nanosecond.
    ///
    /// Raises:
    ///     isochrony.StoreError: the signal has no civil time.
    fn times<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        civil_times(py, &self.parts, |start, out| {
            Ok(self.level.civil_grid_ns(start, out)?)
        })
    }

    /// Selected buckets without samples: an int64 array of shape (n, 2), first bucket and number of buckets.
    ///
    /// >>> selection.gaps
    /// array([], shape=(0, 2), dtype=int64)
    #[getter]
    pub(crate) fn gaps<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        let gaps = crate::interpreter::detach(py, || {
            let gaps = self.parts.iter().map(|part| self.level.gaps(part.clone()));
            gaps.flatten().collect::<Vec<_>>()
        });
        let mut memory = BufferMut::zeroed_samples::<i64>(gaps.len() * 2)?;
        let rows = memory.samples_mut::<i64>().chunks_exact_mut(2);
        for (row, gap) in rows.zip(&gaps) {
            row.copy_from_slice(&[gap.start, gap.length]);
        }
        Ok(memory::own(py, memory, DType::I64, Some(2))?)
    }

    /// Selected ranges `(start, end)` of buckets, gaps included, one or more per run.
    ///
    /// >>> selection.ranges
    /// [(2, 4)]
    #[getter]
    fn ranges(&self) -> Vec<(i64, i64)> {
        self.parts
            .iter()
            .map(|part| (part.start, part.end))
            .collect()
    }

    /// Number of selected buckets with samples.
    ///
    /// >>> selection.sample_count
    /// 2
    #[getter]
    fn sample_count(&self) -> i64 {
        let missing = |part: &Range<i64>| -> i64 {
            let gaps = self.level.gaps(part.clone());
            gaps.iter().map(|gap| gap.length).sum()
        };
        let count = |part: &Range<i64>| part.end - part.start - missing(part);
        self.parts.iter().map(count).sum()
    }

    fn __len__(&self) -> usize {
        self.len()
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    pub(crate) fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        let mut gaps = self
            .parts
            .iter()
            .flat_map(|part| self.level.gaps(part.clone()));
        if let Some(gap) = gaps.next() {
            let message = format!(
                "the selection from level {} of signal {:?} covers a gap of {} bucket{} at index {}; ask for values(fill=...)",
                self.level.bucket(),
                self.level.signal().name(),
                gap.length,
                if gap.length == 1 { "" } else { "s" },
                gap.start
            );
            return Err(PackageError::new("GapError", "gap_in_selection", message).into());
        }
        crate::signal::segment::array_as_requested(self.values(py, f64::NAN)?, false, dtype, copy)
    }

    fn __repr__(&self) -> String {
        format!(
            "<LevelSelection of {} {}: {} buckets of {} samples>",
            self.level.signal().name(),
            self.name,
            self.len(),
            self.level.bucket()
        )
    }
}
