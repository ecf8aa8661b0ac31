//! Plans of operators over signal segments, and how they run.
//!
//! So far one plan can run, in one thread: [`scan`] a signal, cut its gap-free stretches into
//! windows, compute statistics of each. The words and rules are the engine's: a window is a
//! fixed number of samples inside one gap-free stretch, anchored at the stretch's first sample
//! whatever the segments or the range that was asked for, so that a general executor can take
//! over without a change above it.
//!
//! ```
//! use isochrony_flow::{Stat, scan};
//! use isochrony_segment::{SigSeg, Stream};
//! use isochrony_time::{Rate, TimebaseId};
//!
//! let stream = Stream::new("stn_10/pressure", TimebaseId(0), Rate::new(2000, 1)?).intern();
//! let before_gap = SigSeg::from_slice(&[1i16, 3, 5, 7, 9], 0, stream)?;
//! let after_gap = SigSeg::from_slice(&[2i16, 4], 100, stream)?;
//! let plan = scan([before_gap, after_gap]).rewindow(2)?.stats([Stat::Max, Stat::Mean])?;
//! assert_eq!(plan.to_string(), "scan -> rewindow(2) -> stats(max, mean)");
//! let table = plan.collect()?;
//! assert_eq!(table.start, [0, 2, 100]); // sample 4 makes no full window and never meets sample 100
//! assert_eq!(table.column(Stat::Mean).map(|c| c.to_f64()), Some(vec![2.0, 6.0, 3.0]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod scan;
mod table;
mod window_stats;

pub use error::{FlowError, SourceError};
pub use scan::{Rewindowed, Scan, Scanned, Stretch, Tail, WindowStats, scan};
pub use table::{Column, Stat, WindowTable};
