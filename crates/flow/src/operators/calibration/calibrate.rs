//! Counts that mean something else: another calibration of the same samples.

use isochrony_segment::{Calibration, StreamId};

use super::units::{conversion, unit};
use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, json,
};

operator! {
    /// Says what samples mean: values become `value * gain + offset`, in a unit. The samples stay as they are.
    ///
    /// No pass over them and nothing is rounded: counts stay counts, and scale and offset of their calibration change.
    /// Whatever computes, sees values; `collect` and a kept signal have the counts, the signal with its calibration.
    pub struct Calibrate = "calibrate" (Inputs::Exactly(1)) {
        /// What values are multiplied by; not 0.
        gain: f64 = "number" { default: || json!(1.0) },
        /// What is added then, in the new unit.
        offset: f64 = "number" { default: || json!(0.0) },
        /// The unit of the result; left out: as it was.
        unit: Option<String> = "text" { default: || json!(null) },
    }
    state {
        stream: Option<StreamId>,
    }
}

operator! {
    /// The same values in another unit, as `"kPa"` to `"mH2O"`: another calibration, as by `calibrate`.
    ///
    /// Units are products of SI units, their prefixes and some others (`m/s`, `m s-2`, `mm/s^2`, `degC`, `bar`, `psi`, `g0`,
    /// `deg`, `rpm`); one that is not known, or measures something else, is an error.
    pub struct ToUnit = "to_unit" (Inputs::Exactly(1)) {
        /// The unit to convert to.
        unit: String = "text" {},
    }
    state {
        stream: Option<StreamId>,
    }
}

/// The samples of a port with their values times `gain`, plus `offset`.
fn calibrated(
    operator: &'static str,
    port: &PortType,
    (gain, offset): (f64, f64),
    unit: &str,
) -> Result<(OperatorProperties, StreamId), PlanError> {
    let &PortType::Samples { dtype, stream } = port else {
        let mend = "put it before rewindow(...)";
        return Err(wrong_input(operator, "samples", port, mend));
    };
    let own = &stream.get().calibration;
    let made = Calibration::new(own.scale() * gain, own.offset() * gain + offset, unit);
    let made = made.map_err(|_| PlanError::Parameter {
        operator,
        parameter: "gain",
        got: gain.to_string(),
        legal: "such that a count is a finite number of units other than 0".into(),
    })?;
    let stream = stream.get().clone().with_calibration(made).intern();
    let bound = OperatorProperties::new([PortType::Samples { dtype, stream }]).in_step();
    Ok((bound, stream))
}

/// The item's samples as those of another stream.
fn relabel(stream: Option<StreamId>, item: &mut Item) -> Result<Next, OpError> {
    match (item.take(), stream) {
        (Item::Samples(samples), Some(stream)) => {
            let start = samples.start();
            *item = samples.relabelled(start, stream)?.into();
            Ok(Next::Forward)
        }
        (other, _) => Err(OpErrorKind::WrongItem {
            expected: "samples",
            got: other.kind(),
        }
        .into()),
    }
}

impl Operator for Calibrate {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let own = inputs[0]
            .stream()
            .map_or("", |stream| stream.calibration.unit());
        let unit = self.unit.as_deref().unwrap_or(own);
        let (bound, stream) = calibrated("calibrate", &inputs[0], (self.gain, self.offset), unit)?;
        self.stream = Some(stream);
        Ok(bound.light())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        relabel(self.stream, item)
    }
}

impl Operator for ToUnit {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let own = inputs[0]
            .stream()
            .map_or("", |stream| stream.calibration.unit());
        let refused = |legal: String| PlanError::Parameter {
            operator: "to_unit",
            parameter: "unit",
            got: format!("{:?}", self.unit),
            legal,
        };
        let from = unit(own).ok_or_else(|| {
            refused(format!("left to samples of a known unit, which {own:?} is not: calibrate(gain=, unit=) says what they are"))
        })?;
        let to = unit(&self.unit).ok_or_else(|| {
            refused("a known unit, a product of names with powers, as m/s, m s-2, kPa, degC".into())
        })?;
        let by = conversion(&from, &to);
        let by = by.ok_or_else(|| refused(format!("a unit of what {own:?} measures")))?;
        let (bound, stream) = calibrated("to_unit", &inputs[0], by, &self.unit)?;
        self.stream = Some(stream);
        Ok(bound)
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        relabel(self.stream, item)
    }
}
