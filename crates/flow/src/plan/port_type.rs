//! Port types: kind of item, dtype, window, stream.

use std::fmt;

use isochrony_segment::{DType, Stream, StreamId};
use isochrony_time::Rate;

use crate::Fields;

/// Item type of a port. The stream has rate, unit and timebase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PortType {
    /// Segments of samples.
    Samples {
        /// Sample type.
        dtype: DType,
        /// Name, timebase, rate, calibration.
        stream: StreamId,
    },
    /// Blocks of windows.
    Frames {
        /// Value type.
        dtype: DType,
        /// Name, timebase and rate of the windows' samples; calibration of the values.
        stream: StreamId,
        /// Samples per window.
        window: u64,
        /// Samples between window starts.
        hop: u64,
        /// Values per row; `window` for the samples themselves.
        width: usize,
    },
    /// Index ranges.
    Ranges {
        /// Stream of the indices.
        stream: StreamId,
    },
    /// Rows with named fields.
    Rows {
        /// Field names and types.
        fields: Fields,
        /// None for groups, which have no indices.
        stream: Option<StreamId>,
    },
    /// One number at the end.
    Count,
}

impl PortType {
    /// The stream; None for a count and for groups.
    #[must_use]
    pub fn stream(&self) -> Option<&'static Stream> {
        self.stream_id().map(StreamId::get)
    }

    /// The stream's id; None for a count and for groups.
    #[must_use]
    pub fn stream_id(&self) -> Option<StreamId> {
        match *self {
            Self::Samples { stream, .. }
            | Self::Frames { stream, .. }
            | Self::Ranges { stream } => Some(stream),
            Self::Rows { stream, .. } => stream,
            Self::Count => None,
        }
    }

    /// Where an operator that needs samples belongs, for errors: before the step that made these items.
    #[doc(hidden)]
    #[must_use]
    pub const fn samples_remedy(&self) -> &'static str {
        match self {
            Self::Samples { .. } => "correct its input",
            Self::Frames { .. } => "put it before rewindow(...)",
            Self::Ranges { .. } => {
                "put it before the step that makes ranges, such as triggers(...) or ranges(...)"
            }
            Self::Rows { .. } => {
                "put it before the step that makes rows, such as rows(...) or stats(...)"
            }
            Self::Count => "put it before count()",
        }
    }

    /// Sample or value type.
    #[must_use]
    pub fn dtype(&self) -> Option<DType> {
        match *self {
            Self::Samples { dtype, .. } | Self::Frames { dtype, .. } => Some(dtype),
            Self::Ranges { .. } | Self::Rows { .. } | Self::Count => None,
        }
    }

    /// Sample rate.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        self.stream().map(|stream| stream.rate)
    }

    /// Item kind, for errors.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Samples { .. } => "samples",
            Self::Frames { .. } => "frames",
            Self::Ranges { .. } => "ranges",
            Self::Rows { .. } => "rows",
            Self::Count => "count",
        }
    }
}

impl fmt::Display for PortType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Samples { dtype, .. } => write!(f, "samples[{dtype}]")?,
            Self::Frames {
                dtype,
                window,
                hop,
                width,
                ..
            } => {
                write!(f, "frames[{dtype}, window {window}")?;
                if hop != window {
                    write!(f, ", hop {hop}")?;
                }
                if *width as u64 != *window {
                    write!(f, ", width {width}")?;
                }
                write!(f, "]")?;
            }
            Self::Ranges { .. } => write!(f, "ranges")?,
            Self::Rows { fields, .. } => write!(f, "rows[{fields}]")?,
            Self::Count => return write!(f, "count"),
        }
        if let Some(stream) = self.stream() {
            write!(f, " of {} at {} Hz", stream.name, stream.rate)?;
            if !stream.calibration.unit().is_empty() {
                write!(f, " in {}", stream.calibration.unit())?;
            }
        }
        Ok(())
    }
}
