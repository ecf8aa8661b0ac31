//! Weights of a stage: a Kaiser-windowed sinc at each phase.
//!
//! Source: A. V. Oppenheim and R. W. Schafer, "Discrete-Time Signal Processing", 3rd edition, 7.5 (window); J. O. Smith
//! and P. Gossett, "A flexible sampling-rate conversion method", ICASSP 1984 (interpolated phases).

use std::f64::consts::PI;

use isochrony_time::Ratio;

use super::vectors::VECTOR_BYTES;
use crate::DspError;
use crate::filter::{bessel_i0, kaiser_beta, parameter_error};
use crate::spectrum::Precision;

/// A vector of f32.
pub(super) const LANES: usize = VECTOR_BYTES / size_of::<f32>();
const MAX_TAPS: f64 = 1_048_576.0;
/// A megabyte of f64.
const MAX_STORED_WEIGHTS: u64 = 1 << 17;

/// Band edges are in cycles per input sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spec {
    pub(super) ratio: Ratio,
    pub(super) pass: f64,
    pub(super) stop: f64,
    pub(super) attenuation_db: f64,
}

/// `width` is in cycles per sample.
pub(super) fn taps_for(attenuation_db: f64, width: f64) -> f64 {
    ((attenuation_db - 7.95) / (2.285 * 2.0 * PI * width) + 3.0).ceil()
}

pub(super) fn has_rows(spec: &Spec) -> bool {
    let taps = taps_for(spec.attenuation_db, spec.stop - spec.pass) as u64;
    let all = spec
        .ratio
        .up()
        .saturating_mul(taps.saturating_add(3 * LANES as u64));
    spec.ratio.up() == 1 || all <= MAX_STORED_WEIGHTS
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Weights<T> {
    pub(super) taps: usize,
    /// Taps at or before the result's position.
    pub(super) before: usize,
    /// Maximum distance of two results that share a window; 0 if not shared.
    pub(super) shift: usize,
    pub(super) table: Table<T>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Table<T> {
    /// A row per phase, of `up` results.
    Rows(Vec<T>),
    /// Four coefficients per weight.
    Cubics { phases: u64, coefficients: Vec<T> },
}

/// By the distance from a result, in input samples.
struct Lowpass {
    cutoff: f64,
    beta: f64,
    reach: f64,
}

impl Lowpass {
    fn at(&self, distance: f64) -> f64 {
        let part = distance / self.reach;
        if part.abs() >= 1.0 {
            return 0.0;
        }
        let x = 2.0 * self.cutoff * distance;
        let sinc = if x == 0.0 {
            1.0
        } else {
            (PI * x).sin() / (PI * x)
        };
        sinc * bessel_i0(self.beta * ((1.0 - part) * (1.0 + part)).sqrt())
    }

    /// Weights with sum 1.
    fn row(&self, part: f64, taps: usize) -> impl Iterator<Item = f64> {
        let first = 1.0 - self.reach;
        let row: Vec<f64> = (0..taps)
            .map(|k| self.at(first + k as f64 - part))
            .collect();
        let sum: f64 = row.iter().sum();
        row.into_iter().map(move |weight| weight / sum)
    }
}

impl<T: Precision> Weights<T> {
    /// # Errors
    /// [`DspError::Parameter`] if it needs too many weights.
    pub(super) fn new(operator: &'static str, spec: &Spec) -> Result<Self, DspError> {
        if spec.ratio.is_one() {
            return Ok(Self {
                taps: 1,
                before: 1,
                shift: 0,
                table: Table::Rows(vec![T::of(1.0)]),
            });
        }
        let taps = taps_for(spec.attenuation_db, spec.stop - spec.pass);
        if taps > MAX_TAPS {
            let allowed = format!(
                "such that a result depends on at most {MAX_TAPS} samples; it would need {taps:.0}"
            );
            let got = spec.ratio.to_string();
            return Err(parameter_error(operator, "up/down", got, allowed));
        }
        let (up, down) = (spec.ratio.up(), spec.ratio.down());
        let least = (taps as usize).next_multiple_of(2);
        let kept = has_rows(spec);
        // Neighbouring windows mostly overlap.
        let shift = match kept && up > 1 && down > 1 && down < 2 * up {
            true => down.div_ceil(up) as usize,
            false => 0,
        };
        let (taps, even) = match (kept, up > 1 && down == 1) {
            (true, true) => (least, least),
            (true, false) => {
                let taps = (least + shift).next_multiple_of(LANES);
                (taps, (taps - shift) / 2 * 2)
            }
            (false, _) => {
                let taps = least.next_multiple_of(2 * LANES);
                (taps, taps)
            }
        };
        let lowpass = Lowpass {
            cutoff: 0.5 * (spec.pass + spec.stop),
            beta: kaiser_beta(spec.attenuation_db),
            reach: even as f64 / 2.0,
        };
        let table = if kept {
            let rows = (0..up).flat_map(|turn| {
                let place = |turn: u64| (turn * down / up, turn * down % up);
                let (at, phase) = place(turn);
                let (from, _) = place(if shift > 0 { turn / 2 * 2 } else { turn });
                lowpass.row((at - from) as f64 + phase as f64 / up as f64, taps)
            });
            Table::Rows(rows.map(T::of).collect())
        } else {
            cubics(&lowpass, taps, spec)
        };
        Ok(Self {
            taps,
            before: even / 2,
            shift,
            table,
        })
    }
}

/// Dense enough for the lowpass's accuracy.
fn cubics<T: Precision>(lowpass: &Lowpass, taps: usize, spec: &Spec) -> Table<T> {
    // A cubic's error is at most 3 w^4 / 128 for a sine of w radians per phase; it gets half the tolerance.
    let error = 10f64.powf(-spec.attenuation_db / 20.0) / 2.0;
    let steepest = 2.0 * PI * spec.stop;
    let phases = (steepest / (error * 128.0 / 3.0).powf(0.25))
        .ceil()
        .max(1.0);
    let row = |phase: f64| -> Vec<f64> { lowpass.row(phase / phases, taps).collect() };
    let mut near = [row(-1.0), row(0.0), row(1.0), row(2.0)];
    let mut coefficients = Vec::with_capacity(4 * taps * phases as usize);
    for phase in 0..phases as u64 {
        let [a, b, c, d] = &near;
        let vector = VECTOR_BYTES / size_of::<T>();
        for from in (0..taps).step_by(vector) {
            let lanes = from..from + vector;
            let terms: [&dyn Fn(usize) -> f64; 4] = [
                &|k| b[k],
                &|k| c[k] - a[k] / 3.0 - b[k] / 2.0 - d[k] / 6.0,
                &|k| (a[k] + c[k]) / 2.0 - b[k],
                &|k| (d[k] - a[k]) / 6.0 + (b[k] - c[k]) / 2.0,
            ];
            for term in terms {
                coefficients.extend(lanes.clone().map(|k| T::of(term(k))));
            }
        }
        near.rotate_left(1);
        near[3] = row(phase as f64 + 3.0);
    }
    Table::Cubics {
        phases: phases as u64,
        coefficients,
    }
}
