//! Recursive filters.

use isochrony_dsp::filter::{self, Band, Family, Initial, Sections, SosFilter};
use isochrony_dsp::spectrum::Precision;
use serde_json::Value;

use super::sample_input::SampleInput;
use super::stream_processor::{ResultProperties, StreamKernel, StreamProcessor};
use crate::operator;
use crate::{
    Break, Contract, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, PlanError,
    Port, PortType, json,
};

operator! {
    /// Filters samples recursively: a Butterworth, Chebyshev or elliptic filter in second-order sections.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// Samples with their indices, shape (n,): float32 for float32, complex64 and complex128 by their parts, otherwise
    /// float64; the state is double precision. Edges: the filter starts again in each gap-free range, as `initial` says,
    /// and after windows that a filter removed. Delay: that of the filter, which depends on frequency; `zero_phase` has
    /// none.
    ///
    /// # Conventions
    /// The design is that of `scipy.signal.iirfilter(order, cutoff_hz, btype=band, ftype=kind, output="sos")`, the
    /// result that of `sosfilt`; "steady" starts from `sosfilt_zi` times the first sample. NaN and infinities make all
    /// that follows in their gap-free range NaN.
    ///
    /// # Errors
    /// `ripple_db` or `attenuation_db` missing for a kind that needs it, or given for another; another number of
    /// corners than the band has; a corner outside 0 Hz to half the rate; a filter that double precision cannot
    /// represent; input that is not samples.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> t = np.arange(2000) / 1000
    /// >>> signal = np.sin(2 * np.pi * 5 * t) + np.sin(2 * np.pi * 200 * t)
    /// >>> slow = iso.scan(signal, rate=1000).iir("ellip", "lowpass", 20, 6, ripple_db=0.1, attenuation_db=80)
    /// >>> fast = iso.scan(signal, rate=1000).highpass(100)
    /// >>> [round(float(np.std(plan.collect()[1000:])), 2) for plan in (slow, fast)]
    /// [0.71, 0.71]
    /// ```
    pub struct Iir = "iir" (Inputs::Exactly(1)) {
        /// Filter type: "butter" is flat, "cheby1" has ripple in the passband, "cheby2" in the stopband, "ellip" in
        /// both.
        kind: String = "text" { choices: &["butter", "cheby1", "cheby2", "ellip"], default: || json!("butter"), explicit: true },
        /// Passband type.
        band: String = "text" { choices: &["lowpass", "highpass", "bandpass", "bandstop"] },
        /// Corner frequency, or both corners of a band, between 0 and half the rate: where the gain is 1 / sqrt(2)
        /// ("butter"), `-ripple_db` ("cheby1", "ellip") or `-attenuation_db` ("cheby2").
        cutoff_hz: Value = "numbers" { unit: Hertz, above: 0.0 },
        /// Order of the lowpass prototype; a band filter has twice as many poles.
        order: usize = "integer" { unit: Of("poles"), range: (1.0, 32.0), default: || json!(4), positional: true },
        /// Passband ripple of "cheby1" and "ellip".
        ripple_db: Option<f64> = "number" { unit: Decibels, range: (1e-6, 600.0), default: || json!(null) },
        /// Stopband attenuation of "cheby2" and "ellip".
        attenuation_db: Option<f64> = "number" { unit: Decibels, range: (1e-6, 600.0), default: || json!(null) },
        /// State at the start of each gap-free range: zeros, or "steady", as if its first sample had lasted forever, so
        /// that a constant has no transient.
        initial: String = "text" { choices: &["zero", "steady"], default: || json!("zero") },
    }
    state {
        filter: StreamProcessor,
    }
}

/// Influence of the past below which a filter has settled.
const SETTLED_ERROR: f64 = 1e-9;

impl<T: Precision + Into<f64>> StreamKernel<T> for SosFilter {
    fn run(&mut self, values: &[T], results: &mut [T]) {
        // Fails only if lengths differ.
        let _ = self.process(values, results);
    }

    fn reset(&mut self) {
        SosFilter::reset(self);
    }
}

