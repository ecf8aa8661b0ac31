//! Streams: common properties of a signal's samples, interned as a number.
//!
//! The table only grows, in chunks of doubling size that never move, so a [`StreamId`] is looked up without a lock.
//! Meant for thousands of signals.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};

use isochrony_time::{Rate, TimebaseId};

use crate::Calibration;

/// Name, timebase, nominal rate and calibration of a signal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stream {
    /// Name, for errors. Equal fields mean one stream, and timebase ids are local to a graph, so names from a store
    /// include its path.
    pub name: String,
    /// Timebase of segment indices.
    pub timebase: TimebaseId,
    /// Nominal sample rate in Hz.
    pub rate: Rate,
    /// Calibration of counts.
    pub calibration: Calibration,
}

/// Id of a [`Stream`], local to this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(u32);

struct Entry {
    stream: &'static Stream,
    physical: OnceLock<StreamId>,
}

/// Ids of the first chunk; chunk `k` holds `FIRST << k`.
const FIRST: u32 = 64;
/// Enough chunks for every `u32`.
const CHUNKS: usize = (u32::BITS - FIRST.ilog2()) as usize + 1;

static TABLE: [OnceLock<Box<[OnceLock<Entry>]>>; CHUNKS] = [const { OnceLock::new() }; CHUNKS];
static IDS: LazyLock<Mutex<HashMap<&'static Stream, StreamId>>> = LazyLock::new(Mutex::default);

fn place(id: u32) -> (usize, usize) {
    let shifted = u64::from(id) + u64::from(FIRST);
    let chunk = shifted.ilog2() - FIRST.ilog2();
    let first = u64::from(FIRST) << chunk;
    (chunk as usize, (shifted - first) as usize)
}

fn entry(id: StreamId) -> &'static Entry {
    let (chunk, position) = place(id.0);
    TABLE[chunk]
        .get()
        .and_then(|chunk| chunk[position].get())
        .expect("an id exists only after its entry, see Stream::intern")
}

impl Stream {
    /// A stream without calibration, of unknown unit.
    #[must_use]
    pub fn new(name: impl Into<String>, timebase: TimebaseId, rate: Rate) -> Self {
        Self {
            name: name.into(),
            timebase,
            rate,
            calibration: Calibration::default(),
        }
    }

    /// Sets the calibration.
    #[must_use]
    pub fn with_calibration(mut self, calibration: Calibration) -> Self {
        self.calibration = calibration;
        self
    }

    /// Id of this stream: the same for equal streams, in any thread.
    #[must_use]
    pub fn intern(self) -> StreamId {
        // A panic with the lock held leaves at worst an entry without a name.
        let mut ids = IDS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&id) = ids.get(&self) {
            return id;
        }
        let id = StreamId(u32::try_from(ids.len()).expect("more than 2^32 streams need 400 GB"));
        let (chunk, position) = place(id.0);
        let stream: &'static Stream = Box::leak(Box::new(self));
        let slots =
            TABLE[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| OnceLock::new()).collect());
        slots[position].get_or_init(|| Entry {
            stream,
            physical: OnceLock::new(),
        });
        ids.insert(stream, id);
        id
    }
}

impl StreamId {
    /// The stream; lock-free.
    #[must_use]
    pub fn get(self) -> &'static Stream {
        entry(self).stream
    }

    /// The stream of calibrated values: same name, timebase, rate and unit.
    #[must_use]
    pub fn physical(self) -> Self {
        let entry = entry(self);
        if entry.stream.calibration.is_identity() {
            return self;
        }
        *entry.physical.get_or_init(|| {
            let unit = entry.stream.calibration.unit();
            entry
                .stream
                .clone()
                .with_calibration(Calibration::identity(unit))
                .intern()
        })
    }

    /// The id as a number.
    #[must_use]
    pub fn as_u32(self) -> u32 {
        self.0
    }
}
