//! Operators laid out for the driver: what every item touches in one place, the rest behind it.

use crate::exec::fan_in::FanIn;
use crate::{Operator, Port};

/// No single consumer: look at the lists of edges.
pub(crate) const MANY: u32 = u32::MAX;
/// Whatever comes next is the first of a stretch.
pub(crate) const FRESH: i64 = i64::MIN;

/// Where an output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct To {
    pub(crate) node: u32,
    pub(crate) port: Port,
}

/// One cache line.
#[repr(align(64))]
pub(crate) struct Slot {
    pub(crate) op: Box<dyn Operator>,
    /// Index at which what continues the last item begins, on the only input.
    pub(crate) expected: i64,
    /// Consumer of output 0 if that is the only edge; node [`MANY`] otherwise.
    pub(crate) next: To,
    /// Whether it takes no more items.
    pub(crate) ended: bool,
    /// Whether it has several inputs.
    pub(crate) fan_in: bool,
    pub(crate) items: u64,
    pub(crate) samples: u64,
    pub(crate) cold: Box<Cold>,
}

/// What items do not touch.
pub(crate) struct Cold {
    pub(crate) name: &'static str,
    /// Consumers of each output.
    pub(crate) edges: Vec<Vec<To>>,
    /// First sample of the stretch.
    pub(crate) anchor: i64,
    pub(crate) gaps: u64,
    pub(crate) open_ports: usize,
    pub(crate) queues: Option<FanIn>,
    /// Progress that was passed on last.
    pub(crate) progress: i64,
}
