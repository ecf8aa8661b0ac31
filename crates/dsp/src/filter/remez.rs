//! Equiripple FIR design: Parks-McClellan.
//!
//! Symmetric taps have the response `c(f) P(cos 2 pi f)`, where `c` is 1 for an odd number of taps and `cos pi f` for
//! an even one, and P is a polynomial. P is optimal if its largest error, with alternating sign, occurs at one more
//! point than it has coefficients. The exchange alternates between the polynomial with equal errors at given points and
//! the extremes of its error. Source: J. H. McClellan, T. W. Parks, L. R. Rabiner, IEEE Trans. Audio Electroacoust. 21
//! (1973), with barycentric interpolation (R. Pachón and L. N. Trefethen, BIT 49 (2009)).

use std::f64::consts::PI;

use super::fir_design::count;
use super::parameter_error;
use crate::DspError;

const DENSITY: usize = 16;
const MAX_EXCHANGES: usize = 60;
/// Time is quadratic.
const MAX_TAPS: usize = 2048;

/// A band and its desired response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FirBand {
    /// Start in Hz.
    pub from_hz: f64,
    /// End in Hz.
    pub to_hz: f64,
    /// Desired gain.
    pub gain: f64,
    /// Weight of errors.
    pub weight: f64,
}

#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    desired: f64,
    weight: f64,
    edge: bool,
}

/// In barycentric form.
struct Interpolant {
    x: Vec<f64>,
    values: Vec<f64>,
    weights: Vec<f64>,
}

impl Interpolant {
    fn at(&self, x: f64) -> f64 {
        let (mut above, mut below) = (0.0, 0.0);
        for ((node, value), weight) in self.x.iter().zip(&self.values).zip(&self.weights) {
            if x == *node {
                return *value;
            }
            let share = weight / (x - node);
            above += share * value;
            below += share;
        }
        above / below
    }
}

/// Logarithms do not overflow; a common factor cancels.
fn barycentric(x: &[f64]) -> Vec<f64> {
    let logs: Vec<(f64, bool)> = x
        .iter()
        .enumerate()
        .map(|(i, xi)| {
            let others = x.iter().enumerate().filter(|(j, _)| *j != i);
            others.fold((0.0, false), |(log, negative), (_, xj)| {
                let by = xi - xj;
                (log - by.abs().ln(), negative ^ (by < 0.0))
            })
        })
        .collect();
    let most = logs.iter().map(|(log, _)| *log).fold(f64::MIN, f64::max);
    let weight = |(log, negative): (f64, bool)| {
        let size = (log - most).exp();
        if negative { -size } else { size }
    };
    logs.into_iter().map(weight).collect()
}

fn checked(operator: &'static str, bands: &[FirBand], rate: f64) -> Result<(), DspError> {
    let edges: Vec<f64> = bands
        .iter()
        .flat_map(|band| [band.from_hz, band.to_hz])
        .collect();
    let inside = edges.iter().all(|hz| (0.0..=rate / 2.0).contains(hz));
    let ascending = edges.windows(2).all(|pair| pair[0] < pair[1]);
    if bands.is_empty() || !inside || !ascending {
        let allowed = format!(
            "ascending frequencies from 0 to half the rate, {} Hz, two per band",
            rate / 2.0
        );
        return Err(parameter_error(
            operator,
            "edges_hz",
            format!("{edges:?}"),
            allowed,
        ));
    }
    if let Some(band) = bands.iter().find(|band| !band.gain.is_finite()) {
        return Err(parameter_error(
            operator,
            "gains",
            band.gain.to_string(),
            "finite numbers, one a band",
        ));
    }
    if let Some(band) = bands
        .iter()
        .find(|band| !(band.weight > 0.0 && band.weight.is_finite()))
    {
        let allowed = "numbers above 0, one a band";
        return Err(parameter_error(
            operator,
            "weights",
            band.weight.to_string(),
            allowed,
        ));
    }
    Ok(())
}

/// Even numbers of taps exclude half the rate.
fn grid(bands: &[FirBand], rate: f64, coefficients: usize, odd: bool) -> Vec<Point> {
    let step = 0.5 / (DENSITY * coefficients) as f64;
    let mut grid = Vec::new();
    for band in bands {
        let (from, to) = (band.from_hz / rate, band.to_hz / rate);
        let to = if odd { to } else { to.min(0.5 - step) };
        let count = (((to - from) / step).round() as usize).max(1);
        for k in 0..=count {
            let f = from + (to - from) * k as f64 / count as f64;
            let shape = if odd { 1.0 } else { (PI * f).cos() };
            grid.push(Point {
                x: (2.0 * PI * f).cos(),
                desired: band.gain / shape,
                weight: band.weight * shape,
                edge: k == 0 || k == count,
            });
        }
    }
    grid
}

