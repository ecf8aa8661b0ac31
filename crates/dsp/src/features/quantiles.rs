//! Quantiles of windows.

use crate::DspError;
use crate::spectrum::Precision;

/// Quantiles by NumPy's default method: linear interpolation at `q (N - 1)` of the sorted window. NaN if the window has
/// NaN.
///
/// Selects instead of sorting: linear time.
pub struct Quantiles<T> {
    at: Vec<f64>,
    values: Vec<T>,
    places: Vec<usize>,
}

impl<T: Precision> Quantiles<T> {
    /// Quantiles, each from 0 to 1.
    ///
    /// # Errors
    /// [`DspError::Parameter`] if one is out of range, or none given.
    ///
    /// ```
    /// use isochrony_dsp::features::Quantiles;
    /// let mut out = [0.0; 2];
    /// Quantiles::new(&[0.5, 0.1])?.row(&[4.0, 1.0, 2.0, 3.0], &mut out);
    /// assert_eq!(out, [2.5, 1.3]);
    /// # Ok::<(), isochrony_dsp::DspError>(())
    /// ```
    pub fn new(at: &[f64]) -> Result<Self, DspError> {
        if at.is_empty() || !at.iter().all(|q| (0.0..=1.0).contains(q)) {
            return Err(DspError::Parameter {
                operator: "quantile",
                parameter: "at",
                got: format!("{at:?}"),
                allowed: "one or more numbers from 0 to 1".into(),
            });
        }
        Ok(Self {
            at: at.to_vec(),
            values: Vec::new(),
            places: Vec::with_capacity(2 * at.len()),
        })
    }

    /// Length of a row.
    #[must_use]
    pub fn bins(&self) -> usize {
        self.at.len()
    }

    /// In the given order; NaN if the window is empty.
    pub fn row(&mut self, window: &[T], out: &mut [T]) {
        if window.is_empty() || window.iter().any(|value| value.is_nan()) {
            out.fill(T::nan());
            return;
        }
        let last = window.len() - 1;
        self.values.clear();
        self.values.extend_from_slice(window);
        self.places.clear();
        for &q in &self.at {
            let below = (q * last as f64).floor() as usize;
            self.places.extend([below, (below + 1).min(last)]);
        }
        self.places.sort_unstable();
        self.places.dedup();
        // A selection moves larger values behind it.
        let (mut from, mut rest) = (0, self.values.as_mut_slice());
        let order = |a: &T, b: &T| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal);
        for &place in &self.places {
            let (_, _, larger) = rest.select_nth_unstable_by(place - from, order);
            (from, rest) = (place + 1, larger);
        }
        for (&q, out) in self.at.iter().zip(out) {
            let at = q * last as f64;
            let below = at.floor();
            let part = at - below;
            let low: f64 = self.values[below as usize].into();
            let high: f64 = self.values[(below as usize + 1).min(last)].into();
            // As NumPy: monotonic in q.
            let value = if part < 0.5 {
                low + (high - low) * part
            } else {
                high - (high - low) * (1.0 - part)
            };
            *out = T::of(if low == high { low } else { value });
        }
    }
}
