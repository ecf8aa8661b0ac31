//! A stored signal that is still being appended to, as a recording.
//!
//! A pass reads up to the last committed sample, waits, and continues with the next commit of any process. Gaps, clock
//! steps and windows are as if the whole signal had been read at once.
//!
//! **A silent writer** delays no plan that has a lateness: overdue samples are given up, and late if committed later.
//!
//! **Late fills** of a gap behind the read position are only counted ([`FollowCounts::backfilled_samples`]). A gap at
//! the end is passed only once something follows it, so earlier fills are read.
//!
//! **Waiting**: on Linux the system reports changes of the store's log. Elsewhere, and for writes from other machines,
//! the run polls every 20 ms.
//!
//! **The end**, after all commits are read, is a sealed signal, a stated silence, or on request that no process has the
//! store open for writing.

mod log_watcher;
mod options;
mod run_starts;
mod shared;
mod source;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use isochrony_flow::{
    Clock, OpError, OuterGaps, PlanError, PortType, Recording, SignalDescription, Source,
    StoredRecording,
};
use isochrony_store::{Mode, Signal, Store, StoreError};
use serde_json::{Map, Value, json};

use crate::LiveError;
pub use options::{FollowCounts, FollowOptions};
use shared::{FollowCounters, FollowedClock, FollowedInner};
use source::FollowSource;

/// A stored signal and its future commits. Several runs may follow it at once.
///
/// ```
/// use isochrony_flow::{SharedRecording, Plan};
/// use isochrony_live::{FollowOptions, FollowedSignal};
/// use isochrony_store::{CreateOptions, Mode, Store};
/// use isochrony_segment::DType;
/// use isochrony_time::Rate;
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("water.iso");
/// let writing = Store::open(&path, Mode::Create)?;
/// let writer = writing.create("mic", &CreateOptions::new(DType::I16, Rate::from_hz(1000)?))?;
/// writer.append(&[1i16; 500])?;
/// writing.commit(true)?;
///
/// let reading = Store::open(&path, Mode::Read)?;
/// let mut options = FollowOptions::default();
/// options.while_written = true;
/// let followed = FollowedSignal::new(&reading, reading.signal("mic")?, &options)?;
/// let plan = Plan::scan_shared(SharedRecording::new(followed)).count()?;
/// let counting = std::thread::spawn(move || plan.collect());
/// writer.append(&[1i16; 500])?;
/// writing.commit(true)?;
/// writing.close()?;
/// let counted = counting.join().expect("no panic")?;
/// assert_eq!(counted.count(), Some(1000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FollowedSignal(Arc<FollowedInner>);

impl FollowedSignal {
    /// Follows a signal of a store.
    ///
    /// # Errors
    /// [`LiveError::Option`].
    pub fn new(store: &Store, signal: Signal, options: &FollowOptions) -> Result<Self, LiveError> {
        if options.start < 0 {
            return Err(LiveError::Option {
                option: "start",
                got: options.start.to_string(),
                legal: "an index from 0".into(),
            });
        }
        let stored = StoredRecording::new(store.path(), signal.clone());
        let may_have = stored.clock().is_some() || signal.end_index() == 0;
        Ok(Self(Arc::new(FollowedInner {
            store: store.clone(),
            clock: may_have.then(|| Arc::new(FollowedClock::new(stored))),
            signal,
            options: options.clone(),
            counters: FollowCounters::default(),
        })))
    }

    /// A saved plan's signal, in the plan's store or the given one.
    ///
    /// # Errors
    /// [`PlanError::NoRecording`], [`PlanError::DamagedRecording`], [`PlanError::Unreadable`].
    pub fn resolve(saved: &Map<String, Value>, store: Option<&Store>) -> Result<Self, PlanError> {
        let unreadable = |why: String| PlanError::Unreadable { why };
        let text = |key: &str| match saved.get(key) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(unreadable(format!("a scan does not name its {key}"))),
        };
        let name = text("signal")?;
        let no_recording = |why: StoreError| PlanError::recording(name, &why);
        let opened;
        let store = match store {
            Some(store) => store,
            None => {
                opened = Store::open(text("store")?, Mode::Read).map_err(no_recording)?;
                &opened
            }
        };
        let how = saved.get("follow").and_then(Value::as_object);
        let how = how.ok_or_else(|| unreadable("follow= is not an object".into()))?;
        let seconds = |option: &str| match how.get(option).and_then(Value::as_f64) {
            Some(seconds) => Duration::try_from_secs_f64(seconds)
                .map(Some)
                .map_err(|why| unreadable(format!("{option}={seconds}: {why}"))),
            None => Ok(None),
        };
        let options = FollowOptions {
            start: how.get("start").and_then(Value::as_i64).unwrap_or(0),
            silence: seconds("silence")?,
            lateness: seconds("lateness")?,
            while_written: how.get("while_written") == Some(&Value::Bool(true)),
        };
        let signal = store.signal(name).map_err(no_recording)?;
        Self::new(store, signal, &options).map_err(|error| unreadable(error.to_string()))
    }

    /// Counts so far.
    #[must_use]
    pub fn counts(&self) -> FollowCounts {
        let FollowCounters {
            samples,
            commits,
            backfilled,
        } = &self.0.counters;
        FollowCounts {
            samples: samples.load(Ordering::Relaxed),
            commits: commits.load(Ordering::Relaxed),
            backfilled_samples: backfilled.load(Ordering::Relaxed),
        }
    }
}

impl fmt::Debug for FollowedSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FollowedSignal")
            .field("signal", &self.0.signal)
            .field("options", &self.0.options)
            .finish_non_exhaustive()
    }
}

impl Recording for FollowedSignal {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: self.0.signal.dtype(),
            stream: self.0.signal.stream(),
        }
    }

    fn open(&self, range: Option<Range<i64>>, segment: u64) -> Result<Box<dyn Source>, OpError> {
        let from = self.0.options.start;
        let within = range.unwrap_or(from..i64::MAX);
        let within = within.start.max(from)..within.end;
        Ok(Box::new(FollowSource::new(self.0.clone(), within, segment)))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let times = self.0.clock.clone()?;
        Some(times)
    }

    fn description(&self) -> Option<SignalDescription> {
        Some(SignalDescription::of(&self.0.signal))
    }

    fn outer_gaps(&self) -> OuterGaps {
        let mut signal = self.0.signal.clone();
        // If refreshing fails, the last known state is used.
        let _ = signal.refresh();
        OuterGaps::within(&signal, self.0.options.start..signal.end_index())
    }

    fn knows_all_times(&self) -> bool {
        true
    }

    fn saved(&self) -> Option<Map<String, Value>> {
        let options = &self.0.options;
        let saved = json!({
            "store": self.0.store.path().to_str()?,
            "signal": self.0.signal.name(),
            "follow": {
                "start": options.start,
                "silence": options.silence.map(|silence| silence.as_secs_f64()),
                "lateness": options.lateness.map(|lateness| lateness.as_secs_f64()),
                "while_written": options.while_written,
            },
        });
        saved.as_object().cloned()
    }
}
