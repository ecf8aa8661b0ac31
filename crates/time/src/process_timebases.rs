//! Process-local timebases.
//!
//! Index `j` of a resampled timebase lies exactly at `j * down / up` of the origin, independent of clocks and gaps.
//! Equal compositions share a timebase. Ids have the highest bit and the last four set, unlike those of signals and
//! view levels.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Fixed, Rate, Ratio, TimeError, TimebaseId};

/// The 27 bits between the marked ones are the position in [`TABLE`].
const ID_MARK: u32 = 0x8000_000f;
const INDEX_SHIFT: u32 = 4;

/// Recreates a timebase in another process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimebaseDefinition {
    /// Valid in every process: civil time, or that of a signal or a view level.
    Global(TimebaseId),
    /// Resampled from a timebase that is not resampled itself.
    Resampled {
        /// The original.
        origin: TimebaseId,
        /// Samples per sample of the origin.
        ratio: Ratio,
    },
    /// A start time and a rate.
    Grid {
        /// Time of index 0, in ns since 1970.
        start: Fixed,
        /// Samples per second.
        rate: Rate,
    },
    /// Shared with nothing.
    Unique,
}

static TABLE: Mutex<Vec<TimebaseDefinition>> = Mutex::new(Vec::new());

fn timebase_of(entry: TimebaseDefinition) -> Result<TimebaseId, TimeError> {
    // A panic while the lock is held leaves the table intact.
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = match entry {
        TimebaseDefinition::Unique => None,
        _ => table.iter().position(|known| *known == entry),
    };
    let at = known.unwrap_or(table.len());
    let place = u32::try_from(at).ok();
    let place = place.filter(|at| at >> (31 - INDEX_SHIFT) == 0);
    let place = place.ok_or(TimeError::Overflow {
        what: "number of timebases of this process",
    })?;
    if known.is_none() {
        table.push(entry);
    }
    Ok(TimebaseId(ID_MARK | place << INDEX_SHIFT))
}

impl TimebaseId {
    /// The timebase with `ratio` samples per sample of this one, and a common index 0.
    ///
    /// ```
    /// use isochrony_time::{Ratio, TimebaseId};
    /// let half = TimebaseId(7).resampled(Ratio::new(1, 2)?)?;
    /// assert_ne!(half, TimebaseId(7));
    /// assert_eq!(half.resampled(Ratio::new(1, 2)?)?, TimebaseId(7).resampled(Ratio::new(1, 4)?)?);
    /// assert_eq!(half.resampled(Ratio::new(2, 1)?)?, TimebaseId(7));
    /// # Ok::<(), isochrony_time::TimeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TimeError::Overflow`] beyond 63 bits, or after 2^27 timebases of this process.
    pub fn resampled(self, ratio: Ratio) -> Result<Self, TimeError> {
        let (origin, before) = self.origin();
        let ratio = before.then(ratio)?;
        if ratio.is_one() {
            return Ok(origin);
        }
        timebase_of(TimebaseDefinition::Resampled { origin, ratio })
    }

    /// A new timebase, for this process.
    ///
    /// # Errors
    /// [`TimeError::Overflow`] after 2^27 timebases of this process.
    pub fn unique() -> Result<Self, TimeError> {
        timebase_of(TimebaseDefinition::Unique)
    }

    /// A constant rate from a civil time in ns, index 0. Equal grids share a timebase.
    ///
    /// ```
    /// use isochrony_time::{Fixed, Rate, TimebaseId};
    /// let rate = Rate::from_hz(1000)?;
    /// let grid = TimebaseId::grid(Fixed::ZERO, rate)?;
    /// assert_eq!(TimebaseId::grid(Fixed::ZERO, rate)?, grid);
    /// assert_ne!(TimebaseId::grid(Fixed::ONE, rate)?, grid);
    /// # Ok::<(), isochrony_time::TimeError>(())
    /// ```
    ///
    /// # Errors
    /// [`TimeError::Overflow`] after 2^27 timebases of this process.
    pub fn grid(start: Fixed, rate: Rate) -> Result<Self, TimeError> {
        timebase_of(TimebaseDefinition::Grid { start, rate })
    }

    /// Whether it is valid in this process only.
    #[must_use]
    pub fn is_process_local(self) -> bool {
        self.0 & ID_MARK == ID_MARK
    }

    /// Its definition.
    #[must_use]
    pub fn definition(self) -> TimebaseDefinition {
        if !self.is_process_local() {
            return TimebaseDefinition::Global(self);
        }
        let at = (self.0 & !ID_MARK) >> INDEX_SHIFT;
        let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.get(at as usize).copied();
        known.unwrap_or(TimebaseDefinition::Unique)
    }

    /// Where it was resampled from, and the ratio; else itself and one.
    #[must_use]
    pub fn origin(self) -> (Self, Ratio) {
        match self.definition() {
            TimebaseDefinition::Resampled { origin, ratio } => (origin, ratio),
            _ => (self, Ratio::ONE),
        }
    }
}
