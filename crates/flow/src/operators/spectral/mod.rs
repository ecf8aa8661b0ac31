//! Spectra of windows, and the frequencies of their columns.

mod frequencies;
pub(crate) mod score;
pub(crate) mod spectrum;
pub(crate) mod welch;

register! {
    score: SpectralScore;
    spectrum: Fft, Power;
    welch: Welch;
}
