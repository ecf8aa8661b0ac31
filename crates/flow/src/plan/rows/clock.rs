//! Civil times of many indices at once.
//!
//! A port type names a stream, not the recording that knows its times. So a scan registers its recording's clock under
//! the stream's name and timebase, and an operator that writes times looks it up when bound. References are weak: plans
//! own the clocks. A resampled stream uses its original timebase's clock.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use isochrony_segment::StreamId;
use isochrony_time::{Fixed, Stamp, TimebaseId};

use crate::Cause;

/// Civil times of a recording's indices.
pub trait Clock: Send + Sync {
    /// Times of indices in ns since 1970, rounded; `i64::MIN` if unknown. `out` is as long as `indices`.
    ///
    /// # Errors
    /// A time outside the years 1677 to 2262; an error of the recording.
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause>;

    /// Time of a sample, as exactly as known.
    fn stamp(&self, index: i64) -> Option<Stamp> {
        let mut time = [i64::MIN];
        self.times(&[index], &mut time).ok()?;
        let known = time[0] != i64::MIN;
        known.then(|| Stamp::new(Fixed::from_int(time[0]), Fixed::ZERO))
    }

    /// Changes of the clock after number `after`, for [`apply_changes`](Self::apply_changes) in another process, and
    /// their number so far. None without changes, as for a clock known before samples are read.
    fn changes(&self, after: u64) -> Option<(u64, Vec<u8>)> {
        let _ = after;
        None
    }

    /// Applies changes of the same clock in another process.
    ///
    /// # Errors
    /// Unreadable changes.
    fn apply_changes(&self, changes: &[u8]) -> Result<(), Cause> {
        let _ = changes;
        Err("this clock does not change".into())
    }

    /// Time up to which a feed had announced that nothing follows, when its clock started anew at or before an index:
    /// what the new run has before it is late. None without such a start, and if all runs are known beforehand.
    fn announced_before(&self, index: i64) -> Option<i64> {
        let _ = index;
        None
    }

    /// First index at or after a civil time (ns since 1970), on the clock of index `near`: not before its run, at most
    /// its end. None if unknown. The default serves one clock without steps.
    fn first_at(&self, near: i64, time: i64) -> Option<i64> {
        let is_reached = |index: i64| {
            let mut at = [i64::MIN];
            self.times(&[index], &mut at).ok()?;
            (at[0] != i64::MIN).then_some(at[0] >= time)
        };
        let forward = !is_reached(near)?;
        let (mut before, mut reached, mut distance) = (near, near, 1i64);
        loop {
            let next = match forward {
                true => near.checked_add(distance)?,
                false => near.checked_sub(distance)?,
            };
            let found = is_reached(next)?;
            *(if found { &mut reached } else { &mut before }) = next;
            if found == forward {
                break;
            }
            distance = distance.checked_mul(2)?;
        }
        while reached - before > 1 {
            let middle = before + (reached - before) / 2;
            match is_reached(middle)? {
                true => reached = middle,
                false => before = middle,
            }
        }
        Some(reached)
    }
}

/// Stream name and original timebase.
type Key = (&'static str, TimebaseId);

/// Newest last.
type Clocks = HashMap<Key, Vec<Weak<dyn Clock>>>;

static CLOCKS: LazyLock<Mutex<Clocks>> = LazyLock::new(Mutex::default);

fn key(stream: StreamId) -> Key {
    let stream = stream.get();
    (&stream.name, stream.timebase.origin().0)
}

/// Registers a clock while it lives, before others of its stream: when a plan is built, and again at execution, which
/// may read newer samples that only its own clock covers.
pub(crate) fn register(stream: StreamId, clock: &Arc<dyn Clock>) {
    // A panic under the lock leaves the table valid.
    let mut clocks = CLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = clocks.entry(key(stream)).or_default();
    let clock = Arc::downgrade(clock);
    known.retain(|other| other.strong_count() > 0 && !Weak::ptr_eq(other, &clock));
    known.push(clock);
}

/// The newest still in use, of the original timebase.
pub(super) fn registered(stream: StreamId) -> Option<Arc<dyn Clock>> {
    let clocks = CLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
    let known = clocks.get(&key(stream))?.iter().rev();
    known.clone().find_map(Weak::upgrade)
}
