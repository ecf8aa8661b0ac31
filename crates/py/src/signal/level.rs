//! `isochrony.Level`: a level of the views as a read-only signal.

use isochrony_store::Overlap;
use isochrony_store::views::{Decimated, Measure, bucket};
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyTuple};

use crate::errors::{PackageError, Result};
use crate::signal::Signal;
use crate::signal::index::{as_index, is_index, single};
use crate::signal::key::{resolve_key, resolve_slice};
use crate::signal::key_range::KeyRange;
use crate::signal::level_selection::LevelSelection;
use crate::time::{PreferArg, RoundArg, Time, TimeArg, option, rate_object};

const MEASURES: [(&str, Measure); 5] = [
    ("min", Measure::Min),
    ("max", Measure::Max),
    ("mean", Measure::Mean),
    ("std", Measure::Std),
    ("count", Measure::Count),
];

/// One value per bucket of a signal's samples, read like a signal; made by `Signal.level`.
///
/// Index `i` stands for samples `i * bucket` up to `(i + 1) * bucket` of the signal and for the time of the first; only
/// full buckets exist. A bucket without samples is a gap; one without finite values has value NaN and count 0. A bucket
/// across a clock step counts the samples of both runs. `level[i]` is one value in the signal's unit, `level[a:b]`
/// (indices or times) or `level[isochrony.span(...)]` a `LevelSelection`. It follows its signal.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
/// >>> signal = store.create("p", dtype="i2", rate=100, unit="kPa", start="2026-01-01")
/// >>> _ = signal.append(np.arange(10_000, dtype="i2")), store.commit()
/// >>> level = signal.level(512, "max")
/// >>> level[2:4].values()
/// array([1535., 2047.])
#[pyclass(frozen, module = "isochrony")]
pub(crate) struct Level {
    signal: Py<Signal>,
    bucket: i64,
    level_index: usize,
    name: &'static str,
    measure: Measure,
}

impl Level {
    fn decimated(&self, py: Python<'_>) -> Result<Decimated> {
        Ok(self.signal.get().get(py)?.decimated(self.level_index)?)
    }

    /// The buckets of a key; None: all. Of runs overlapping in time, those of the run stored first.
    fn select(&self, py: Python<'_>, key: Option<&Bound<'_, PyAny>>) -> Result<LevelSelection> {
        let level = self.decimated(py)?;
        let key_range = match key {
            None => KeyRange::Index(0..level.end_index()),
            Some(key) => match key.cast::<PySlice>() {
                // Indices of a slice count buckets and are clamped.
                Ok(slice) => resolve_slice(level.signal(), level.end_index(), slice)?,
                Err(_) => match resolve_key(level.signal(), Some(key))? {
                    // Other indices count samples.
                    KeyRange::Index(range) => {
                        KeyRange::OfSignal(Box::new(level.signal().clone()), range)
                    }
                    other => other,
                },
            },
        };
        let parts = level.select(key_range.span(), Overlap::First)?;
        Ok(LevelSelection {
            level,
            name: self.name,
            measure: self.measure,
            parts,
        })
    }
}

#[pymethods]
impl Level {
    /// The signal of this level.
    ///
    /// >>> level.signal
    /// <Signal p int16 in kPa at 100 Hz: 10000 samples, 0 gaps, 1 runs>
    #[getter]
    fn signal(&self, py: Python<'_>) -> Py<Signal> {
        self.signal.clone_ref(py)
    }

    /// Samples in a bucket.
    ///
    /// >>> level.bucket
    /// 512
    #[getter]
    fn bucket(&self) -> i64 {
        self.bucket
    }

