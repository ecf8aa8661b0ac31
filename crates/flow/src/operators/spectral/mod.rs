//! Operators that compute spectra of windows, and the frequencies that their columns stand for.

mod frequencies;
pub(crate) mod score;
pub(crate) mod spectrum;
pub(crate) mod welch;

register! {
    score: SpectralScore;
    spectrum: Fft, Power;
    welch: Welch;
}
