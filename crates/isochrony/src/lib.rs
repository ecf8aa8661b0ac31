//! Isochrony for Rust: one crate to depend on, one [`prelude`] to import.
//!
//! A [`Store`] is a folder of signals that any Zarr v3 reader opens. A [`Signal`] knows its gaps and civil time
//! exactly; a lazy [`Selection`] of it gives gap-free, zero-copy [`SigSeg`]ments; a [`Plan`] computes over them.
//! [`import_raw`] imports recordings.
//!
//! ```
//! use isochrony::flow::arrow::array::{Array, Int64Array};
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
//! let plan = Plan::scan(StoredRecording::new(store.path(), signal)).rewindow(1500)?.stats([Stat::Mean])?;
//! let gathered = plan.collect()?;
//! let table = gathered.rows().expect("statistics are rows");
//! assert_eq!(table.column_by_name("start").map(|start| start.to_data()), Some(Int64Array::from(vec![0, 1500, 5000, 6500]).to_data()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`nbuf`] streams other bytes with all cores and in bounded memory; [`bytes`] has processors for them:
//!
//! ```
//! use isochrony::bytes::Chain;
//! use isochrony::nbuf::{Framing, Input, NativeProcessors, Options, Output, Prefix, run};
//!
//! // Three messages, each behind its length, as protobuf delimits them.
//! let messages = b"\x05hello\x00\x01!";
//! let options = Options { framing: Framing::Prefixed(Prefix::varint()), ..Options::default() };
//! let processors = NativeProcessors::parse(&["sha256"])?;
//! let mut copy = Vec::new();
//! let outputs = vec![Output::writer(&mut copy)];
//! let report = run(&options, vec![Input::bytes(messages)], &processors, outputs, &mut |_| true)?;
//! assert_eq!((report.records, &copy[..]), (3, &messages[..]));
//! let (name, digest) = &processors.outcomes()[0];
//! assert_eq!((name.as_str(), digest), ("sha256", &Chain::parse(&["sha256"])?.run(messages)?[0]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The modules are crates of their own.

pub use isochrony_bytes as bytes;
pub use isochrony_expr as expr;
pub use isochrony_flow as flow;
pub use isochrony_ingest as ingest;
pub use isochrony_live as live;
pub use isochrony_nbuf as nbuf;
pub use isochrony_segment as segment;
pub use isochrony_store as store;
pub use isochrony_tasklets as tasklets;
pub use isochrony_time as time;

pub use isochrony_flow::{Plan, PlanError, PlanOutput, RunError, Stat, StoredRecording};
pub use isochrony_ingest::{IngestError, Layout, RawOptions, Session, Summary, import_raw};
pub use isochrony_segment::{Buffer, Calibration, DType, Sample, SegmentError, SigSeg, Stream};
pub use isochrony_store::{
    ClockComparison, ClockCorrection, CorrectionOptions, CreateOptions, Gap, Mode, Overlap,
    RecordedAt, Run, Selection, Signal, SignalWriter, Span, Store, StoreError,
};
pub use isochrony_time::{
    FitShape, Fixed, PointFit, PointFitOptions, PointPair, Range, Rate, Round, RunId, Stamp, Time,
    TimeError, civil,
};

/// The documentation's worked example, compiled and tested.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/add_an_operator.md")]
mod add_an_operator {}

/// Common names for programs over a store.
pub mod prelude {
    pub use crate::{
        Calibration, CreateOptions, DType, Fixed, Layout, Mode, Overlap, Plan, PlanOutput, Rate,
        RawOptions, Round, Sample, Selection, SigSeg, Signal, SignalWriter, Span, Stamp, Stat,
        Store, StoredRecording, Time, civil, import_raw,
    };
}
