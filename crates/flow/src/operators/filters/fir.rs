//! FIR filters.

use isochrony_dsp::filter::{
    Band, Fir as Kernel, FirBand, FirMethod, FirWindow, fir_window, kaiser_beta, kaiser_taps, remez,
};
use isochrony_dsp::spectrum::Precision;
use serde_json::Value;

use super::iir::{band, numbers, parameter_error};
use super::sample_input::SampleInput;
use super::stream_processor::{ResultProperties, StreamKernel, StreamProcessor};
use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, Workspace, json,
};

operator! {
    /// Filters samples with a finite impulse response: taps that are given, or designed by a window or for equal
    /// ripple.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// Samples with their indices, shape (n,): float32 for float32, computed in single precision, otherwise float64. Of
    /// complex samples the real and the imaginary part are filtered separately: complex64 for complex64, else
    /// complex128. Edges: "causal" gives as many as come in and assumes zeros before each gap-free range; "centred"
    /// leaves out (taps - 1) / 2 samples at both ends of it. Delay: (taps - 1) / 2 samples for symmetric taps if
    /// "causal", none if "centred".
    ///
    /// # Conventions
    /// Designs are those of `scipy.signal.firwin` and `remez`, with symmetric taps. Window designs are scaled to unit
    /// gain at 0 Hz (lowpass, bandstop), half the rate (highpass) or the centre of the band (bandpass). NaN and
    /// infinities reach as far as the taps. Results of "fft" come up to two blocks later, and their rounding errors are
    /// relative to the largest samples of a block.
    ///
    /// # Errors
    /// Parameters that exclude each other; a frequency outside 0 Hz to half the rate; an equiripple design that does
    /// not converge; input that is not samples.
    pub struct Fir = "fir" (Inputs::Exactly(1)) {
        /// The taps themselves, or their number if they are to be designed. Left out for a Kaiser window of `width_hz`.
        taps: Value = "numbers" { default: || json!(null), positional: true },
        /// Passband type of a window design.
        band: Option<String> = "text" { choices: &["lowpass", "highpass", "bandpass", "bandstop"], default: || json!(null), positional: true },
        /// Corner of a window design, or both corners of a band: the gain there is one half.
        cutoff_hz: Value = "numbers" { unit: Hertz, above: 0.0, default: || json!(null), positional: true },
        /// Window of the design. Stopband attenuation: "hamming" 53 dB, "hann" 44, "blackman" 74, "boxcar" 21, "kaiser"
        /// `attenuation_db`.
        window: String = "text" { choices: &["hamming", "hann", "blackman", "boxcar", "kaiser"], default: || json!("hamming") },
        /// Stopband attenuation of a Kaiser window.
        attenuation_db: Option<f64> = "number" { unit: Decibels, range: (1e-6, 600.0), default: || json!(null) },
        /// Transition width of a Kaiser window, from which the number of taps follows.
        width_hz: Option<f64> = "number" { unit: Hertz, above: 0.0, default: || json!(null) },
        /// Start and end of each band of an equiripple design, ascending from 0 to half the rate.
        edges_hz: Value = "numbers" { unit: Hertz, at_least: 0.0, default: || json!(null) },
        /// Gain in each of these bands.
        gains: Value = "numbers" { default: || json!(null) },
        /// Weight of the error in each of them. Left out: equal.
        weights: Value = "numbers" { above: 0.0, default: || json!(null) },
        /// "causal": result i depends on sample i and those before it, as in `lfilter`. "centred": no delay; needs an
        /// odd number of symmetric or antisymmetric taps.
        delay: String = "text" { choices: &["causal", "centred"], default: || json!("causal") },
        /// "direct" adds products, "fft" multiplies spectra of blocks, "auto" takes "direct" below 80 taps.
        method: String = "text" { choices: &["auto", "direct", "fft"], default: || json!("auto") },
    }
    state {
        filter: StreamProcessor,
    }
    alternatives { "direct": Tolerance(ROUNDING_ERROR), "fft": Tolerance(ROUNDING_ERROR) }
}

/// Of the transforms, relative to the largest samples of a block.
const ROUNDING_ERROR: f64 = 1e-14;

