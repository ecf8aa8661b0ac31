//! Pickles segments by value.

use isochrony_segment::{Calibration, SigSeg, Stream};
use isochrony_time::TimebaseId;
use pyo3::prelude::*;

use crate::errors::Result;
use crate::memory;
use crate::signal::segment::{Segment, counts};
use crate::time::{RateArg, Time, rate_object};

type StreamFields<R> = (String, u32, R, String, f64, f64);
/// NumPy pickles the samples, without a copy if the protocol allows.
type PickledSegment<'py> = (
    Bound<'py, PyAny>,
    i64,
    StreamFields<Bound<'py, PyAny>>,
    Option<Time>,
);

#[pymethods]
impl Segment {
    fn __reduce__<'py>(&self, py: Python<'py>) -> Result<(Bound<'py, PyAny>, PickledSegment<'py>)> {
        let stream = self.seg.stream();
        let calibration = &stream.calibration;
        // Timebases of no store are local to a process.
        let timebase = match stream.timebase.is_process_local() {
            true => TimebaseId::CIVIL,
            false => stream.timebase,
        };
        let fields = (
            stream.name.clone(),
            timebase.0,
            rate_object(py, stream.rate)?,
            calibration.unit().to_owned(),
            calibration.scale(),
            calibration.offset(),
        );
        let samples = counts(py, &self.seg)?;
        let make = py
            .import("isochrony._native")?
            .getattr("_unpickled_segment")?;
        Ok((make, (samples, self.seg.start(), fields, self.time)))
    }
}

#[pyfunction]
#[pyo3(signature = (samples, start, stream, time))]
pub(crate) fn _unpickled_segment(
    samples: &Bound<'_, PyAny>,
    start: i64,
    stream: StreamFields<RateArg>,
    time: Option<Bound<'_, Time>>,
) -> Result<Segment> {
    let (buffer, dtype) = memory::adopt(samples, false)?;
    let (name, timebase, rate, unit, scale, offset) = stream;
    let stream = Stream::new(name, TimebaseId(timebase), rate.0)
        .with_calibration(Calibration::new(scale, offset, unit)?)
        .intern();
    let seg = SigSeg::new(buffer, start, dtype, stream)?;
    let time = time.map(|time| *time.get());
    Ok(Segment { seg, time })
}
