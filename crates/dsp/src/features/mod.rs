//! Windows to one or a few numbers each, from the window alone.
//!
//! Sums run in fixed lanes of f64 and are rounded once, so that results have the same bits on every CPU (those by Fourier
//! transforms excepted, [`spectrum`](crate::spectrum)). NaN and infinities spread to their window's results, as IEEE
//! arithmetic takes them, and no further; where that is not so, the function says it.

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
