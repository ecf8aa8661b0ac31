//! Isochrony for Python: the extension module `isochrony._native`.
//!
//! Bindings only: each Python class wraps one Rust value.
//!
//! Conventions of all bindings:
//! - memory crosses read-only without a copy; a view keeps it alive ([`memory`], with [`descriptor`] and
//!   [`interpreter`] the only modules with `unsafe`);
//! - times cross as whole nanoseconds and a fraction, never as a float ([`time`]);
//! - every Rust error becomes one Python exception with a stable `code` ([`errors`]), a panic
//!   `pyo3_runtime.PanicException`;
//! - long work runs detached from the interpreter and checks for Ctrl-C.

use pyo3::prelude::*;

mod declarations;
mod descriptor;
mod diffusion;
mod errors;
mod expr;
mod integer;
mod interpreter;
mod interrupt;
mod json;
mod memory;
mod mseed;
mod nbuf;
mod path_argument;
mod plan;
mod signal;
mod simulation;
mod store;
mod table;
mod tapers;
mod tasklets;
mod time;
mod workers;

pub use declarations::add_operators;

/// The native half of Isochrony; import `isochrony` instead.
#[pymodule]
pub mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::declarations::operator_declarations;
    #[pymodule_export]
    use crate::diffusion::{
        NativeCache, NativeCachedObject, NativeCloudReader, NativeDispatcher, NativeReservation,
        NativeShardCache, open_cache, put_cloud_file, stat_cloud_file, url_schemes,
    };
    #[pymodule_export]
    use crate::expr::Expr;
    #[pymodule_export]
    use crate::expr::row::Row;
    #[pymodule_export]
    use crate::mseed::{decode_mseed, decode_mseed_run, find_mseed_run};
    #[pymodule_export]
    use crate::nbuf::{makes_output, nbuffer};
    #[pymodule_export]
    use crate::plan::{
        _instruction_set, NativeControl, NativeFollowed, NativeHostInbox, NativeHostRun,
        NativeListener, NativePlan, NativePusher, NativeReport, NativeTaskRunner, NativeTasks,
        effective_options,
    };
    #[pymodule_export]
    use crate::signal::Signal;
    #[pymodule_export]
    use crate::signal::corrections::ClockCorrection;
    #[pymodule_export]
    use crate::signal::counts::Counts;
    #[pymodule_export]
    use crate::signal::events::{_unpickled_event, Event, Events};
    #[pymodule_export]
    use crate::signal::filling::prefetch;
    #[pymodule_export]
    use crate::signal::gaps::{Gap, GapEdge, Gaps};
    #[pymodule_export]
    use crate::signal::level::Level;
    #[pymodule_export]
    use crate::signal::level_selection::LevelSelection;
    #[pymodule_export]
    use crate::signal::runs::Run;
    #[pymodule_export]
    use crate::signal::segment::Segment;
    #[pymodule_export]
    use crate::signal::segment_pickling::_unpickled_segment;
    #[pymodule_export]
    use crate::signal::selection::Selection;
    #[pymodule_export]
    use crate::signal::view::{View, lost_commits, verify};
    #[pymodule_export]
    use crate::signal::writing::{Appended, Backfilled};
    #[pymodule_export]
    use crate::simulation::_simulated_runs;
    #[pymodule_export]
    use crate::store::Store;
    #[pymodule_export]
    use crate::store::backup::backup;
    #[pymodule_export]
    use crate::store::ingest::Ingest;
    #[pymodule_export]
    use crate::store::layout::Layout;
    #[pymodule_export]
    use crate::store::machine::{
        available_cores, calibrate_machine, is_process_running, load_machine_profile,
        machine_profile_path, predict_scan, processor_name, save_machine_profile,
    };
    #[pymodule_export]
    use crate::store::opening::open;
    #[pymodule_export]
    use crate::store::pickling::{
        _snapshot_at, _snapshot_path, _unpickled_selection, _unpickled_signal, _unpickled_store,
    };
    #[pymodule_export]
    use crate::table::NativeTable;
    #[pymodule_export]
    use crate::tapers::{adds_up, taper_factors};
    #[pymodule_export]
    use crate::tasklets::{check_scans, explain_tasklets, run_tasklets};
    #[pymodule_export]
    use crate::time::Time;
    #[pymodule_export]
    use crate::time::fit::TimebaseFit;
    #[pymodule_export]
    use crate::time::graph::Graph;
    #[pymodule_export]
    use crate::time::range::Range;
    #[pymodule_export]
    use crate::time::span::{Span, span};
    #[pymodule_export]
    use crate::time::timebase::Timebase;
    #[pymodule_export]
    use crate::workers::end_with;

    /// Registers exit functions: runs end before the interpreter does; before that, a warning of uncommitted changes.
    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        isochrony_cloud::register();
        crate::interpreter::close_at_exit(module)?;
        crate::store::handle::warn_before_exit(module)
    }
}
