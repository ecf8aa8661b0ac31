//! Timebases that no store has: of resampled signals, of feeds, of made samples; in a table of the process.
//!
//! Those of resampled signals are named by the timebase that they come of and the ratio.
//! Index `j` of one lies at `j * down / up` of its origin, exactly, wherever that is: no clock and no stretch takes part.
//! So what comes of one timebase by one ratio shares a timebase, by whatever way: halving twice is a quarter, and up two
//! and down two is the origin itself. Their numbers have the highest bit and the last four set, as those of no signal
//! and of no level of its views, and mean something in this process only; the table grows with the ratios that are used.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::{Fixed, Rate, Ratio, TimeError, TimebaseId};

/// Bits of these numbers; those between are a place in the table.
const MARK: u32 = 0x8000_000f;
/// Where the place begins.
const PLACE: u32 = 4;

/// What a timebase is, so that another process can have the same one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimebaseDefinition {
    /// That of a signal: its number means the same everywhere.
    Signal(TimebaseId),
    /// It comes of another by a ratio: of one that was not resampled itself.
    Resampled {
        /// Where it comes from.
        origin: TimebaseId,
        /// Samples of it for each of the origin.
        ratio: Ratio,
    },
    /// Index 0 is at a civil time, and the rest follows at a rate: whatever else is so shares it.
    Grid {
        /// Time of index 0, in ns since 1970.
        start: Fixed,
        /// Samples per second.
        rate: Rate,
    },
    /// It is nobody else's.
    Unique,
}

static TABLE: Mutex<Vec<TimebaseDefinition>> = Mutex::new(Vec::new());

/// The timebase of an entry, which is added unless it is there.
fn timebase_of(entry: TimebaseDefinition) -> Result<TimebaseId, TimeError> {
    // A panic while the lock is held leaves the table whole.
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = match entry {
        TimebaseDefinition::Unique => None,
        _ => table.iter().position(|known| *known == entry),
    };
    let at = known.unwrap_or(table.len());
    let place = u32::try_from(at).ok();
    let place = place.filter(|at| at >> (31 - PLACE) == 0);
    let place = place.ok_or(TimeError::Overflow {
        what: "number of timebases of this process",
    })?;
    if known.is_none() {
        table.push(entry);
    }
    Ok(TimebaseId(MARK | place << PLACE))
}

impl TimebaseId {
    /// The timebase that has `ratio` times as many samples as this one, index 0 at its index 0.
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
    /// [`TimeError::Overflow`] for a ratio to the origin beyond 63 bits, or after 2^27 different ones.
    pub fn resampled(self, ratio: Ratio) -> Result<Self, TimeError> {
        let (origin, before) = self.origin();
        let ratio = before.then(ratio)?;
        if ratio.is_one() {
            return Ok(origin);
        }
        timebase_of(TimebaseDefinition::Resampled { origin, ratio })
    }

    /// A timebase that nothing else has, as of a feed: its indices mean something in this process only.
    ///
    /// # Errors
    /// [`TimeError::Overflow`] after 2^27 of them.
    pub fn unique() -> Result<Self, TimeError> {
        timebase_of(TimebaseDefinition::Unique)
    }

    /// The timebase whose index 0 is at a civil time, in ns, and whose other indices follow at a rate. Equal ones are
    /// one timebase: their indices are the same times.
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
    /// [`TimeError::Overflow`] after 2^27 different ones.
    pub fn grid(start: Fixed, rate: Rate) -> Result<Self, TimeError> {
        timebase_of(TimebaseDefinition::Grid { start, rate })
    }

    /// Whether its number means something in this process only: that of no signal.
    #[must_use]
    pub fn is_of_process(self) -> bool {
        self.0 & MARK == MARK
    }

    /// What it is.
    #[must_use]
    pub fn definition(self) -> TimebaseDefinition {
        if !self.is_of_process() {
            return TimebaseDefinition::Signal(self);
        }
        let at = (self.0 & !MARK) >> PLACE;
        let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.get(at as usize).copied();
        known.unwrap_or(TimebaseDefinition::Unique)
    }

    /// The timebase that this one comes of, and the ratio: itself and one, unless it was resampled.
    #[must_use]
    pub fn origin(self) -> (Self, Ratio) {
        match self.definition() {
            TimebaseDefinition::Resampled { origin, ratio } => (origin, ratio),
            _ => (self, Ratio::ONE),
        }
    }
}
