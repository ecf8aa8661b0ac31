//! Windowed statistics of one signal in one thread: scan, cut into windows, summarise.
//!
//! The words and rules are the engine's: a window is a fixed number of samples inside one gap-free
//! stretch, anchored at the stretch's first sample whatever the segments or the range that was asked for.

mod error;
mod scan;
mod stats;
mod table;

pub use error::{FlowError, SourceError};
pub use scan::{Rewindowed, Scan, Scanned, Stretch, Tail, WindowStats, scan};
pub use table::{Column, Stat, WindowTable};
