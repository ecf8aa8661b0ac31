//! Operators that turn counts into physical values, and units by name.

pub(crate) mod calibrate;
mod units;

register! {
    calibrate: Calibrate, ToUnit;
}
