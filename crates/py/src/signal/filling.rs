//! `isochrony.Signal`: filling reserved ranges; reading ahead.

use isochrony_store::Selection as StoreSelection;
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};
use crate::integer::IntegerArg;
use crate::interrupt::interruptible;
use crate::signal::Signal;
use crate::signal::gaps::Gap;
use crate::signal::selection::Selection;

#[pymethods]
impl Signal {
    /// Extends the signal by a gap to be filled later, in any order, with `fill` or by tasklets.
    ///
    /// Parameters:
    ///     samples: length, above zero.
    ///
    /// Returns:
    ///     Their `Gap`.
    ///
    /// >>> import isochrony as iso, tempfile
    /// >>> with iso.open(tempfile.mkdtemp() + "/sums.iso", "x") as store:
    /// ...     sums = store.create("sums", dtype="f8", rate=10)
    /// ...     _ = sums.reserve(6)
    /// ...     sums.fill(4, [5.0, 6.0])
    /// ...     sums.fill(0, [1.0, 2.0])
    /// ...     sums.values()
    /// array([ 1.,  2., nan, nan,  5.,  6.])
    fn reserve(&self, py: Python<'_>, samples: IntegerArg<i64>) -> Result<Gap> {
        let writer = self.writer("reserve samples")?;
        let gap = crate::interpreter::detach(py, || writer.append_gap(samples.0))?;
        Ok(Gap::new(gap, &self.get(py)?))
    }

    /// Writes samples into a gap, such as one from `reserve`. Visible at once here, durable with the next
    /// `Store.commit`; all or nothing. Threads may fill ranges that do not overlap.
    ///
    /// Parameters:
    ///     index: index of the first sample.
    ///     samples: as for `append`.
    ///
    /// Raises:
    ///     isochrony.StoreError: a sample exists already (also FileExistsError), a range outside the signal
    ///         (IndexError), and as `append`.
    ///
    /// >>> import isochrony as iso, numpy as np, tempfile
    /// >>> store = iso.open(tempfile.mkdtemp() + "/water.iso", "x")
    /// >>> signal = store.create("p", dtype="f8", rate=100)
    /// >>> _ = signal.reserve(4)
    /// >>> signal.fill(1, [5.0, 6.0])
    /// >>> signal.values()
    /// array([nan,  5.,  6., nan])
    fn fill(
        &self,
        py: Python<'_>,
        index: IntegerArg<i64>,
        samples: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let writer = self.writer("fill a gap")?;
        let buffer = self.samples(py, samples, false)?;
        interruptible(py, buffer.len() as u64, || {
            Ok(writer.fill_bytes(index.0, buffer.bytes())?)
        })
    }
}

/// Asks the system to read samples into the page cache, without waiting.
///
/// Parameters:
///     samples: a selection or a signal. Beyond the free memory, later samples evict earlier ones.
///
/// Returns:
///     Bytes requested, without gaps, sealed signals and ranges written by other programs.
///
/// >>> import isochrony as iso, numpy as np, tempfile
/// >>> with iso.open(tempfile.mkdtemp() + "/water.iso", "x") as store:
/// ...     signal = store.create("pressure", dtype="i2", rate=100)
/// ...     _ = signal.append(np.zeros(5000, "i2"))
/// ...     iso.prefetch(signal[1000:3000])
/// 4000
#[pyfunction]
pub(crate) fn prefetch(py: Python<'_>, samples: &Bound<'_, PyAny>) -> Result<u64> {
    let picked;
    let selection: &StoreSelection = match samples.cast::<Selection>() {
        Ok(selection) => &selection.get().selection,
        Err(_) => {
            let Ok(signal) = samples.cast::<Signal>() else {
                let kind = samples.get_type().name()?;
                let message = format!("prefetch got {kind}; give a signal, or a selection of one");
                return Err(PackageError::new("StoreTypeError", "not_a_signal", message).into());
            };
            let signal = signal.get();
            picked = signal.pick(py, None, Default::default())?;
            &picked.selection
        }
    };
    Ok(crate::interpreter::detach(py, || {
        let parts = selection.parts().iter();
        parts
            .map(|part| selection.signal().prefetch(part.range.clone()))
            .sum()
    }))
}
