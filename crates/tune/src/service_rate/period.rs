//! Searches for a sampling period.

use super::{PeriodSample, RateMethod, UnknownRate};

const WINDOW: u32 = 128;
/// Largest relative deviation of a stable period.
const PERIOD_TOLERANCE: f64 = 0.1;
const MAX_UNSTABLE: f64 = 1.0 / 8.0;
/// Ratio of the bounds at which the search ends.
const CLOSED: f64 = 1.25;
const MAX_IDLE_WINDOWS: u32 = 16;

/// The utilization law then needs no finer period.
pub(super) const MOSTLY_BUSY: f64 = 0.9;
/// Share of unblocked pairs with items in both, up to which single services are resolved.
const RESOLVED: f64 = 0.06;
const MIN_PAIRS: u32 = 4;
/// Fewest items per period, for the utilization law.
const MIN_ITEMS_OF_SINGLES: f64 = 1.0 / 32.0;

/// Fewest items per unblocked period, for the filtered quantile.
const MIN_ITEMS: f64 = 4.0;
/// From so many items a period is not lengthened.
const ENOUGH_ITEMS: f64 = 64.0;
/// Smallest unblocked share, for the filtered quantile.
const MIN_UNBLOCKED: f64 = 0.1;

enum Verdict {
    /// Unusable: longer.
    TooShort,
    /// Unusable: shorter.
    TooLong,
    /// Usable, but a longer one may be better.
    Longer,
    Fits,
    NoItems,
}

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    samples: u32,
    unstable: u32,
    unblocked: u32,
    unblocked_items: u64,
    items: u64,
    pairs: u32,
    pairs_with_both: u32,
}

pub(super) enum Found {
    Period(f64),
    Failure(UnknownRate),
}

/// Bisection between the longest too short and the shortest too long period.
#[derive(Debug, Clone)]
pub(super) struct PeriodSearch {
    method: RateMethod,
    min_s: f64,
    max_s: f64,
    period_s: f64,
    too_short_s: Option<f64>,
    too_long_s: Option<f64>,
    usable_s: Option<f64>,
    /// Tries half of a fitting period.
    is_margin: bool,
    unstable_at: Option<f64>,
    idle_windows: u32,
    window: Window,
    previous: Option<bool>,
}

impl PeriodSearch {
    pub(super) fn new(method: RateMethod, min_s: f64, max_s: f64, first_s: f64) -> Self {
        Self {
            method,
            min_s,
            max_s,
            period_s: first_s.clamp(min_s, max_s),
            too_short_s: None,
            too_long_s: None,
            usable_s: None,
            is_margin: false,
            unstable_at: None,
            idle_windows: 0,
            window: Window::default(),
            previous: None,
        }
    }

    pub(super) fn period_s(&self) -> f64 {
        self.period_s
    }

    pub(super) fn push(&mut self, sample: &PeriodSample, blocked: bool) -> Option<Found> {
        let window = &mut self.window;
        let off = (sample.elapsed_s - self.period_s).abs() > PERIOD_TOLERANCE * self.period_s;
        window.samples += 1;
        window.unstable += u32::from(off);
        window.items += sample.items;
        if !blocked {
            window.unblocked += 1;
            window.unblocked_items += sample.items;
            if let Some(had_items) = self.previous {
                window.pairs += 1;
                window.pairs_with_both += u32::from(had_items && sample.items > 0);
            }
        }
        self.previous = (!blocked).then_some(sample.items > 0);
        if window.samples < WINDOW {
            return None;
        }
        let verdict = match self.method {
            RateMethod::UtilizationLaw => window.verdict_for_singles(),
            RateMethod::FilteredQuantile => window.verdict_for_counts(),
        };
        if window.is_unstable() {
            self.unstable_at = Some(self.period_s);
        }
        self.window = Window::default();
        self.previous = None;
        self.judge(verdict)
    }

