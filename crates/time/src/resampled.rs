//! Timebases that no store has: of resampled signals, of feeds, of made samples; in a table of the process.
//!
//! Those of resampled signals are named by the timebase that they come of and the ratio.
//! Index `j` of one lies at `j * down / up` of its origin, exactly, wherever that is: no clock and no stretch takes part.
//! So what comes of one timebase by one ratio shares a timebase, by whatever way: halving twice is a quarter, and up two
//! and down two is the origin itself. Their numbers have the highest bit and the last four set, as those of no signal
//! and of no level of its views, and mean something in this process only; the table grows with the ratios that are used.

use std::sync::{Mutex, PoisonError};

use crate::{Fixed, Rate, Ratio, TimeError, TimebaseId};

/// Bits of these numbers; those between are a place in the table.
const MARK: u32 = 0x8000_000f;
/// Where the place begins.
const PLACE: u32 = 4;

/// What a timebase of this process is.
#[derive(Clone, Copy, PartialEq)]
enum Entry {
    /// It comes of another by a ratio.
    Resampled(TimebaseId, Ratio),
    /// Index 0 is at a civil time, and the rest follows at a rate: whatever else is so shares it.
    Grid(Fixed, Rate),
    /// It is nobody else's.
    Unique,
}

static TABLE: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// The timebase of an entry, which is added unless it is there.
fn timebase_of(entry: Entry) -> Result<TimebaseId, TimeError> {
    // A panic while the lock is held leaves the table whole.
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = match entry {
        Entry::Unique => None,
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
        timebase_of(Entry::Resampled(origin, ratio))
    }

    /// A timebase that nothing else has, as of a feed: its indices mean something in this process only.
    ///
    /// # Errors
    /// [`TimeError::Overflow`] after 2^27 of them.
    pub fn unique() -> Result<Self, TimeError> {
        timebase_of(Entry::Unique)
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
        timebase_of(Entry::Grid(start, rate))
    }

    /// Whether its number means something in this process only: that of no signal.
    #[must_use]
    pub fn is_of_process(self) -> bool {
        self.0 & MARK == MARK
    }

    /// The timebase that this one comes of, and the ratio: itself and one, unless it was resampled.
    #[must_use]
    pub fn origin(self) -> (Self, Ratio) {
        if !self.is_of_process() {
            return (self, Ratio::ONE);
        }
        let at = (self.0 & !MARK) >> PLACE;
        let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        match table.get(at as usize) {
            Some(&Entry::Resampled(origin, ratio)) => (origin, ratio),
            _ => (self, Ratio::ONE),
        }
    }
}
