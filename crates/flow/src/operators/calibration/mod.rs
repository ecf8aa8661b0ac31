//! Operators that turn counts into physical values, and the units that they know by name.

pub(crate) mod calibrate;
mod units;

register! {
    calibrate: Calibrate, ToUnit;
}