/// The `wanted` extremes with alternating sign; None if fewer.
fn extremes(errors: &[f64], grid: &[Point], wanted: usize) -> Option<Vec<usize>> {
    let mut found: Vec<usize> = Vec::new();
    for (at, error) in errors.iter().enumerate() {
        let before =
            at > 0 && !first_of_band(grid, at) && errors[at - 1] * error.signum() > error.abs();
        let after = at + 1 < errors.len()
            && !first_of_band(grid, at + 1)
            && errors[at + 1] * error.signum() >= error.abs();
        if before || after || *error == 0.0 {
            continue;
        }
        match found.last() {
            Some(&last) if (errors[last] > 0.0) == (*error > 0.0) => {
                if error.abs() > errors[last].abs() {
                    found.pop();
                    found.push(at);
                }
            }
            _ => found.push(at),
        }
    }
    while found.len() > wanted {
        let size = |at: usize| errors[found[at]].abs();
        let last = found.len() - 1;
        if found.len() == wanted + 1 {
            found.remove(if size(0) < size(last) { 0 } else { last });
            continue;
        }
        // Drop a pair: signs still alternate.
        let pair = |at: usize| size(at).max(size(at + 1));
        let least = (0..last).min_by(|&i, &j| pair(i).total_cmp(&pair(j)))?;
        found.drain(least..least + 2);
    }
    (found.len() == wanted).then_some(found)
}

fn first_of_band(grid: &[Point], at: usize) -> bool {
    grid[at].edge && at > 0 && grid[at - 1].edge
}

/// Symmetric taps of least maximal weighted error, as SciPy's `remez`.
///
/// # Errors
/// [`DspError::Parameter`] for bands that do not ascend from 0 to half the rate, weights that are not positive, taps
/// outside 3 to 2,048, or an even number to pass half the rate; [`DspError::NotConverged`].
///
/// ```
/// use isochrony_dsp::filter::{FirBand, remez};
///
/// let pass = FirBand { from_hz: 0.0, to_hz: 10.0, gain: 1.0, weight: 1.0 };
/// let stop = FirBand { from_hz: 15.0, to_hz: 50.0, gain: 0.0, weight: 10.0 };
/// let taps = remez("fir", 51, &[pass, stop], 100.0)?;
/// assert!((taps.iter().sum::<f64>() - 1.0).abs() < 0.02);
/// # Ok::<(), isochrony_dsp::DspError>(())
/// ```
pub fn remez(
    operator: &'static str,
    taps: usize,
    bands: &[FirBand],
    rate: f64,
) -> Result<Vec<f64>, DspError> {
    count(operator, taps)?;
    if !(3..=MAX_TAPS).contains(&taps) {
        let allowed = format!("from 3 to {MAX_TAPS} for an equiripple design");
        return Err(parameter_error(operator, "taps", taps.to_string(), allowed));
    }
    checked(operator, bands, rate)?;
    let odd = !taps.is_multiple_of(2);
    if let (false, Some(last)) = (odd, bands.last())
        && last.to_hz == rate / 2.0
        && last.gain != 0.0
    {
        let allowed = "odd for a filter that passes half the rate";
        return Err(parameter_error(operator, "taps", taps.to_string(), allowed));
    }
    let coefficients = taps.div_ceil(2);
    let grid = grid(bands, rate, coefficients, odd);
    let wanted = coefficients + 1;
    if grid.len() < wanted {
        let allowed = "wide enough for this number of taps";
        return Err(parameter_error(operator, "edges_hz", "too narrow", allowed));
    }
    let mut chosen: Vec<usize> = (0..wanted)
        .map(|k| k * (grid.len() - 1) / (wanted - 1))
        .collect();
    let mut ripple = 0.0;
    for _ in 0..MAX_EXCHANGES {
        let x: Vec<f64> = chosen.iter().map(|&at| grid[at].x).collect();
        let weights = barycentric(&x);
        let (mut above, mut below) = (0.0, 0.0);
        for (k, (&at, weight)) in chosen.iter().zip(&weights).enumerate() {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            above += weight * grid[at].desired;
            below += sign * weight / grid[at].weight;
        }
        let level = above / below;
        let value = |(k, &at): (usize, &usize)| {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            grid[at].desired - sign * level / grid[at].weight
        };
        let polynomial = Interpolant {
            values: chosen.iter().enumerate().map(value).collect(),
            x,
            weights,
        };
        let error = |point: &Point| (polynomial.at(point.x) - point.desired) * point.weight;
        let errors: Vec<f64> = grid.iter().map(error).collect();
        let most = errors
            .iter()
            .fold(0.0f64, |most, error| most.max(error.abs()));
        ripple = most / level.abs() - 1.0;
        // Rounding changes more than further exchanges.
        if ripple < 1e-9 || most < 1e-13 {
            return Ok(taps_of_response(&polynomial, taps, odd));
        }
        match extremes(&errors, &grid, wanted) {
            Some(next) if next != chosen => chosen = next,
            Some(_) if ripple < 1e-5 => return Ok(taps_of_response(&polynomial, taps, odd)),
            _ => break,
        }
    }
    Err(DspError::NotConverged {
        operator,
        taps,
        uneven: ripple,
    })
}

/// A cosine transform at as many frequencies as taps.
fn taps_of_response(polynomial: &Interpolant, taps: usize, odd: bool) -> Vec<f64> {
    let half = taps.div_ceil(2);
    let angle = |k: usize| 2.0 * PI * k as f64 / taps as f64;
    let response: Vec<f64> = (0..half)
        .map(|k| polynomial.at(angle(k).cos()) * if odd { 1.0 } else { (angle(k) / 2.0).cos() })
        .collect();
    let middle = (taps - 1) as f64 / 2.0;
    let mut result = vec![0.0; taps];
    for n in 0..half {
        let terms = response.iter().enumerate().skip(1);
        let sum: f64 = terms
            .map(|(k, gain)| 2.0 * gain * (angle(k) * (n as f64 - middle)).cos())
            .sum();
        result[n] = (response[0] + sum) / taps as f64;
        result[taps - 1 - n] = result[n];
    }
    result
}
