//! Segments: shared, contiguous views of regularly sampled signals.
//!
//! A [`SigSeg`] is a short list of reference-counted [`Buffer`]s with a start index, a length, a [`DType`] and an
//! interned [`StreamId`]. Slicing, joining and cloning copy no samples; with one buffer, they do not allocate.
//!
//! Invariants:
//! - a segment has no gaps: its samples have the indices `start..start + len`;
//! - its buffers have exactly `len * dtype.size()` bytes, each of whole samples in native byte order;
//! - bytes in a shared buffer never change: writes copy them;
//! - every byte pattern is a valid sample (a bool is a [`Bool8`]).
//!
//! ```
//! use isochrony_segment::{Calibration, SigSeg, Stream};
//! use isochrony_time::{Rate, TimebaseId};
//!
//! let stream = Stream::new("stn_10/pressure", TimebaseId(0), Rate::new(2000, 1)?)
//!     .with_calibration(Calibration::new(0.5, 1.0, "kPa")?)
//!     .intern();
//! let mut seg = SigSeg::from_slice(&[10i16, 20, 30], 100, stream)?;
//! seg.append(SigSeg::from_slice(&[40i16], 103, stream)?)?;
//! assert_eq!(seg.range(), 100..104);
//! assert_eq!(seg.subseg(102..104)?.to_vec::<i16>()?, [30, 40]);
//! assert_eq!(seg.to_physical()?.to_vec::<f64>()?, [6.0, 11.0, 16.0, 21.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod access;
mod buffer;
mod calibration;
mod copy_pool;
mod dtype;
mod dtype_serde;
mod error;
mod free_memory;
mod sample;
mod sigseg;
mod stream;

pub use access::Slices;
pub use buffer::{ALIGNMENT, Buffer, BufferKind, BufferMut, Owner};
pub use calibration::Calibration;
pub use copy_pool::CopyPool;
pub use dtype::{ByteOrder, DType};
pub use error::SegmentError;
pub use free_memory::has_free_memory;
pub use isochrony_system::memory::{free_memory, give_pages_back, prefer_large_pages};
pub use num_complex::{Complex, Complex32, Complex64};
pub use sample::{Bool8, Sample};
pub use sigseg::{Buffers, SigSeg};
pub use stream::{Stream, StreamId};
