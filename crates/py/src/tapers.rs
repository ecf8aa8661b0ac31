//! Factors of tapers.

use isochrony_dsp::DspError;
use isochrony_dsp::window::Taper;
use isochrony_segment::has_free_memory;
use pyo3::prelude::*;

use crate::errors::{PackageError, Result};

fn refused(error: &DspError) -> crate::errors::Error {
    PackageError::new("OptionError", error.code(), error.to_string()).into()
}

/// Each factor takes a Python object and an array element.
fn room_for(width: usize) -> Result<()> {
    const BYTES_EACH: u64 = 64;
    let bytes = (width as u64).checked_mul(BYTES_EACH);
    if bytes.is_some_and(has_free_memory) {
        return Ok(());
    }
    let message = format!(
        "a taper of {width} samples needs {BYTES_EACH} bytes for each, but only {} bytes are free; give a smaller width",
        isochrony_segment::free_memory()
    );
    Err(PackageError::new("OptionError", "bad_option", message).into())
}

/// Factors of a taper in its saved form.
#[pyfunction]
pub(crate) fn taper_factors(taper: &str, width: usize, symmetric: bool) -> Result<Vec<f64>> {
    let taper: Taper = taper.parse().map_err(|error| refused(&error))?;
    room_for(width)?;
    Ok(if symmetric {
        taper.symmetric(width)
    } else {
        taper.periodic(width)
    })
}

/// Whether windows with these factors, at distance `hop`, sum to a constant.
#[pyfunction]
#[allow(clippy::needless_pass_by_value)] // As Python gives them.
pub(crate) fn adds_up(factors: Vec<f64>, hop: usize, tolerance: f64) -> Result<bool> {
    isochrony_dsp::window::adds_up(&factors, hop, tolerance).map_err(|error| refused(&error))
}
