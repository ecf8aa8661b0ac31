//! What the importer knows of a block's order, and its placement.

use isochrony_store::op::RunReason;
use isochrony_store::{Appended, Backfilled};
use isochrony_time::{Placement, Stamp};
use serde_json::{Map, Value};

const OVERLAP_EVENT: &str = "overlap";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// A stamp before the end at the session's start means a late block.
    Unknown,
    /// Recorded after all that is stored: an earlier stamp is a clock step.
    Newest,
    Late,
    /// Like `Late`, and no copy of what is stored.
    LateCertain,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct NextStamp<'a> {
    pub(crate) stamp: &'a Stamp,
    /// Samples up to it; `None`: the block's length.
    pub(crate) samples: Option<i64>,
}

impl<'a> From<&'a Stamp> for NextStamp<'a> {
    fn from(stamp: &'a Stamp) -> Self {
        Self {
            stamp,
            samples: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct PlacedBlock {
    pub(crate) index: i64,
    pub(crate) samples: i64,
    /// `false`: it was stored already.
    pub(crate) stored: bool,
    pub(crate) late: bool,
    pub(crate) follows: bool,
    /// Whether stored samples have the same time.
    pub(crate) overlaps: bool,
    pub(crate) event: Option<Event>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    /// Name and value in ns of its size, if it has one.
    pub(crate) size: Option<(&'static str, i64)>,
}

impl PlacedBlock {
    pub(crate) fn duplicate(index: i64, samples: i64) -> Self {
        Self {
            index,
            samples,
            stored: false,
            late: false,
            follows: false,
            overlaps: false,
            event: None,
        }
    }

    pub(crate) fn following(index: i64, samples: i64) -> Self {
        Self {
            index,
            samples,
            stored: true,
            late: false,
            follows: true,
            overlaps: false,
            event: None,
        }
    }

    pub(crate) fn appended(appended: &Appended) -> Self {
        let ns = |by: isochrony_time::Fixed| by.round_i64().unwrap_or(i64::MAX);
        let event = |kind, size| Some(Event { kind, size });
        let event = match (appended.new_run, appended.placement) {
            (_, Placement::Backward { by_ns }) => event("clock_step", Some(("back_ns", ns(by_ns)))),
            (_, Placement::LeapSecond { by_ns }) => {
                event("leap_second", Some(("back_ns", ns(by_ns))))
            }
            (Some(RunReason::Overlap), _) => event(OVERLAP_EVENT, None),
            (Some(RunReason::Late), _) => event("late", None),
            (_, Placement::Outlier) => event("stamp_outlier", None),
            (_, Placement::Lock) => event("clock_lock", None),
            // Other gaps are only in the gap table: there may be ten thousand a day.
            (
                _,
                Placement::Gap {
                    samples: None,
                    duration_ns,
                },
            ) => event("long_gap", Some(("duration_ns", ns(duration_ns)))),
            _ => None,
        };
        Self {
            index: appended.index,
            samples: appended.samples,
            stored: true,
            late: false,
            follows: appended.new_run.is_none()
                && !matches!(appended.placement, Placement::Gap { .. } | Placement::First),
            overlaps: appended.new_run == Some(RunReason::Overlap),
            event,
        }
    }

    pub(crate) fn backfilled(backfilled: &Backfilled) -> Self {
        match backfilled {
            Backfilled::Appended(appended) => Self {
                late: true,
                ..Self::appended(appended)
            },
            Backfilled::Filled { index, samples, .. } => Self {
                index: *index,
                samples: *samples,
                stored: true,
                late: true,
                follows: false,
                overlaps: false,
                event: None,
            },
            _ => Self::duplicate(0, 0),
        }
    }
}

impl Event {
    pub(crate) fn fields(&self, source: &str, stamp: Option<&Stamp>) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("source".into(), source.into());
        if let Some(ns) = stamp.and_then(|stamp| stamp.civil.floor_i64()) {
            fields.insert("stamp_ns".into(), ns.into());
        }
        if let Some((name, size)) = self.size {
            fields.insert(name.into(), size.into());
        }
        fields
    }
}