impl<T: Precision> StreamKernel<T> for Kernel<T> {
    fn run(&mut self, values: &[T], results: &mut [T]) {
        // Fails only if lengths differ.
        let _ = self.process(values, results);
    }

    fn reset(&mut self) {
        Kernel::reset(self);
    }
}

fn needs(needs: &str, mend: &'static str) -> PlanError {
    PlanError::NeedsParameter {
        operator: "fir",
        needs: needs.into(),
        mend,
    }
}

impl Fir {
    fn design_taps(&self, rate: f64) -> Result<Vec<f64>, PlanError> {
        let is_given = |value: &Value| !value.is_null();
        let equiripple =
            is_given(&self.edges_hz) || is_given(&self.gains) || is_given(&self.weights);
        let windowed = self.band.is_some() || is_given(&self.cutoff_hz);
        if let Value::Array(_) = self.taps {
            if equiripple || windowed {
                let legal = "a number where band= or edges_hz= is given";
                return Err(parameter_error("fir", "taps", &self.taps, legal));
            }
            let taps = numbers(&self.taps);
            return match taps.is_empty() {
                true => Err(needs(
                    "needs a list of 1 to 1048576 taps, got an empty one",
                    "give the taps",
                )),
                false => Ok(taps),
            };
        }
        match (windowed, equiripple) {
            (true, false) => self.design_windowed(rate),
            (false, true) => self.design_equiripple(rate),
            (true, true) => {
                let legal = "left out where band= is given";
                Err(parameter_error("fir", "edges_hz", &self.edges_hz, legal))
            }
            (false, false) if self.taps.is_null() => Err(needs(
                "needs taps=, a list, or a number with band= and cutoff_hz=, or with edges_hz= and gains=",
                "give it",
            )),
            (false, false) => {
                let legal =
                    "a list, or a number with band= and cutoff_hz=, or with edges_hz= and gains=";
                Err(parameter_error("fir", "taps", &self.taps, legal))
            }
        }
    }

    fn tap_count(&self) -> Result<Option<usize>, PlanError> {
        match &self.taps {
            Value::Null => Ok(None),
            value => match value.as_u64().and_then(|count| usize::try_from(count).ok()) {
                Some(count) => Ok(Some(count)),
                None => Err(parameter_error(
                    "fir",
                    "taps",
                    value,
                    "a whole number, or a list of taps",
                )),
            },
        }
    }

    fn design_windowed(&self, rate: f64) -> Result<Vec<f64>, PlanError> {
        let Some(name) = &self.band else {
            return Err(needs("with cutoff_hz= needs band=", "give it"));
        };
        let band: Band = band("fir", name, &self.cutoff_hz)?;
        let kaiser = self.window == "kaiser";
        let only_kaiser = [
            ("attenuation_db", self.attenuation_db),
            ("width_hz", self.width_hz),
        ];
        for (parameter, value) in only_kaiser {
            if let (Some(value), false) = (value, kaiser) {
                return Err(parameter_error(
                    "fir",
                    parameter,
                    &value,
                    "left out unless window=\"kaiser\"",
                ));
            }
        }
        let (count, window) = if kaiser {
            let Some(attenuation) = self.attenuation_db else {
                let what = "with window=\"kaiser\" needs attenuation_db=";
                return Err(needs(what, "give it"));
            };
            let count = match (self.tap_count()?, self.width_hz) {
                (Some(count), None) => count,
                (None, Some(width)) => kaiser_taps("fir", attenuation, width, rate)?,
                _ => {
                    let what = "with window=\"kaiser\" takes taps= or width_hz=";
                    return Err(needs(what, "give one of them"));
                }
            };
            let beta = kaiser_beta(attenuation);
            (count, FirWindow::Kaiser { beta })
        } else {
            let Some(count) = self.tap_count()? else {
                return Err(needs("needs taps=, their number", "give it"));
            };
            let window = match self.window.as_str() {
                "hann" => FirWindow::Hann,
                "blackman" => FirWindow::Blackman,
                "boxcar" => FirWindow::Boxcar,
                _ => FirWindow::Hamming,
            };
            (count, window)
        };
        Ok(fir_window("fir", count, band, window, rate)?)
    }

