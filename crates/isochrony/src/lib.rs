//! Isochrony for Rust: one crate to depend on, one [`prelude`] to import.
//!
//! A [`Store`] is a folder of signals that any Zarr v3 reader opens. A [`Signal`] knows its gaps and its relation to
//! civil time exactly; a [`Selection`] of it is lazy and gives gap-free, zero-copy [`SigSeg`]ments; [`scan`] computes
//! over them. [`import_raw`] brings a folder of recordings in.
//!
//! ```
//! use isochrony::prelude::*;
//!
//! let folder = tempfile::tempdir()?;
//! let store = Store::open(folder.path().join("water.iso"), Mode::Create)?;
//! let mut options = CreateOptions::new(DType::F32, Rate::from_hz(2000)?);
//! options.unit = "kPa".into();
//! options.start = Some(civil::parse("2010-03-01T00:00:00Z")?);
//! let writer = store.create("stn_10/pressure", &options)?;
//! writer.append(&[1.0f32; 4000])?;
//! writer.append_gap(1000)?;
//! writer.append(&[2.0f32; 4000])?;
//! store.commit(true)?;
//!
//! let signal = store.signal("stn_10/pressure")?;
//! let second = civil::parse("2010-03-01T00:00:01Z")?..civil::parse("2010-03-01T00:00:02Z")?;
//! assert_eq!(signal.select(second)?.as_segment()?.as_contiguous::<f32>(), Some(&[1.0f32; 2000][..]));
//!
//! // Windows never span the gap.
//! let table = scan(signal.select(0..9000)?.segments()).rewindow(1500)?.stats([Stat::Mean])?.collect()?;
//! assert_eq!(table.start, [0, 1500, 5000, 6500]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The parts are crates of their own, here as modules: [`time`], [`segment`], [`store`], [`ingest`], [`expr`], [`flow`].

pub use isochrony_expr as expr;
pub use isochrony_flow as flow;
pub use isochrony_ingest as ingest;
pub use isochrony_segment as segment;
pub use isochrony_store as store;
pub use isochrony_time as time;

pub use isochrony_flow::{FlowError, Stat, Tail, WindowTable, scan};
pub use isochrony_ingest::{IngestError, Layout, RawOptions, Session, Summary, import_raw};
pub use isochrony_segment::{Buffer, Calibration, DType, Sample, SegmentError, SigSeg, Stream};
pub use isochrony_store::{
    CreateOptions, Gap, Mode, Overlap, Run, Selection, Signal, SignalWriter, Span, Store,
    StoreError,
};
pub use isochrony_time::{Fixed, Range, Rate, Round, RunId, Stamp, Time, TimeError, civil};

/// Everything that a program over a store needs by name.
pub mod prelude {
    pub use crate::{
        Calibration, CreateOptions, DType, Fixed, Layout, Mode, Overlap, Rate, RawOptions, Round,
        Sample, Selection, SigSeg, Signal, SignalWriter, Span, Stamp, Stat, Store, Tail, Time,
        civil, import_raw, scan,
    };
}