    /// Statistic of each bucket: "min", "max", "mean", "std" or "count".
    ///
    /// >>> level.measure
    /// 'max'
    #[getter]
    fn measure(&self) -> &'static str {
        self.name
    }

    /// Unit of the values: the signal's, empty for counts.
    ///
    /// >>> level.unit
    /// 'kPa'
    #[getter]
    fn unit(&self, py: Python<'_>) -> Result<String> {
        Ok(match self.measure {
            Measure::Count => String::new(),
            _ => self.signal.get().get(py)?.unit().to_owned(),
        })
    }

    /// Nominal buckets per second: a float with its exact ratio.
    ///
    /// >>> level.rate
    /// 0.1953125
    #[getter]
    fn rate<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        Ok(rate_object(py, self.decimated(py)?.rate()?)?)
    }

    /// First index: always 0.
    ///
    /// >>> level.start_index
    /// 0
    #[getter]
    fn start_index(&self) -> i64 {
        0
    }

    /// Number of full buckets, gaps included.
    ///
    /// >>> level.end_index
    /// 19
    #[getter]
    fn end_index(&self, py: Python<'_>) -> Result<i64> {
        Ok(self.decimated(py)?.end_index())
    }

    /// Number of buckets with samples.
    ///
    /// >>> level.sample_count
    /// 19
    #[getter]
    fn sample_count(&self, py: Python<'_>) -> Result<i64> {
        let level = self.decimated(py)?;
        Ok(crate::interpreter::detach(py, || level.sample_count()))
    }

    /// Buckets without samples: an int64 array of shape (n, 2), first bucket and number of buckets of each gap.
    ///
    /// >>> level.gaps
    /// array([], shape=(0, 2), dtype=int64)
    #[getter]
    fn gaps<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyAny>> {
        self.select(py, None)?.gaps(py)
    }

    /// Convert the index of a bucket to civil time.
    ///
    /// Parameters:
    ///     index: of the bucket; may lie beyond the level's ends.
    ///
    /// Returns:
    ///     The time of the bucket's first sample, extrapolated beyond the ends.
    ///
    /// Raises:
    ///     isochrony.StoreError: the signal has no civil time.
    fn time_of(&self, py: Python<'_>, index: &Bound<'_, PyAny>) -> Result<Time> {
        Ok(self.decimated(py)?.time_of(as_index(index)?)?.into())
    }

    /// Convert a civil time to the index of a bucket, by the times of first samples; `index_of(time_of(i)) == i`.
    ///
    /// Parameters:
    ///     time: as in `Signal.index_of`.
    ///     round: as in `Signal.index_of`; "floor" gives the bucket that contains the time.
    ///     prefer: as in `Signal.index_of`.
    ///
    /// Returns:
    ///     The index of the bucket, as an int.
    ///
    /// Raises:
    ///     isochrony.StoreError: as in `Signal.index_of`.
    #[pyo3(signature = (time, *, round=None, prefer=None))]
    fn index_of(
        &self,
        py: Python<'_>,
        time: TimeArg,
        round: Option<RoundArg>,
        prefer: Option<PreferArg>,
    ) -> Result<i64> {
        let round = round.map(|round| round.0).unwrap_or_default();
        let prefer = prefer.map(|prefer| prefer.0);
        Ok(self
            .decimated(py)?
            .index_of(&time.0.native(), round, prefer)?)
    }

    /// Read the values of all buckets.
    ///
    /// Parameters:
    ///     fill: value of buckets without samples.
    ///
    /// Returns:
    ///     A float64 array, shape (end_index,).
    ///
    /// Raises:
    ///     isochrony.StoreError: the level cannot be read.
    #[pyo3(signature = (fill=f64::NAN))]
    fn values<'py>(&self, py: Python<'py>, fill: f64) -> Result<Bound<'py, PyAny>> {
        self.select(py, None)?.values(py, fill)
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> Result<Bound<'py, PyAny>> {
        if !is_index(key) {
            return Ok(Bound::new(py, self.select(py, Some(key))?)?.into_any());
        }
        let level = self.decimated(py)?;
        let parts = level.select(single(key, level.end_index())?, Overlap::First)?;
        let selection = LevelSelection {
            level,
            name: self.name,
            measure: self.measure,
            parts,
        };
        Ok(selection.__array__(py, None, None)?.get_item(0)?)
    }

    fn __len__(&self, py: Python<'_>) -> Result<usize> {
        Ok(usize::try_from(self.decimated(py)?.end_index()).unwrap_or(usize::MAX))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> Result<Bound<'py, PyAny>> {
        self.select(py, None)?.__array__(py, dtype, copy)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, (i64, &'static str))> {
        let level = slf.get();
        let make = level.signal.bind(slf.py()).getattr("level")?;
        Ok((make, (level.bucket, level.name)))
    }

    fn __repr__(&self, py: Python<'_>) -> Result<String> {
        let level = self.decimated(py)?;
        Ok(format!(
            "<Level {} of {}: {} buckets of {} samples at {} Hz>",
            self.name,
            level.signal().name(),
            level.end_index(),
            self.bucket,
            level.rate()?
        ))
    }
}