    fn design_equiripple(&self, rate: f64) -> Result<Vec<f64>, PlanError> {
        let Some(count) = self.tap_count()? else {
            return Err(needs("needs taps=, their number", "give it"));
        };
        let (edges, gains) = (numbers(&self.edges_hz), numbers(&self.gains));
        if gains.is_empty() || edges.len() != 2 * gains.len() {
            let legal = format!("two numbers for each of the {} gains", gains.len());
            return Err(parameter_error("fir", "edges_hz", &self.edges_hz, legal));
        }
        let weights = match &self.weights {
            Value::Null => vec![1.0; gains.len()],
            weights => numbers(weights),
        };
        if weights.len() != gains.len() {
            let legal = format!("{} numbers, one for each gain", gains.len());
            return Err(parameter_error("fir", "weights", &self.weights, legal));
        }
        let bands = edges.chunks_exact(2).zip(gains.iter().zip(&weights));
        let bands: Vec<FirBand> = bands
            .map(|(edges, (&gain, &weight))| FirBand {
                from_hz: edges[0],
                to_hz: edges[1],
                gain,
                weight,
            })
            .collect();
        Ok(remez("fir", count, &bands, rate)?)
    }

    /// Group delay in samples, if whole and the same for all frequencies.
    fn centre_delay(&self, taps: &[f64]) -> Result<usize, PlanError> {
        let mirrored = taps.iter().zip(taps.iter().rev());
        let even = mirrored.clone().all(|(tap, other)| tap == other);
        let odd = mirrored.clone().all(|(tap, other)| *tap == -*other);
        if taps.len().is_multiple_of(2) || !(even || odd) {
            let got = format!(
                "{} taps{}",
                taps.len(),
                if even || odd { "" } else { ", not symmetric" }
            );
            let legal = "an odd number, symmetric or antisymmetric, for delay=\"centred\"";
            return Err(parameter_error("fir", "taps", &got, legal));
        }
        Ok(taps.len() / 2)
    }
}

impl Operator for Fir {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = SampleInput::of("fir", &inputs[0])?;
        let taps = self.design_taps(input.rate)?;
        let method = match self.method.as_str() {
            "direct" => FirMethod::Direct,
            "fft" => FirMethod::Fft,
            _ => FirMethod::Auto,
        };
        let count = taps.len();
        let parts = if input.complex { 2 } else { 1 };
        let bytes = parts
            * match input.single {
                true => Kernel::<f32>::bytes(count, method),
                false => Kernel::<f64>::bytes(count, method),
            };
        let each = bytes.div_ceil(count.max(1) as u64);
        let workspace = Workspace::check("fir", "taps", count as u64, each)?;
        // Only in the samples' precision: tables of many taps are large.
        let (kernels, latency) = match input.single {
            true => {
                let kernel = Kernel::<f32>::new("fir", &taps, method)?;
                let latency = kernel.latency();
                (input.single_kernels(kernel), latency)
            }
            false => {
                let kernel = Kernel::<f64>::new("fir", &taps, method)?;
                let latency = kernel.latency();
                (input.double_kernels(kernel), latency)
            }
        };
        let context = taps.len() as u64 - 1;
        let latency = latency as u64;
        let (after, skip) = if self.delay == "centred" {
            (self.centre_delay(&taps)? as u64, context)
        } else {
            (0, 0)
        };
        let results = ResultProperties {
            unit: input.unit().into(),
            lag: latency + after,
            skip: latency + skip,
            held: latency,
        };
        let properties = self.filter.bind("fir", &input, kernels, results)?;
        // Many taps are applied by Fourier transforms.
        let cost_ns = (0.05 * taps.len() as f64).clamp(2.0, 5.0);
        let properties = properties.workspace(workspace).cost_ns(cost_ns);
        Ok(properties.contract(if latency > 0 {
            // The last bits depend on where blocks begin.
            Contract::Settling {
                before: context + latency,
                rel_err: ROUNDING_ERROR,
            }
        } else {
            Contract::Overlap {
                before: context - after,
                after,
            }
        }))
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.filter.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, out: &mut Out<'_>) -> Result<(), OpError> {
        self.filter.flush(out)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        self.filter.flush(out)
    }

    fn progress(&mut self, _: Port, upto: i64) -> i64 {
        self.filter.progress(upto)
    }
}
