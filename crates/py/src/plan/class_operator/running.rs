//! The state of an instance between calls.

use std::sync::Arc;

use isochrony_flow::{Item, PortType};
use pyo3::prelude::*;

use crate::plan::nesting::Nesting;

/// An instance that was bound to its inputs.
pub(super) struct RunningInstance {
    /// An `isochrony.operators.Running`.
    pub(super) running: Py<PyAny>,
    /// Runs that it begins are inside of it.
    pub(super) inside: Arc<Nesting>,
    pub(super) by_index: bool,
    pub(super) counts: bool,
    pub(super) lag: u64,
    pub(super) inputs: usize,
    pub(super) outputs: Vec<PortType>,
    /// Nothing goes out but what came in.
    pub(super) passes: bool,
    /// Of the inputs before this one, what meets it.
    pub(super) waiting: Vec<Item>,
    /// Index before which nothing is emitted any more, as others were told.
    pub(super) told: i64,
    /// Of each output, where what was emitted ends; of ranges and rows, where the last one starts.
    pub(super) ends: Vec<i64>,
    pub(super) open: usize,
}
