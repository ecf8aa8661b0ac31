//! Successive peaks of a row.

use crate::isa::{Isa, Kernel, Level};
use crate::spectrum::Precision;

/// Which value is the peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extreme {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// The largest magnitude.
    Abs,
}

impl Extreme {
    /// Names, in order.
    pub const NAMES: [&'static str; 3] = ["max", "min", "abs"];

    /// Parses a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Max, Self::Min, Self::Abs]
            .into_iter()
            .find(|known| Self::NAMES[*known as usize] == name)
    }
}

/// A peak of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Peak<T> {
    /// Position in the row, from 0.
    pub at: usize,
    /// Value, with its sign.
    pub value: T,
}

/// Fills `peaks`: the row's extreme value, then that from `skip` positions behind it, and so on. None if the rest is
/// empty or NaN.
///
/// Of equal values the first counts. A `skip` of 0 is 1. Source: XStream's `trimpeak` (Girod et al. 2008, figure 3).
///
/// ```
/// use isochrony_dsp::features::{Extreme, Peak, trim_peaks};
/// let mut peaks = [None; 2];
/// trim_peaks(&[1.0, 7.0, 6.0, 2.0, 4.0], Extreme::Max, 2, &mut peaks);
/// assert_eq!(peaks, [Some(Peak { at: 1, value: 7.0 }), Some(Peak { at: 4, value: 4.0 })]);
/// ```
pub fn trim_peaks<T: Precision>(
    row: &[T],
    extreme: Extreme,
    skip: usize,
    peaks: &mut [Option<Peak<T>>],
) {
    let mut from = 0;
    for peak in peaks {
        *peak = first_extreme(row, from, extreme);
        from = match *peak {
            Some(peak) => peak.at.saturating_add(skip.max(1)),
            None => row.len(),
        };
    }
}

fn first_extreme<T: Precision>(row: &[T], from: usize, extreme: Extreme) -> Option<Peak<T>> {
    let row = row.get(from..)?;
    let isa = Isa::best();
    let at = match extreme {
        Extreme::Max => isa.run(FirstLargest(row, |value: T| value)),
        Extreme::Min => isa.run(FirstLargest(row, |value: T| -value)),
        Extreme::Abs => isa.run(FirstLargest(row, |value: T| value.abs())),
    };
    at.map(|at| Peak {
        at: from + at,
        value: row[at],
    })
}

/// Independent comparisons that hide latency.
const SIDE: usize = 32;

/// None if all are NaN.
struct FirstLargest<'a, T, F>(&'a [T], F);

impl<T: Precision, F: Fn(T) -> T> Kernel for FirstLargest<'_, T, F> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run<L: Level>(self, _level: L) -> Option<usize> {
        let Self(row, size) = self;
        let (groups, rest) = row.as_chunks::<SIDE>();
        // NaN is never larger.
        let larger = |best: T, value: T| if value > best { value } else { best };
        let mut lanes = [T::neg_infinity(); SIDE];
        for group in groups {
            for (lane, &value) in lanes.iter_mut().zip(group) {
                *lane = larger(*lane, size(value));
            }
        }
        let largest = lanes.into_iter().fold(T::neg_infinity(), larger);
        let largest = rest
            .iter()
            .fold(largest, |best, &value| larger(best, size(value)));
        let is_in = |group: &[T; SIDE]| {
            let mut found = false;
            for &value in group {
                found |= size(value) == largest;
            }
            found
        };
        let before = match groups.iter().position(is_in) {
            Some(group) => group * SIDE,
            None => groups.len() * SIDE,
        };
        let place = row[before..]
            .iter()
            .position(|&value| size(value) == largest);
        place.map(|place| before + place)
    }
}
