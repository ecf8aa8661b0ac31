//! [`PassStarts`]: where runs of a followed signal begin, and the time that the run before had announced there.
//!
//! A pass that finds the end of a run announces that nothing before the time of the next index follows, and in a
//! silence that of later indices. The next run may begin before. Its times are then compared with what the clock of the
//! run before gives its first index. That clock and index are recorded, so rows that are late do not depend on when a
//! pass finds commits, unless it has given the index up.
//!
//! A clock does not know which pass asks. While several passes read the same [`FollowedSignal`](super::FollowedSignal),
//! the latest time that any of them announced counts for all.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use isochrony_store::Signal;
use isochrony_time::{Fixed, RunId};

/// Starts that a pass remembers, the newest; older rows are never late.
const MAX_STARTS: usize = 4096;

#[derive(Debug, Clone, Copy)]
struct RunStart {
    first: i64,
    /// None: the runs before have no civil time.
    announced: Option<i64>,
}

/// The starts of one pass, by index. What was announced ascends.
#[derive(Debug)]
pub(super) struct RunStarts {
    starts: RwLock<VecDeque<RunStart>>,
    /// Of all passes.
    has_any: Arc<AtomicBool>,
}

impl RunStarts {
    /// Adds the runs that begin in the next range of a pass. `before`: the run of its samples before, if any.
    pub(super) fn add(&self, signal: &Signal, range: Range<i64>, mut before: Option<u32>) {
        for run in signal.state().runs.overlapping(range.clone()) {
            let first = run.start.max(range.start);
            if let Some(before) = before.replace(run.id).filter(|&before| before != run.id) {
                let reached = time_in_run(signal, before, first);
                // Poisoned starts are valid: each is pushed at once.
                let mut starts = self.starts.write().unwrap_or_else(PoisonError::into_inner);
                let last = starts.back().and_then(|last| last.announced);
                let announced = last.max(reached);
                if announced == last {
                    continue;
                }
                if starts.len() == MAX_STARTS {
                    starts.pop_front();
                }
                starts.push_back(RunStart { first, announced });
                self.has_any.store(true, Ordering::Release);
            }
        }
    }

    fn announced_before(&self, index: i64) -> Option<i64> {
        let starts = self.starts.read().unwrap_or_else(PoisonError::into_inner);
        let after = starts.partition_point(|start| start.first <= index);
        starts.get(after.checked_sub(1)?)?.announced
    }
}

/// Time of an index by the clock of a run that begins before it, extrapolated beyond the run's end.
fn time_in_run(signal: &Signal, run: u32, index: i64) -> Option<i64> {
    let civil = signal.empirical().ok()??;
    let pieces = civil.pieces();
    let begun = &pieces[..pieces.partition_point(|piece| piece.index <= index)];
    let last = begun.iter().rev().find(|piece| piece.run == RunId(run))?;
    last.civil_at(Fixed::from_int(index)).ok()?.round_i64()
}

/// Those of all passes over a signal.
#[derive(Debug, Default)]
pub(super) struct PassStarts {
    passes: Mutex<Vec<Arc<RunStarts>>>,
    /// False for most signals: rows then take no lock.
    has_any: Arc<AtomicBool>,
}

impl PassStarts {
    /// Of a new pass; those of passes that are over are dropped.
    pub(super) fn open(&self) -> Arc<RunStarts> {
        let mut passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        passes.retain(|pass| Arc::strong_count(pass) > 1);
        let pass = Arc::new(RunStarts {
            starts: RwLock::default(),
            has_any: Arc::clone(&self.has_any),
        });
        passes.push(Arc::clone(&pass));
        pass
    }

    pub(super) fn announced_before(&self, index: i64) -> Option<i64> {
        if !self.has_any.load(Ordering::Acquire) {
            return None;
        }
        let passes = self.passes.lock().unwrap_or_else(PoisonError::into_inner);
        let of_passes = passes.iter().map(|pass| pass.announced_before(index));
        of_passes.max().flatten()
    }
}
