//! Frequencies of a plan's spectra.

use isochrony_dsp::spectrum::frequencies_hz;

use crate::{Plan, PortType, RowAxis};

struct Spectra {
    nfft: usize,
    rate: f64,
    complex: bool,
}

impl Plan {
    /// Frequencies in Hz of a row's values, if rows are spectra (`fft`, `power`, `welch`) or as many values computed
    /// from them: NumPy's `rfftfreq` for real samples, `fftfreq` for complex ones.
    #[must_use]
    pub fn frequencies(&self) -> Option<Vec<f64>> {
        let spectra = self.spectra()?;
        let hz = frequencies_hz(spectra.nfft, spectra.rate, spectra.complex);
        Some(hz)
    }

    /// Whether spectra are of complex samples; None without spectra.
    #[must_use]
    pub fn complex_spectra(&self) -> Option<bool> {
        self.spectra().map(|spectra| spectra.complex)
    }

    fn spectra(&self) -> Option<Spectra> {
        let PortType::Frames { width, .. } = self.port() else {
            return None;
        };
        let mut plan = self;
        loop {
            let before = plan.inputs().first()?;
            match plan.node.properties.row_axis {
                RowAxis::FromInput => plan = before,
                RowAxis::Frequencies { nfft, complex } => {
                    let values = if complex { nfft } else { nfft / 2 + 1 };
                    let rate = before.port().stream()?.rate.to_f64();
                    return (values == width).then_some(Spectra {
                        nfft,
                        rate,
                        complex,
                    });
                }
                RowAxis::Unknown => return None,
            }
        }
    }
}
