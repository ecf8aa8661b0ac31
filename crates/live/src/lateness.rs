//! Position of a silent source by its sampling clock. Pure: callers pass the time.
//!
//! If a frame that begins at index `n` arrives at time `t` and nothing follows, the clock is at `n + rate * (now - t)`,
//! and samples more than `lateness` before that are given up. Civil times of samples do not count: a sender with a
//! wrong clock or an old recording is not late.
//!
//! The next frame is due when it would begin, so packets need no larger `lateness` than their jitter.

use std::time::Duration;

use isochrony_time::Rate;

/// Interval of progress marks in a silence; each wakes operators.
pub(crate) const MARK_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(crate) struct SilenceClock {
    rate: f64,
    lateness: Option<Duration>,
    latest: Option<LatestArrival>,
}

#[derive(Debug, Clone, Copy)]
struct LatestArrival {
    first: u64,
    end: u64,
    at: Duration,
}

impl SilenceClock {
    /// Without a lateness nothing is given up.
    pub(crate) fn new(rate: Rate, lateness: Option<Duration>) -> Self {
        Self {
            rate: rate.to_f64(),
            lateness,
            latest: None,
        }
    }

    pub(crate) fn lateness(&self) -> Option<Duration> {
        self.lateness
    }

    /// Only the furthest frame counts. An empty range: the next is due now.
    pub(crate) fn note(&mut self, first: u64, end: u64, at: Duration) {
        let is_latest = |latest: LatestArrival| (first, end) > (latest.first, latest.end);
        if self.latest.is_none_or(is_latest) {
            let end = self.latest.map_or(end, |latest| end.max(latest.end));
            self.latest = Some(LatestArrival { first, end, at });
        }
    }

    pub(crate) fn restart(&mut self) {
        self.latest = None;
    }

    /// All missing samples before this index are given up. None: nothing after the latest samples.
    pub(crate) fn given_up_at(&self, now: Duration) -> Option<u64> {
        let (latest, lateness) = (self.latest?, self.lateness?);
        let overdue = now.checked_sub(latest.at)?.checked_sub(lateness)?;
        let upto = latest
            .first
            .saturating_add((overdue.as_secs_f64() * self.rate) as u64);
        (upto > latest.end).then_some(upto)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn clock(lateness: Option<Duration>) -> SilenceClock {
        SilenceClock::new(Rate::from_hz(1000).unwrap(), lateness)
    }

    #[test]
    fn a_silent_source_advances_at_its_rate_after_its_lateness() {
        let mut clock = clock(Some(ms(200)));
        assert_eq!(clock.given_up_at(ms(9000)), None);
        clock.note(100, 150, ms(1000));
        // At 1000 ms it was at 100; what is due at 1050 is 200 ms late at 1250.
        assert_eq!(clock.given_up_at(ms(1250)), None);
        assert_eq!(clock.given_up_at(ms(1251)), Some(151));
        assert_eq!(clock.given_up_at(ms(3200)), Some(2100));
        clock.note(50, 100, ms(3000));
        assert_eq!(clock.given_up_at(ms(3200)), Some(2100));
        clock.restart();
        assert_eq!(clock.given_up_at(ms(9000)), None);
    }

    #[test]
    fn after_an_empty_range_the_next_sample_is_due() {
        let mut clock = clock(Some(ms(200)));
        clock.note(100, 100, ms(1000));
        assert_eq!(clock.given_up_at(ms(1200)), None);
        assert_eq!(clock.given_up_at(ms(1201)), Some(101));
        clock.note(100, 150, ms(1100));
        assert_eq!(clock.given_up_at(ms(1350)), None);
        assert_eq!(clock.given_up_at(ms(1351)), Some(151));
    }

    #[test]
    fn without_a_lateness_nothing_is_given_up() {
        let mut clock = clock(None);
        clock.note(0, 10, ms(0));
        assert_eq!(clock.given_up_at(ms(1 << 40)), None);
    }
}