    fn judge(&mut self, verdict: Verdict) -> Option<Found> {
        let here = self.period_s;
        if !matches!(verdict, Verdict::NoItems) {
            self.idle_windows = 0;
        }
        if let (true, Some(usable)) = (self.is_margin, self.usable_s) {
            let fits = matches!(verdict, Verdict::Fits);
            self.period_s = if fits { here } else { usable };
            return Some(Found::Period(self.period_s));
        }
        match verdict {
            // A period reached from above may hide short services; half of it shows more.
            Verdict::Fits if self.needs_margin() => {
                self.usable_s = Some(here);
                self.is_margin = true;
                self.period_s = here / 2.0;
                return None;
            }
            Verdict::Fits => return Some(Found::Period(here)),
            Verdict::NoItems => {
                self.idle_windows += 1;
                if self.idle_windows < MAX_IDLE_WINDOWS {
                    return None;
                }
                let samples = u64::from(self.idle_windows * WINDOW);
                return Some(Found::Failure(UnknownRate::NeverUnblocked { samples }));
            }
            Verdict::TooShort => self.too_short_s = Some(here),
            Verdict::Longer => {
                self.too_short_s = Some(here);
                self.usable_s = Some(here);
            }
            Verdict::TooLong => self.too_long_s = Some(here),
        }
        let next = match (self.too_short_s, self.too_long_s) {
            (Some(short), Some(long)) if long <= CLOSED * short => None,
            (Some(short), Some(long)) => Some((short * long).sqrt()),
            (Some(short), None) if short >= self.max_s => None,
            (Some(short), None) => Some((2.0 * short).min(self.max_s)),
            (None, Some(long)) if long <= self.min_s => None,
            (None, Some(long)) => Some((long / 2.0).max(self.min_s)),
            (None, None) => unreachable!("the verdict set a bound"),
        };
        match (next, self.usable_s) {
            (Some(next), _) => {
                self.period_s = next;
                None
            }
            (None, Some(usable)) => Some(Found::Period(usable)),
            (None, None) => Some(Found::Failure(self.failure())),
        }
    }

    fn needs_margin(&self) -> bool {
        let reached_from_above = self.too_long_s.is_some();
        let resolves_services = self.method == RateMethod::UtilizationLaw;
        resolves_services && reached_from_above && self.period_s / 2.0 >= self.min_s
    }

    fn failure(&self) -> UnknownRate {
        match (self.unstable_at, self.too_short_s, self.too_long_s) {
            (_, None, _) => UnknownRate::PeriodTooLong {
                period_s: self.period_s,
            },
            (Some(period_s), _, None) => UnknownRate::PeriodUnstable { period_s },
            (_, Some(period_s), None) => UnknownRate::TooFewItems { period_s },
            (_, Some(too_short_s), Some(too_long_s)) => UnknownRate::NoPeriod {
                too_short_s,
                too_long_s,
            },
        }
    }
}

impl Window {
    fn is_unstable(&self) -> bool {
        f64::from(self.unstable) > MAX_UNSTABLE * f64::from(self.samples)
    }

    fn unblocked_share(&self) -> f64 {
        f64::from(self.unblocked) / f64::from(self.samples)
    }

    fn items_per_unblocked(&self) -> f64 {
        self.unblocked_items as f64 / f64::from(self.unblocked.max(1))
    }

    fn verdict_for_singles(&self) -> Verdict {
        if self.is_unstable() {
            return Verdict::TooShort;
        }
        if self.items == 0 && self.unblocked == 0 {
            return Verdict::NoItems;
        }
        let mostly_busy = self.unblocked_share() >= MOSTLY_BUSY;
        if !mostly_busy {
            let both = f64::from(self.pairs_with_both);
            if self.pairs < MIN_PAIRS || both > RESOLVED * f64::from(self.pairs) {
                return Verdict::TooLong;
            }
        }
        // A server that waits before each item has items in blocked periods only.
        if (self.items as f64) < MIN_ITEMS_OF_SINGLES * f64::from(self.samples) {
            return Verdict::TooShort;
        }
        Verdict::Fits
    }

    fn verdict_for_counts(&self) -> Verdict {
        if self.is_unstable() {
            return Verdict::TooShort;
        }
        if self.items == 0 && self.unblocked == 0 {
            return Verdict::NoItems;
        }
        if self.unblocked_share() < MIN_UNBLOCKED {
            return Verdict::TooLong;
        }
        let items = self.items_per_unblocked();
        if items < MIN_ITEMS {
            return Verdict::TooShort;
        }
        if self.unblocked == self.samples && items < ENOUGH_ITEMS {
            return Verdict::Longer;
        }
        Verdict::Fits
    }
}
