//! Options of a new signal; dtype and duration arguments.

use isochrony_store::{CreateOptions, SampleFormat};
use pyo3::prelude::*;

use crate::errors::Result;
use crate::time::{RateArg, TimeArg, duration_arg};

pub(crate) struct SignalOptions<'py> {
    pub(crate) dtype: Bound<'py, PyAny>,
    pub(crate) rate: RateArg,
    pub(crate) unit: String,
    pub(crate) start: Option<TimeArg>,
    pub(crate) scale: Option<f64>,
    pub(crate) offset: Option<f64>,
    pub(crate) alpha: Option<f64>,
    pub(crate) gap_slip: Option<Bound<'py, PyAny>>,
    pub(crate) max_gap: Option<Bound<'py, PyAny>>,
    pub(crate) attrs: Option<Bound<'py, PyAny>>,
    pub(crate) overwrite: bool,
}

/// NumPy dtype, scalar type or text.
pub(crate) fn dtype_text(object: &Bound<'_, PyAny>) -> Result<String> {
    Ok(match object.extract::<String>() {
        Ok(text) => text,
        Err(_) => object
            .py()
            .import("isochrony.options")?
            .call_method1("sample_dtype", (object,))?
            .getattr("str")?
            .extract()?,
    })
}

pub(crate) fn whole_ns(object: &Bound<'_, PyAny>) -> Result<i64> {
    let ns = duration_arg(object)?.round_i64();
    Ok(ns.ok_or(isochrony_time::TimeError::Overflow { what: "duration" })?)
}

impl SignalOptions<'_> {
    pub(crate) fn options(self, name: &str) -> Result<CreateOptions> {
        let mut options = CreateOptions::new(
            SampleFormat::parse(&dtype_text(&self.dtype)?)?.0,
            self.rate.0,
        );
        options.unit = self.unit;
        if self.scale.is_some() || self.offset.is_some() {
            options.calibration = Some((self.scale.unwrap_or(1.0), self.offset.unwrap_or(0.0)));
        }
        options.start = self.start.map(|start| start.0.value);
        if let Some(alpha) = self.alpha {
            options.alpha = alpha;
        }
        options.gap_slip_ns = self.gap_slip.as_ref().map(whole_ns).transpose()?;
        if let Some(max_gap) = &self.max_gap {
            options.max_gap_ns = whole_ns(max_gap)?;
        }
        if let Some(attrs) = &self.attrs {
            options.attributes = crate::json::object(name, attrs)?;
        }
        options.overwrite = self.overwrite;
        Ok(options)
    }
}
