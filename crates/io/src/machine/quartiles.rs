use serde::{Deserialize, Serialize};

/// Median and quartiles of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Quartiles {
    /// Lower quartile.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Upper quartile.
    pub high: f64,
}

impl Quartiles {
    /// Quartiles; None without values, or if one is not finite.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let at = |part: f64| {
            let place = part * last as f64;
            let (below, above) = (
                values[place.floor() as usize],
                values[place.ceil() as usize],
            );
            below + (above - below) * place.fract()
        };
        Some(Self {
            low: at(0.25),
            median: at(0.5),
            high: at(0.75),
        })
    }

    /// An exact value.
    #[must_use]
    pub const fn exact(value: f64) -> Self {
        Self {
            low: value,
            median: value,
            high: value,
        }
    }

    /// Applies an increasing function.
    #[must_use]
    pub fn map(self, each: impl Fn(f64) -> f64) -> Self {
        Self {
            low: each(self.low),
            median: each(self.median),
            high: each(self.high),
        }
    }

    /// Sum, as if all were low or high together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            low: self.low + other.low,
            median: self.median + other.median,
            high: self.high + other.high,
        }
    }

    /// Interquartile range relative to the median.
    #[must_use]
    pub fn relative(&self) -> f64 {
        (self.high - self.low) / self.median.abs().max(f64::MIN_POSITIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_five_are_the_second_and_the_fourth() {
        let spread = Quartiles::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.low, spread.median, spread.high), (2.0, 3.0, 4.0));
        assert!((spread.relative() - 2.0 / 3.0).abs() < 1e-12);
        let pair = Quartiles::of(vec![1.0, 2.0]).unwrap();
        assert_eq!((pair.low, pair.median, pair.high), (1.25, 1.5, 1.75));
    }

    #[test]
    fn no_values_and_nan_have_no_quartiles() {
        assert_eq!(Quartiles::of(vec![]), None);
        assert_eq!(Quartiles::of(vec![1.0, f64::NAN]), None);
    }
}
