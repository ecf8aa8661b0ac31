//! Features: one or a few numbers per window.
//!
//! Sums run in fixed lanes of f64 and are rounded once: the same bits on every CPU (except Fourier transforms,
//! [`spectrum`](crate::spectrum)). Unless stated, NaN and infinities propagate within their window.

mod envelope;
mod haar;
mod haar_of_counts;
mod level;
mod peaks;
mod quantiles;
mod score;

pub use envelope::Envelope;
pub use haar::{Haar, HaarOutput};
pub use haar_of_counts::{Count, HaarOfCounts, Wide};
pub use level::{mean_square, rms, zero_crossings};
pub use peaks::{Extreme, Peak, trim_peaks};
pub use quantiles::Quantiles;
pub use score::{Normalise, Score};
