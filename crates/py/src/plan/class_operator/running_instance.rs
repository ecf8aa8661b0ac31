//! The state of an instance between calls.

use std::sync::Arc;

use isochrony_flow::{Item, PortType};
use pyo3::prelude::*;

use crate::plan::nesting::Nesting;

pub(super) struct RunningInstance {
    /// An `isochrony.functions.operators.OperatorInstance`.
    pub(super) running: Py<PyAny>,
    /// Nesting of runs that it starts.
    pub(super) inside: Arc<Nesting>,
    pub(super) by_index: bool,
    pub(super) counts: bool,
    pub(super) lag: u64,
    pub(super) inputs: usize,
    pub(super) outputs: Vec<PortType>,
    /// Without outputs: its input is passed on.
    pub(super) passes: bool,
    /// Items of earlier inputs, until the last input's item completes them.
    pub(super) waiting: Vec<Item>,
    /// Nothing is emitted before this index.
    pub(super) min_index: i64,
    /// End of each output; for ranges and rows the last start.
    pub(super) ends: Vec<i64>,
    pub(super) open: usize,
}
