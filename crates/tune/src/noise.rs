//! Noise of execution times.
//!
//! Source: chapter 5 of Beard, *Online Modeling and Tuning of Parallel Stream Processing Systems* (dissertation,
//! Washington University in St. Louis, 2015). Noise is measured minus nominal execution time, in seconds.
//!
//! - [`ModifiedLevy`]: Levy distribution truncated above.
//! - [`NoiseModel`]: it, normal, Gumbel or Cauchy; [`rank_noise_models`] fits all.
//! - [`Histogram`]: Kullback-Leibler divergence from a model, and a test that rejects it.
//! - [`exponential_divergence`]: distance of noisy from exponential times, to reject M/M/1 in advance.

mod fit;
mod histogram;
mod levy;
mod model;
mod queue;

pub use histogram::{Goodness, Histogram};
pub use levy::ModifiedLevy;
pub use model::{NoiseKind, NoiseModel, RankedModel, rank_noise_models};
pub use queue::exponential_divergence;
