//! Civil times of many indices at once.
//!
//! Types of ports name a stream, not the recording that knows its times. A scan therefore registers its recording's
//! clock under the stream's name and timebase, which say the same whatever was computed of the samples; an operator
//! that writes times asks for it when it is bound. The table holds no clock alive: the plan does. What was resampled has
//! the clock of the timebase that it comes of, asked for places between samples.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use isochrony_segment::StreamId;
use isochrony_time::{Fixed, Stamp, TimebaseId};

use super::regrid::on_grid;
use crate::Cause;

/// What knows the civil times of a recording's indices.
pub trait Clock: Send + Sync {
    /// Times of indices, ns since 1970, to the nearest; `i64::MIN` where the time is not known. `out` is as long as
    /// `indices`.
    ///
    /// # Errors
    /// A time outside the years 1677 to 2262; whatever the recording meets.
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause>;

    /// When a sample was taken, as exactly as it is known; None where it is not.
    fn stamp(&self, index: i64) -> Option<Stamp> {
        let mut time = [i64::MIN];
        self.times(&[index], &mut time).ok()?;
        let known = time[0] != i64::MIN;
        known.then(|| Stamp::new(Fixed::from_int(time[0]), Fixed::ZERO))
    }
}

/// The timebase is never one that was resampled.
type Key = (&'static str, TimebaseId);

/// Clocks that are still in use.
type Clocks = HashMap<Key, Vec<Weak<dyn Clock>>>;

static CLOCKS: LazyLock<Mutex<Clocks>> = LazyLock::new(Mutex::default);

fn key(stream: StreamId) -> Key {
    let stream = stream.get();
    (&stream.name, stream.timebase.origin().0)
}

/// Makes a clock known as long as it lives, and the first to be asked: when a plan is made, and again when it runs,
/// since what a run reads is as new as its own clock.
pub(crate) fn register(stream: StreamId, clock: &Arc<dyn Clock>) {
    // A panic while the lock is held leaves the table whole.
    let mut clocks = CLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = clocks.entry(key(stream)).or_default();
    let clock = Arc::downgrade(clock);
    known.retain(|other| other.strong_count() > 0 && !Weak::ptr_eq(other, &clock));
    known.push(clock);
}

/// The clock of a stream.
pub(crate) fn clock_of(stream: StreamId) -> Option<Arc<dyn Clock>> {
    let clocks = CLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = clocks.get(&key(stream))?.iter().rev();
    let clock = known.clone().find_map(Weak::upgrade)?;
    Some(on_grid(clock, stream.get()))
}
