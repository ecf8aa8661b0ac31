//! Sample sources.
//!
//! A [`Recording`] can be scanned repeatedly: a stored signal, segments in memory, a generator. Each scan opens a
//! [`Source`], one pass. Several workers read portions of a [`Snapshot`], the recording at one moment.

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

/// A source of samples that can be scanned.
pub trait Recording: Send + Sync {
    /// Sample type.
    fn port(&self) -> PortType;

    /// Begins a pass over `range`, in segments of at most `segment` samples.
    ///
    /// # Errors
    /// The recording cannot be opened.
    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError>;

    /// The recording as it is now, for several threads; None for a single-pass feed. Fails as [`open`](Self::open).
    fn snapshot(&self, range: Option<Range<i64>>) -> Result<Option<Arc<dyn Snapshot>>, OpError> {
        let _ = range;
        Ok(None)
    }

    /// Whether [`snapshot`](Self::snapshot) returns one.
    fn is_splittable(&self) -> bool {
        false
    }

    /// Whether its clock may be looked up by stream name. False for streams of operators: two of one name may have
    /// different clocks.
    fn registers_clock(&self) -> bool {
        true
    }

    /// Whether reading decompresses, which is worth tasks by itself.
    fn is_decoded(&self) -> bool {
        false
    }

    /// Whether a pass skips samples, as a selection does.
    fn skips_samples(&self) -> bool {
        false
    }

    /// Whether a whole pass yields all samples as recorded, so missing ones are gaps.
    fn gives_own_samples(&self) -> bool {
        !self.skips_samples()
    }

    /// A range that holds all samples, present and future; None if unknown.
    fn within(&self) -> Option<Range<i64>> {
        None
    }

    /// The clock, if civil times are known; valid as long as the recording.
    fn clock(&self) -> Option<Arc<dyn Clock>> {
        None
    }

    /// Set if the samples are as recorded.
    fn description(&self) -> Option<SignalDescription> {
        None
    }

    /// Gaps at both ends of the last pass; of a feed, known at its end.
    fn outer_gaps(&self) -> OuterGaps {
        OuterGaps::default()
    }

    /// Whether samples without a time were recorded without one.
    fn knows_all_times(&self) -> bool {
        false
    }

    /// How a range (None: all) will be read, for `explain`. Reads no samples.
    fn reads(&self, range: Option<Range<i64>>) -> Option<String> {
        let _ = range;
        None
    }

    /// Stored signal and index ranges (None: all) that it reads.
    fn stored(&self) -> Option<(&Signal, Option<&[Range<i64>]>)> {
        None
    }

    /// The stored recording, if it is one.
    fn as_stored(&self) -> Option<&StoredRecording> {
        None
    }

    /// A smaller recording with bit-identical partial results of `stats` for minimum, maximum and count.
    fn extremes(&self) -> Option<SharedRecording> {
        None
    }

    /// Form in a saved plan; None if bound to this process.
    fn saved(&self) -> Option<Map<String, Value>> {
        None
    }

    /// Form in a plan sent to another process; non-JSON values go into `objects`.
    ///
    /// # Errors
    /// [`PlanError::NotSendable`] if bound to this process.
    fn sent(&self, objects: &mut SentObjects) -> Result<Map<String, Value>, PlanError> {
        let _ = objects;
        let name = self.port().stream().map_or("", |stream| &stream.name);
        Err(PlanError::NotSendable {
            operator: format!("scan({name})"),
            what: "a feed of this process",
            mend: "record the feed in a signal and scan that, or build the plan in the process that runs it",
        })
    }

    /// Commit and end of its snapshot; None: read at the start of each pass.
    fn pinned(&self) -> Option<(u64, i64)> {
        None
    }

    /// The recording frozen now; None if it does not change.
    ///
    /// # Errors
    /// Unreadable recording.
    fn at_snapshot(&self) -> Result<Option<SharedRecording>, PlanError> {
        Ok(None)
    }

    /// Next index and run number of the pass, if another process can continue from there with a new run.
    fn position(&self) -> Option<(i64, u32)> {
        None
    }

    /// Maximum bytes in flight from its host; None: not on a cluster host.
    fn host_window(&self) -> Option<u64> {
        None
    }

    /// What reading occupies, besides a disk.
    fn needs(&self) -> Resource {
        Resource::Cpu
    }
}

/// A shared recording. Equal if the same object or saved form.
#[derive(Clone)]
pub struct SharedRecording(pub(crate) Arc<dyn Recording>);

impl SharedRecording {
    /// Shares a recording.
    pub fn new(recording: impl Recording + 'static) -> Self {
        Self(Arc::new(recording))
    }

    /// Received or generated: not an array, and not stored, of which only the pyramid cannot be split.
    pub(crate) fn is_feed(&self) -> bool {
        !self.0.is_splittable() && self.0.stored().is_none()
    }

    /// As [`Recording::clock`].
    #[must_use]
    pub fn clock(&self) -> Option<Arc<dyn Clock>> {
        self.0.clock()
    }

    /// Clock of a derived, perhaps resampled, stream.
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

    /// Equal for equal recordings.
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
