//! Which frequencies the values of a plan's rows are of.

use isochrony_dsp::spectrum::frequencies_hz;
use serde_json::Value;

use crate::plan::Op;
use crate::{Plan, PortType};

/// Steps behind which rows of as many values are still of the same frequencies.
const PASSING: [&str; 8] = [
    "map",
    "filter",
    "passthrough",
    "limit",
    "between",
    "zip",
    "each",
    "to_signal",
];

impl Plan {
    /// The frequencies in Hz that the values of a row are of, where rows are spectra (`fft`, `power`, `welch`) or as many
    /// values computed of them; None where they are not. Of real samples they are NumPy's `rfftfreq`, of complex ones
    /// `fftfreq`.
    #[must_use]
    pub fn frequencies(&self) -> Option<Vec<f64>> {
        let PortType::Frames { width, .. } = self.port() else {
            return None;
        };
        let mut plan = self;
        loop {
            let before = plan.inputs().first()?;
            let name = plan.node.op.name();
            if let (Op::Apply { params, .. }, "fft" | "power" | "welch") = (&plan.node.op, name) {
                let (samples, stream) = (before.port(), before.port().stream()?);
                let PortType::Frames { dtype, window, .. } = samples else {
                    return None;
                };
                let nfft = params.get("nfft").and_then(Value::as_u64);
                let nfft = usize::try_from(nfft.unwrap_or(window)).ok()?;
                let hz = frequencies_hz(nfft, stream.rate.to_f64(), dtype.is_complex());
                return (hz.len() == width).then_some(hz);
            }
            if !PASSING.contains(&name) {
                return None;
            }
            plan = before;
        }
    }
}
