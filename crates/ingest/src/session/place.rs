//! Where a block goes: what the importer knows of its order, and what came of it.

use isochrony_store::op::RunReason;
use isochrony_store::{Appended, Backfilled};
use isochrony_time::{Placement, Stamp};
use serde_json::{Map, Value};

/// Kind of the event of samples that were stored twice.
const OVERLAP: &str = "overlap";

/// What the importer knows of a block's place among the recordings of its signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence {
    /// Nothing: a stamp before what was stored when the session began means a late block.
    Unknown,
    /// It was recorded after everything that is stored: an earlier stamp is a step of its clock.
    Newest,
    /// Later recordings are stored already.
    Late,
    /// As `Late`, and it is certain to be no copy of what is stored.
    LateCertain,
}

/// The stamp of what comes after a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Next<'a> {
    pub(crate) stamp: &'a Stamp,
    /// Samples from the block's first to it; `None`: the block's own.
    pub(crate) samples: Option<i64>,
}

impl<'a> From<&'a Stamp> for Next<'a> {
    fn from(stamp: &'a Stamp) -> Self {
        Self {
            stamp,
            samples: None,
        }
    }
}

/// Where a block went.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Placed {
    pub(crate) index: i64,
    pub(crate) samples: i64,
    /// `false`: it was there already.
    pub(crate) stored: bool,
    /// Whether it was stored as late samples are.
    pub(crate) late: bool,
    /// Whether it follows on the sample stored at the index before.
    pub(crate) follows: bool,
    /// Whether other samples of the same time are stored, for which these have a run of their own.
    pub(crate) overlaps: bool,
    /// What happened, if it is worth an event: kind and fields.
    pub(crate) event: Option<Event>,
}

/// Something that happened at the first sample of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Event {
    pub(crate) kind: &'static str,
    /// Name and size in ns of what happened, if it has one.
    pub(crate) size: Option<(&'static str, i64)>,
}

impl Placed {
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

    /// Samples that follow on the ones before.
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
            (Some(RunReason::Overlap), _) => event(OVERLAP, None),
            (Some(RunReason::Late), _) => event("late", None),
            (_, Placement::Outlier) => event("stamp_outlier", None),
            (_, Placement::Lock) => event("clock_lock", None),
            // Other gaps are told by the table of gaps alone: there may be ten thousand a day.
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
            // The store's type is open; today it has no other variant.
            _ => Self::duplicate(0, 0),
        }
    }
}

impl Event {
    /// Free fields of the event.
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
