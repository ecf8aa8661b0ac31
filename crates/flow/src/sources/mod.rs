//! Where samples come from.
//!
//! A [`Recording`] can be scanned again and again: a stored signal, segments in memory, a generator. Each scan opens a
//! [`Source`], one pass over it. Several workers read a [`Snapshot`], the recording at one moment, in portions.

pub(crate) mod description;
pub(crate) mod generated;
pub(crate) mod processed;
mod segment_cutter;
pub(crate) mod segments;
pub(crate) mod snapshot;
pub(crate) mod source;
pub(crate) mod stored;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use isochrony_segment::Stream;
use isochrony_store::Signal;
use serde_json::{Map, Value};

use crate::plan::rows::on_grid;
use crate::plan::sent_objects::SentObjects;
use crate::{
    Clock, OpError, OuterGaps, PlanError, PortType, Resource, SignalDescription, Snapshot, Source,
    StoredRecording,
};

/// Something that can be scanned.
pub trait Recording: Send + Sync {
    /// Type of the samples.
    fn port(&self) -> PortType;

    /// Begins a pass over `range`, in segments of at most `segment` samples.
    ///
    /// # Errors
    /// The recording cannot be opened.
    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError>;

    /// The recording as it is now, for several threads; None if it takes a single pass, as a feed. Fails as
    /// [`open`](Self::open).
    fn snapshot(&self, range: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        let _ = range;
        Ok(None)
    }

    /// Whether [`snapshot`](Self::snapshot) returns one.
    fn is_splittable(&self) -> bool {
        false
    }

    /// Whether operators may look up its clock by its stream's name. Not where operators made the stream: two of one
    /// name may have different clocks.
    fn registers_clock(&self) -> bool {
        true
    }

    /// Whether reading takes a core's time, to decompress chunks, and is worth tasks for operators that are not.
    fn is_decoded(&self) -> bool {
        false
    }

    /// Whether a pass skips samples between others, as a selection does.
    fn skips_samples(&self) -> bool {
        false
    }

    /// Whether a whole pass gives all samples as recorded, so that missing ones are gaps.
    fn gives_own_samples(&self) -> bool {
        !self.skips_samples()
    }

    /// A range that holds all samples, present and appended; None if unknown.
    fn within(&self) -> Option<Range<i64>> {
        None
    }

    /// The clock, if civil times are known. Lives as long as the recording.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// Calibration and attributes, if the samples are as recorded.
    fn description(&self) -> Option<SignalDescription> {
        None
    }

    /// Gaps at both ends of the last pass. A feed knows them when it ends.
    fn outer_gaps(&self) -> OuterGaps {
        OuterGaps::default()
    }

    /// Whether samples without a time in its clock were recorded without one, as in a store; else the times are only
    /// unknown here.
    fn knows_all_times(&self) -> bool {
        false
    }

    /// How a range (None: all) will be read from a store, for `explain`. Reads no samples.
    fn reads(&self, range: Option<Range<i64>>) -> Option<String> {
        let _ = range;
        None
    }

    /// The stored signal and index ranges (None: all) that it reads, if any.
    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        None
    }

    /// The stored recording, if it is nothing else.
    fn as_stored(&self) -> Option<&StoredRecording> {
        None
    }

    /// A recording that gives partial results of `stats` for minimum, maximum and count, with the same bits, of fewer
    /// samples.
    fn extremes(&self) -> Option<SharedRecording> {
        None
    }

    /// Form in a saved plan; None if it exists in this process only.
    fn saved(&self) -> Option<Map<String, Value>> {
        None
    }

    /// Form in a plan sent to another process; what is no JSON goes into `objects`.
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if it exists in this process only.
    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        let _ = objects;
        let name = self.port().stream().map_or("", |stream| &stream.name);
        Err(PlanError::NotSendable {
            operator: format!("scan({name})"),
            what: "a feed of this process",
            mend: "record the feed in a signal and scan that, or build the plan in the process that runs it",
        })
    }

    /// Commit and end of the snapshot that it reads; None: a pass reads what there is at its start.
    fn pinned(&self) -> Option<(u64, i64)> {
        None
    }

    /// The recording as it is now, whatever is added later; None if it does not change.
    ///
    /// # Errors
    /// It cannot be read.
    fn at_snapshot(&self) -> Result<Option<SharedRecording>, PlanError> {
        Ok(None)
    }

    /// Next index of the current pass and the number of its run, if another process can go on from there with a new run.
    fn position(&self) -> Option<(i64, u32)> {
        None
    }

    /// Most bytes that are on their way from its host; None: it comes from no host of a cluster.
    fn host_window(&self) -> Option<u64> {
        None
    }

    /// What reading it occupies, beside a disk.
    fn needs(&self) -> Resource {
        Resource::Cpu
    }
}

/// A shared recording. Equal if the same object or of the same saved form.
#[derive(Clone)]
pub struct SharedRecording(pub(crate) Arc<dyn Recording>);

impl SharedRecording {
    /// Shares a recording.
    pub fn new(recording: impl Recording + 'static) -> Self {
        Self(Arc::new(recording))
    }

    /// As [`Recording::clock`].
    #[must_use]
    pub fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }

    /// The clock of a stream computed from it, perhaps resampled.
    #[must_use]
    pub fn clock_of(&self, stream: &Stream) -> Option<Arc<dyn Clock>> {
        Some(on_grid(self.clock()?, stream))
    }

    /// As [`Recording::saved`].
    #[must_use]
    pub fn saved(&self) -> Option<Map<String, Value>> {
        self.0.saved()
    }

    /// As [`Recording::description`].
    #[must_use]
    pub fn description(&self) -> Option<SignalDescription> {
        self.0.description()
    }

    /// As [`Recording::outer_gaps`].
    #[must_use]
    pub fn outer_gaps(&self) -> OuterGaps {
        self.0.outer_gaps()
    }

    /// As [`Recording::knows_all_times`].
    #[must_use]
    pub fn knows_all_times(&self) -> bool {
        self.0.knows_all_times()
    }

    /// Hash key: the same for equal recordings.
    pub(crate) fn key(&self) -> String {
        let own = || format!("{:p}", Arc::as_ptr(&self.0));
        let pinned = self.0.pinned();
        self.0
            .saved()
            .map_or_else(own, |saved| format!("{saved:?} {pinned:?}"))
    }
}

impl PartialEq for SharedRecording {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.pinned() == other.0.pinned()
                && matches!((self.0.saved(), other.0.saved()), (Some(a), Some(b)) if a == b)
    }
}

impl fmt::Debug for SharedRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedRecording({})", self.0.port())
    }
}
