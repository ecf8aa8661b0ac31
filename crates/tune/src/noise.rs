//! Noise of execution times: distributions fitted to measured deviations, and tests that reject a model.
//!
//! Follows chapter 5 of Beard, *Online Modeling and Tuning of Parallel Stream Processing Systems* (dissertation,
//! Washington University in St. Louis, 2015). Noise is the measured minus the nominal execution time, in seconds.
//!
//! - [`ModifiedLevy`]: the Levy distribution truncated above.
//! - [`NoiseModel`]: it, or the normal, Gumbel or Cauchy distribution; [`rank_noise_models`] fits them all.
//! - [`Histogram`]: counts, their Kullback-Leibler divergence from a model, and the test that rejects it.
//! - [`exponential_divergence`]: how far noise moves exponential times, to reject M/M/1 in advance.

mod fit;
mod histogram;
mod levy;
mod model;
mod queue;

pub use histogram::{Goodness, Histogram};
pub use levy::ModifiedLevy;
pub use model::{NoiseKind, NoiseModel, RankedModel, rank_noise_models};
pub use queue::exponential_divergence;
