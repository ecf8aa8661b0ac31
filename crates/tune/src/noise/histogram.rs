//! Histograms, divergence from a model, and a goodness-of-fit test.

use serde::Serialize;
use statrs::distribution::{ChiSquared, ContinuousCDF};

use crate::TuneError;

/// Sample counts in cells that cover the real line.
///
/// A sample equal to an edge counts in the cell below, as in `P(x <= edge)`.
///
/// ```
/// use isochrony_tune::noise::Histogram;
///
/// let histogram = Histogram::new(&[1.0, 2.0, 3.0, 4.0], &[2.5])?;
/// assert_eq!(histogram.counts(), [2, 2]);
/// let uniform = |x: f64| (x / 5.0).clamp(0.0, 1.0);
/// assert!(histogram.divergence(uniform).abs() < 1e-15);
/// # Ok::<(), isochrony_tune::TuneError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Histogram {
    edges: Vec<f64>,
    counts: Vec<u64>,
}

/// Result of testing a model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Goodness {
    /// Kullback-Leibler divergence from the model, in nats.
    pub divergence: f64,
    /// Largest divergence explained by chance, in nats.
    pub limit: f64,
}

impl Goodness {
    /// Whether the divergence is above the limit.
    pub fn is_rejected(&self) -> bool {
        self.divergence > self.limit
    }
}

impl Histogram {
    /// Counts samples in `edges.len() + 1` cells.
    ///
    /// # Parameters
    /// - `samples`: at least 1 finite value.
    /// - `edges`: at least 1 finite value, strictly ascending.
    ///
    /// # Errors
    /// [`TuneError::TooFewSamples`], [`TuneError::NotFinite`], [`TuneError::Parameter`] for the edges.
    pub fn new(samples: &[f64], edges: &[f64]) -> Result<Self, TuneError> {
        const PLACE: &str = "Histogram::new";
        check(samples, 1, PLACE)?;
        let ascending = edges.windows(2).all(|pair| pair[0] < pair[1]);
        let legal = !edges.is_empty() && ascending && edges.iter().all(|edge| edge.is_finite());
        let allowed = "at least 1 finite value, strictly ascending";
        TuneError::unless(legal, "edges", format!("{edges:?}"), allowed, PLACE)?;
        let mut counts = vec![0; edges.len() + 1];
        for &sample in samples {
            counts[edges.partition_point(|&edge| edge < sample)] += 1;
        }
        Ok(Self {
            edges: edges.to_vec(),
            counts,
        })
    }

    /// Counts samples in cells of about equal count; fewer than `bins` if samples are equal.
    ///
    /// # Parameters
    /// - `samples`: at least 2 finite values, not all equal.
    /// - `bins`: 2 to the number of samples.
    ///
    /// # Errors
    /// [`TuneError::TooFewSamples`], [`TuneError::NotFinite`], [`TuneError::NoSpread`],
    /// [`TuneError::Parameter`] for `bins`.
    pub fn with_equal_counts(samples: &[f64], bins: usize) -> Result<Self, TuneError> {
        const PLACE: &str = "Histogram::with_equal_counts";
        check(samples, 2, PLACE)?;
        let legal = (2..=samples.len()).contains(&bins);
        TuneError::unless(legal, "bins", bins, "2 to the number of samples", PLACE)?;
        let mut sorted = samples.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let largest = sorted[samples.len() - 1];
        let mut edges: Vec<_> = (1..bins)
            .map(|bin| sorted[bin * samples.len() / bins - 1])
            .filter(|&edge| edge < largest)
            .collect();
        edges.dedup();
        if edges.is_empty() {
            // One edge below the largest separates the rest.
            match sorted.iter().rfind(|&&x| x < largest) {
                Some(&edge) => edges.push(edge),
                None => {
                    return Err(TuneError::NoSpread {
                        count: samples.len(),
                        value: largest,
                        place: PLACE,
                    });
                }
            }
        }
        Self::new(samples, &edges)
    }

    /// Edges between the cells, ascending.
    pub fn edges(&self) -> &[f64] {
        &self.edges
    }

    /// Counts by cell, one more than edges.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Kullback-Leibler divergence `Σ p ln(p / q)` of the cells' shares `p` from a model's `q`, in nats.
    ///
    /// `cumulative` is the model's distribution function. Infinite if a cell with samples has no probability.
    pub fn divergence(&self, cumulative: impl Fn(f64) -> f64) -> f64 {
        let total = self.counts.iter().sum::<u64>() as f64;
        let mut below = 0.0;
        let mut sum = 0.0;
        for (cell, &count) in self.counts.iter().enumerate() {
            let above = self.edges.get(cell).map_or(1.0, |&edge| cumulative(edge));
            let probability = above - below;
            below = above;
            if count == 0 {
                continue;
            }
            if probability <= 0.0 {
                return f64::INFINITY;
            }
            let share = count as f64 / total;
            sum += share * (share / probability).ln();
        }
        // Rounding may leave a tiny negative sum.
        sum.max(0.0)
    }

    /// Rejects a model whose divergence exceeds chance.
    ///
    /// # Parameters
    /// - `cumulative`: the model's distribution function.
    /// - `significance`: probability of rejecting a true model, above 0 and below 1.
    ///
    /// # Conventions
    /// `2 n D` of a true model is asymptotically chi-squared with `cells - 1` degrees of freedom (G test). A model
    /// fitted to the same samples is rejected less often than `significance`. Cells should hold five samples or more.
    ///
    /// # Errors
    /// [`TuneError::Parameter`] for `significance`.
    ///
    /// ```
    /// use isochrony_tune::noise::{Histogram, ModifiedLevy, NoiseKind, NoiseModel};
    ///
    /// let samples = ModifiedLevy::new(-1.0, 0.5, 20.0)?.samples(2_000, 3);
    /// let histogram = Histogram::with_equal_counts(&samples, 40)?;
    /// let normal = NoiseModel::fit(NoiseKind::Normal, &samples)?;
    /// assert!(histogram.test(|x| normal.cumulative(x), 0.01)?.is_rejected());
    /// # Ok::<(), isochrony_tune::TuneError>(())
    /// ```
    pub fn test(
        &self,
        cumulative: impl Fn(f64) -> f64,
        significance: f64,
    ) -> Result<Goodness, TuneError> {
        let legal = significance > 0.0 && significance < 1.0;
        let allowed = "above 0 and below 1";
        TuneError::unless(
            legal,
            "significance",
            significance,
            allowed,
            "Histogram::test",
        )?;
        let total = self.counts.iter().sum::<u64>() as f64;
        let chi_squared = ChiSquared::new(self.edges.len() as f64)
            .expect("a histogram has at least one edge, so at least one degree of freedom");
        Ok(Goodness {
            divergence: self.divergence(cumulative),
            limit: chi_squared.inverse_cdf(1.0 - significance) / (2.0 * total),
        })
    }
}

fn check(samples: &[f64], needed: usize, place: &'static str) -> Result<(), TuneError> {
    if samples.len() < needed {
        let got = samples.len();
        return Err(TuneError::TooFewSamples { got, needed, place });
    }
    match samples.iter().position(|x| !x.is_finite()) {
        Some(index) => Err(TuneError::NotFinite {
            index,
            got: samples[index],
            place,
        }),
        None => Ok(()),
    }
}