pub(super) fn bind(
    stream_processor: &mut StreamProcessor,
    operator: &'static str,
    input: &SampleInput,
    sections: &Sections,
    initial: &str,
) -> Result<OperatorProperties, PlanError> {
    let initial = if initial == "steady" {
        Initial::Steady
    } else {
        Initial::Zero
    };
    let filter = || SosFilter::new(sections, initial);
    let results = ResultProperties {
        unit: input.unit().into(),
        ..ResultProperties::default()
    };
    let properties =
        stream_processor.bind(operator, input, input.kernels(filter, filter), results)?;
    Ok(properties.contract(Contract::Settling {
        before: sections.settling(SETTLED_ERROR),
        rel_err: SETTLED_ERROR,
    }))
}

pub(super) fn parameter_error(
    operator: &'static str,
    parameter: &'static str,
    got: &impl ToString,
    legal: impl Into<String>,
) -> PlanError {
    PlanError::Parameter {
        operator,
        parameter,
        got: got.to_string(),
        legal: legal.into(),
    }
}

/// A parameter may be one number or a list.
pub(super) fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(list) => list.iter().filter_map(Value::as_f64).collect(),
        one => one.as_f64().into_iter().collect(),
    }
}

/// Requires exactly the ripple and attenuation that the family needs.
pub(super) fn family(
    operator: &'static str,
    kind: &str,
    ripple_db: Option<f64>,
    attenuation_db: Option<f64>,
) -> Result<Family, PlanError> {
    let checked = |parameter, value: Option<f64>, takes: bool| match (value, takes) {
        (Some(value), false) => {
            let legal = format!("left out for kind={kind:?}");
            Err(parameter_error(operator, parameter, &value, legal))
        }
        (None, true) => Err(PlanError::NeedsParameter {
            operator,
            needs: format!("with kind={kind:?} needs {parameter}="),
            mend: "give it",
        }),
        (value, _) => Ok(value.unwrap_or_default()),
    };
    let ripple_db = checked("ripple_db", ripple_db, matches!(kind, "cheby1" | "ellip"))?;
    let stops = matches!(kind, "cheby2" | "ellip");
    let attenuation_db = checked("attenuation_db", attenuation_db, stops)?;
    Ok(match kind {
        "cheby1" => Family::Chebyshev1 { ripple_db },
        "cheby2" => Family::Chebyshev2 { attenuation_db },
        "ellip" => Family::Elliptic {
            ripple_db,
            attenuation_db,
        },
        _ => Family::Butterworth,
    })
}

pub(super) fn band(
    operator: &'static str,
    name: &str,
    cutoff_hz: &Value,
) -> Result<Band, PlanError> {
    let corners = numbers(cutoff_hz);
    match (name, &corners[..]) {
        ("lowpass", &[corner]) => Ok(Band::Lowpass(corner)),
        ("highpass", &[corner]) => Ok(Band::Highpass(corner)),
        ("bandpass", &[low, high]) => Ok(Band::Bandpass(low, high)),
        ("bandstop", &[low, high]) => Ok(Band::Bandstop(low, high)),
        (_, []) => Err(PlanError::NeedsParameter {
            operator,
            needs: format!("with band={name:?} needs cutoff_hz="),
            mend: "give it",
        }),
        _ => {
            let one = matches!(name, "lowpass" | "highpass");
            let many = if one {
                "one frequency"
            } else {
                "two frequencies"
            };
            let legal = format!("{many} in Hz for band={name:?}");
            Err(parameter_error(operator, "cutoff_hz", cutoff_hz, legal))
        }
    }
}

impl Operator for Iir {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let input = SampleInput::of("iir", &inputs[0])?;
        let design = filter::Iir {
            family: family("iir", &self.kind, self.ripple_db, self.attenuation_db)?,
            band: band("iir", &self.band, &self.cutoff_hz)?,
            order: self.order,
        };
        let sections = design.design("iir", input.rate)?;
        bind(&mut self.filter, "iir", &input, &sections, &self.initial)
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        self.filter.process(item, out)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.filter.reset();
        Ok(())
    }
}