#[pymethods]
impl Signal {
    /// Buckets of the levels that `level` can read: a tuple of numbers of samples, finest first, none longer than the
    /// signal.
    ///
    /// >>> signal.levels
    /// (512,)
    #[getter]
    fn levels<'py>(&self, py: Python<'py>) -> Result<Bound<'py, PyTuple>> {
        let signal = self.get(py)?;
        let buckets = (0..signal.levels()).map(|level| bucket(signal.dtype(), level));
        Ok(PyTuple::new(py, buckets.collect::<Vec<_>>())?)
    }

    /// The signal at a coarser scale, read like a signal: one value per bucket of samples, from the stored pyramid if
    /// available. Only finite samples count; complex ones by magnitude.
    ///
    /// Parameters:
    ///     bucket: samples per bucket, one of `levels`.
    ///     measure: "mean", "min", "max", "std" (population standard deviation) or "count" (of finite samples).
    ///
    /// Returns:
    ///     A `Level`: rate, gaps, `time_of`, `index_of`, and by slicing its values in the signal's unit.
    ///
    /// Raises:
    ///     isochrony.StoreError: no such level.
    ///     isochrony.OptionError: no such measure.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("x", dtype="i2", rate=2000, start="2010-03-01")
    /// >>> _ = signal.append(np.arange(10_000, dtype="i2"))
    /// >>> signal.levels
    /// (512, 4096)
    /// >>> level = signal.level(4096, "max")
    /// >>> level.rate.fraction, level.time_of(1)
    /// (Fraction(125, 256), Time('2010-03-01T00:00:02.048Z'))
    /// >>> level[0:2].values()
    /// array([4095., 8191.])
    #[pyo3(signature = (bucket, measure="mean"))]
    fn level(slf: &Bound<'_, Self>, bucket: &Bound<'_, PyAny>, measure: &str) -> Result<Level> {
        let signal = slf.get().get(slf.py())?;
        let Some((name, measure)) = MEASURES.into_iter().find(|(name, _)| *name == measure) else {
            let names = MEASURES.map(|(name, _)| format!("{name:?}"));
            let legal = format!("one of {}", names.join(", "));
            return Err(option("measure", measure, &legal).into());
        };
        let asked = as_index(bucket)?;
        let buckets: Vec<i64> = (0..signal.levels())
            .map(|level| self::bucket(signal.dtype(), level))
            .collect();
        let Some(level_index) = buckets.iter().position(|bucket| *bucket == asked) else {
            let message = match buckets.as_slice() {
                [] => format!(
                    "signal {:?} has no levels yet: it ends at index {} and one bucket takes {}; read the samples \
                     instead",
                    signal.name(),
                    signal.end_index(),
                    self::bucket(signal.dtype(), 0)
                ),
                buckets => format!(
                    "signal {:?} has no level with buckets of {asked} samples; give one of {buckets:?}",
                    signal.name()
                ),
            };
            return Err(PackageError::new("StoreValueError", "no_such_level", message).into());
        };
        Ok(Level {
            signal: slf.clone().unbind(),
            bucket: asked,
            level_index,
            name,
            measure,
        })
    }
}
