//! Isochrony for Python: the extension module `isochrony._native`.
//!
//! Thin by intent. Each Python class wraps one Rust value and holds no state of its own; anything that
//! needs another Python library (ObsPy, xarray, pandas, matplotlib) is written in Python, in the package
//! around this module, and called from here by name when it is first used.
//!
//! Conventions that every binding keeps:
//! - memory crosses without a copy and read-only; a view keeps its memory alive by itself ([`memory`],
//!   with [`descriptor`] and [`interpreter`] the only modules with `unsafe`);
//! - times cross as a whole number of nanoseconds and a fraction, never as a float ([`time`]);
//! - every Rust error becomes one Python exception with a stable `code` ([`errors`]); a panic becomes
//!   `pyo3_runtime.PanicException`, never a crash;
//! - work that may take long runs detached from the interpreter and looks for Ctrl-C now and then.

use pyo3::prelude::*;

mod attrs;
mod backup;
mod conversion;
mod counts;
mod declarations;
mod descriptor;
mod errors;
mod events;
mod expr;
mod filling;
mod foreign;
mod gaps;
mod gather;
mod graph;
mod handle;
mod ingest;
mod interpreter;
mod interrupt;
mod json;
mod key;
mod level;
mod level_selection;
mod machine;
mod memory;
mod nbuf;
mod network;
mod numbers;
mod opening;
mod options;
mod plan;
mod processes;
mod range;
mod raw;
mod row;
mod runs;
mod saved_plans;
mod segment;
mod selection;
mod signal;
mod span;
mod stamps;
mod store;
mod table;
mod tapers;
mod tasklets;
mod time;
mod timebase;
mod view;
mod writing;

pub use declarations::add_operators;

/// The native half of Isochrony; import `isochrony` instead.
#[pymodule]
pub mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::backup::backup;
    #[pymodule_export]
    use crate::counts::Counts;
    #[pymodule_export]
    use crate::declarations::operator_declarations;
    #[pymodule_export]
    use crate::events::{Event, Events};
    #[pymodule_export]
    use crate::expr::Expr;
    #[pymodule_export]
    use crate::filling::prefetch;
    #[pymodule_export]
    use crate::gaps::{Gap, Gaps};
    #[pymodule_export]
    use crate::graph::Graph;
    #[pymodule_export]
    use crate::ingest::{Ingest, Layout};
    #[pymodule_export]
    use crate::level::Level;
    #[pymodule_export]
    use crate::level_selection::LevelSelection;
    #[pymodule_export]
    use crate::machine::{
        calibrate_machine, load_machine_profile, machine_profile_path, predict_scan,
        save_machine_profile,
    };
    #[pymodule_export]
    use crate::nbuf::{makes_output, nbuffer};
    #[pymodule_export]
    use crate::opening::{_reopen, open};
    #[pymodule_export]
    use crate::plan::{NativeControl, NativeFollowed, NativeListener, NativePlan, NativePusher};
    #[pymodule_export]
    use crate::processes::watch::end_with;
    #[pymodule_export]
    use crate::range::Range;
    #[pymodule_export]
    use crate::row::Row;
    #[pymodule_export]
    use crate::runs::Run;
    #[pymodule_export]
    use crate::segment::Segment;
    #[pymodule_export]
    use crate::selection::Selection;
    #[pymodule_export]
    use crate::signal::Signal;
    #[pymodule_export]
    use crate::span::{Span, span};
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::table::NativeTable;
    #[pymodule_export]
    use crate::tapers::{adds_up, taper_factors};
    #[pymodule_export]
    use crate::tasklets::{check_scans, explain_tasklets, run_tasklets};
    #[pymodule_export]
    use crate::time::Time;
    #[pymodule_export]
    use crate::timebase::Timebase;
    #[pymodule_export]
    use crate::view::{View, lost_commits, verify};
    #[pymodule_export]
    use crate::writing::{Appended, Backfilled};

    /// Runs end before the interpreter does.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::interpreter::close_at_exit(module)
    }
}
