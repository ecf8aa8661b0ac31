//! Timebases of resampled signals: named by the timebase that they come of and the ratio, in a table of the process.
//!
//! Index `j` of one lies at `j * down / up` of its origin, exactly, wherever that is: no clock and no stretch takes part.
//! So what comes of one timebase by one ratio shares a timebase, by whatever way: halving twice is a quarter, and up two
//! and down two is the origin itself. Their numbers have the highest bit and the last four set, as those of no signal
//! and of no level of its views, and mean something in this process only; the table grows with the ratios that are used.

use std::sync::{Mutex, PoisonError};

use crate::{Ratio, TimeError, TimebaseId};

/// Bits of these numbers; those between are a place in the table.
const MARK: u32 = 0x8000_000f;
/// Where the place begins.
const PLACE: u32 = 4;

static TABLE: Mutex<Vec<(TimebaseId, Ratio)>> = Mutex::new(Vec::new());

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
        let entry = (origin, before.then(ratio)?);
        if entry.1.is_one() {
            return Ok(origin);
        }
        // A panic while the lock is held leaves the table whole.
        let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        let known = table.iter().position(|known| *known == entry);
        let at = known.unwrap_or(table.len());
        let place = u32::try_from(at).ok();
        let place = place.filter(|at| at >> (31 - PLACE) == 0);
        let place = place.ok_or(TimeError::Overflow {
            what: "number of resampled timebases",
        })?;
        if known.is_none() {
            table.push(entry);
        }
        Ok(Self(MARK | place << PLACE))
    }

    /// The timebase that this one comes of, and the ratio: itself and one, unless it was resampled.
    #[must_use]
    pub fn origin(self) -> (Self, Ratio) {
        if self.0 & MARK != MARK {
            return (self, Ratio::ONE);
        }
        let at = (self.0 & !MARK) >> PLACE;
        let table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
        table
            .get(at as usize)
            .copied()
            .unwrap_or((self, Ratio::ONE))
    }
}
