//! Checks the calibration of appended samples.

use isochrony_segment::Calibration;
use isochrony_store::Signal;

use crate::{Cause, OpError, OpErrorKind};

/// An unstated one fits any.
pub(super) fn check_calibration(signal: &Signal, stated: &Calibration) -> Result<(), OpError> {
    let unstated = Calibration::default();
    let own = signal.calibration();
    if own == stated || *own == unstated || *stated == unstated {
        return Ok(());
    }
    let describe = |one: &Calibration| match (one.is_identity(), one.unit()) {
        (true, unit) => format!("unit {unit:?}"),
        (false, unit) => format!(
            "unit {unit:?}, scale {} and offset {}",
            one.scale(),
            one.offset()
        ),
    };
    Err(refused(format!(
        "{:?} has {}, but the new samples have {}; choose another name",
        signal.name(),
        describe(own),
        describe(stated)
    )))
}

pub(super) fn refused(why: String) -> OpError {
    OpErrorKind::Failed(Cause::from(why)).into()
}
