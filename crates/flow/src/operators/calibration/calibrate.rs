//! Operators that change only the calibration of samples.

use isochrony_segment::{Calibration, StreamId};

use super::units::{conversion, parse_unit};
use crate::operator;
use crate::operators::wrong_input;
use crate::{
    Inputs, Item, Next, OpError, OpErrorKind, Operator, OperatorProperties, Out, PlanError, Port,
    PortType, json,
};

operator! {
    /// Sets the calibration of samples: values become `value * gain + offset`, in a unit.
    ///
    /// # Inputs
    /// Samples of any type, shape (n,).
    ///
    /// # Returns
    /// The same samples, shape (n,), of the same dtype, with another scale, offset and unit. No edges, no delay.
    ///
    /// # Conventions
    /// Nothing is computed or rounded here: samples keep their dtype, and a stored signal has them with their
    /// calibration. Operators, `collect` and files of columns have values in the new unit.
    ///
    /// # Errors
    /// The input is not samples; a gain of 0, or one by which a count is not a finite number of units.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> volts = iso.scan(np.array([0, 100, 200], "i2"), rate=100).calibrate(0.01, unit="V")
    /// >>> volts.calibrate(250, -50, "kPa").collect()
    /// array([-50., 200., 450.])
    /// >>> volts.calibrate(2, unit="m", counts=True).collect()
    /// array([  0., 200., 400.])
    /// ```
    pub struct Calibrate = "calibrate" (Inputs::Exactly(1)) {
        /// Factor by which values are multiplied; not 0.
        gain: f64 = "number" { default: || json!(1.0), positional: true },
        /// Added after that, in the new unit.
        offset: f64 = "number" { default: || json!(0.0), positional: true },
        /// Unit of the result. Left out: the unit stays as it is.
        unit: Option<String> = "text" { unit: Of("the name of a unit"), default: || json!(null), positional: true },
        /// Start from the samples as stored, whatever calibration they have.
        counts: bool = "bool" { default: || json!(false) },
    }
    state {
        stream: Option<StreamId>,
    }
}

operator! {
    /// Converts values to another unit of the same quantity, such as kPa to mH2O.
    ///
    /// # Inputs
    /// Samples in a known unit, shape (n,).
    ///
    /// # Returns
    /// The same samples, shape (n,), of the same dtype, with the calibration of the new unit. No edges, no delay.
    ///
    /// # Conventions
    /// As for `calibrate`, nothing is computed or rounded. A unit is a product of names with powers, such as `m/s`, `m
    /// s-2`, `mm/s^2` or `mV/Pa`: SI units with prefixes from f to P, and bar, atm, psi, mmHg, mH2O, g0 (standard
    /// gravity), min, h, d, L, deg, rpm, degC, degF, in, ft, %, ppm, counts.
    ///
    /// # Errors
    /// The input is not samples; a unit that is not known; two units that measure different quantities.
    ///
    /// # Example
    /// ```python
    /// >>> import numpy as np, isochrony as iso
    /// >>> cold = iso.scan(np.array([-10.0, 0.0]), rate=1, unit="degC")
    /// >>> cold.to_unit("degF").collect().round(9)
    /// array([14., 32.])
    /// ```
    pub struct ToUnit = "to_unit" (Inputs::Exactly(1)) {
        /// Unit to convert to.
        unit: String = "text" { unit: Of("the name of a unit") },
    }
    state {
        stream: Option<StreamId>,
    }
}

/// Port type of values, or counts if `counts`, times `gain`, plus `offset`.
fn bind_calibrated(
    operator: &'static str,
    port: &PortType,
    (gain, offset): (f64, f64),
    unit: &str,
    counts: bool,
) -> Result<(OperatorProperties, StreamId), PlanError> {
    let &PortType::Samples { dtype, stream } = port else {
        let mend = port.samples_remedy();
        return Err(wrong_input(operator, "samples", port, mend));
    };
    let none = Calibration::default();
    let own = match counts {
        true => &none,
        false => &stream.get().calibration,
    };
    let calibration = Calibration::new(own.scale() * gain, own.offset() * gain + offset, unit);
    let calibration = calibration.map_err(|_| PlanError::Parameter {
        operator,
        parameter: "gain",
        got: gain.to_string(),
        legal: "finite and not 0, so that each count has a finite value".into(),
    })?;
    let stream = stream.get().clone().with_calibration(calibration).intern();
    let properties = OperatorProperties::new([PortType::Samples { dtype, stream }]).in_step();
    Ok((properties, stream))
}

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
        let (properties, stream) = bind_calibrated(
            "calibrate",
            &inputs[0],
            (self.gain, self.offset),
            unit,
            self.counts,
        )?;
        self.stream = Some(stream);
        Ok(properties.cost_ns(0.0))
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
        let parameter_error = |legal: String| PlanError::Parameter {
            operator: "to_unit",
            parameter: "unit",
            got: format!("{:?}", self.unit),
            legal,
        };
        let from = parse_unit(own).ok_or_else(|| {
            parameter_error(format!("used only on samples of a known unit, and {own:?} is not one: state theirs with calibrate(gain=, unit=)"))
        })?;
        let to = parse_unit(&self.unit).ok_or_else(|| {
            parameter_error(
                "a known unit: a product of names with powers, such as m/s, m s-2, kPa or degC"
                    .into(),
            )
        })?;
        let by = conversion(&from, &to);
        let by = by.ok_or_else(|| {
            parameter_error(format!("a unit of the quantity that {own:?} measures"))
        })?;
        let (properties, stream) = bind_calibrated("to_unit", &inputs[0], by, &self.unit, false)?;
        self.stream = Some(stream);
        Ok(properties)
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        relabel(self.stream, item)
    }
}
