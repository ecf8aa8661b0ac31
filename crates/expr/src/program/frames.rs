//! Windows over contiguous samples.

use isochrony_segment::{DType, Sample};

use crate::ExprError;

/// `count` windows of `window` samples, one every `hop`; they may overlap or skip samples.
#[derive(Debug, Clone, Copy)]
pub struct Frames<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) dtype: DType,
    pub(crate) window: usize,
    pub(crate) hop: usize,
    pub(crate) count: usize,
}

impl<'a> Frames<'a> {
    /// All whole windows.
    ///
    /// # Errors
    /// [`ExprError::FramesOutOfBounds`] if window or hop is zero.
    pub fn new<T: Sample>(samples: &'a [T], window: usize, hop: usize) -> Result<Self, ExprError> {
        let count = match samples.len().checked_sub(window) {
            Some(rest) if hop > 0 => rest / hop + 1,
            _ => 0,
        };
        Self::from_bytes(bytemuck::cast_slice(samples), T::DTYPE, window, hop, count)
    }

    /// All samples as one window, for expressions without reductions.
    #[must_use]
    pub fn stretch<T: Sample>(samples: &'a [T]) -> Self {
        Self {
            bytes: bytemuck::cast_slice(samples),
            dtype: T::DTYPE,
            window: samples.len(),
            hop: samples.len(),
            count: usize::from(!samples.is_empty()),
        }
    }

    /// Windows over bytes of samples in native order.
    ///
    /// # Errors
    /// [`ExprError::FramesOutOfBounds`] if window or hop is zero or the last window ends outside,
    /// [`ExprError::Misaligned`] if the bytes are not aligned for the dtype.
    pub fn from_bytes(
        bytes: &'a [u8],
        dtype: DType,
        window: usize,
        hop: usize,
        count: usize,
    ) -> Result<Self, ExprError> {
        let samples = bytes.len() / dtype.size();
        let end = match count.checked_sub(1) {
            None => Some(0),
            Some(before) => before
                .checked_mul(hop)
                .and_then(|start| start.checked_add(window)),
        };
        if window == 0 || hop == 0 || end.is_none_or(|end| end > samples) {
            return Err(ExprError::FramesOutOfBounds {
                window,
                hop,
                count,
                samples,
            });
        }
        if !bytes.as_ptr().addr().is_multiple_of(dtype.align()) {
            return Err(ExprError::Misaligned {
                what: "samples",
                dtype,
            });
        }
        Ok(Self {
            bytes,
            dtype,
            window,
            hop,
            count,
        })
    }

    pub(crate) fn bytes_of(&self, window: usize) -> &'a [u8] {
        let size = self.dtype.size();
        &self.bytes[window * self.hop * size..][..self.window * size]
    }

    /// Number of windows.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Samples in a window.
    #[must_use]
    pub fn window(&self) -> usize {
        self.window
    }
}
