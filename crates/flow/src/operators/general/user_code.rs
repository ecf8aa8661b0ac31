//! Functions for operators of user code.

use isochrony_segment::{Bool8, Buffer, DType, Sample, dispatch};

use crate::{Frames, Next, OpError, Out};

/// Forwards windows with true flags, runs of them by reference. Returns the operator's answer; `item` must still be
/// `frames`.
///
/// # Errors
/// Any error of a later operator.
pub fn forward_where(frames: &Frames, flags: &[Bool8], out: &mut Out<'_>) -> Result<Next, OpError> {
    let count = (frames.count() as usize).min(flags.len());
    let passes = |k: usize| bool::from(flags[k]);
    let mut at = 0;
    while at < count {
        let Some(from) = (at..count).find(|&k| passes(k)) else {
            break;
        };
        at = (from..count).find(|&k| !passes(k)).unwrap_or(count);
        if at - from == frames.count() as usize {
            return Ok(Next::Forward);
        }
        if let Some(run) = frames.sub(from as u64..at as u64) {
            out.emit(0, &mut run.into())?;
        }
    }
    Ok(Next::Consumed)
}

/// Type of values in the unit: float64 or complex128 if calibrated, else that of the samples.
#[must_use]
pub fn dtype_in_unit(dtype: DType, stream: isochrony_segment::StreamId) -> DType {
    if stream.get().calibration.is_identity() {
        return dtype;
    }
    dispatch!(dtype, T => <<T as Sample>::Physical as Sample>::DTYPE)
}

/// Values in the unit: unchanged if not calibrated, else in new memory.
///
/// # Errors
/// [`MemoryCap`](crate::OpErrorKind::MemoryCap).
pub fn in_unit(
    values: &Buffer,
    dtype: DType,
    stream: isochrony_segment::StreamId,
    out: &mut Out<'_>,
) -> Result<(Buffer, DType), OpError> {
    let calibration = &stream.get().calibration;
    if calibration.is_identity() {
        return Ok((values.clone(), dtype));
    }
    dispatch!(dtype, T => {
        let physical = <<T as Sample>::Physical as Sample>::DTYPE;
        let counts = values.samples::<T>().unwrap_or_default();
        let mut block = out.alloc(physical, counts.len())?;
        calibration.apply(counts, block.samples_mut());
        Ok((out.seal(block), physical))
    })
}
