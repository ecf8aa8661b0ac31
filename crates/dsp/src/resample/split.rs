//! Splits large ratios into stages.
//!
//! When downsampling, a first stage may alias what the last one stops: its transition is wide, and the narrow, costly
//! one runs at a lower rate. Upsampling is the reverse. Coarse stages have integer ratios, so positions stay exact.
//!
//! Cubics cost several products per weight: a first stage with the narrow transition upsamples by a small integer, and
//! the cubics get a wide one.

use isochrony_time::Ratio;

use super::Quality;
use super::design::{Spec, has_rows, taps_for};
use crate::DspError;
use crate::filter::parameter_error;

const MAX_COARSE_RATIO: u64 = 64;
/// Products per cubic weight.
const CUBIC_COST: f64 = 5.0;
/// Cost of position and reduction, in products.
const RESULT_COST: f64 = 8.0;
const MAX_FINE_RATIO: u64 = 4;
/// Largest relative cost that is worth another pass.
const MAX_RELATIVE_COST: f64 = 0.8;
const MAX_COARSE_STAGES: usize = 3;
pub(super) const MAX_RATIO: f64 = 1_048_576.0;

impl Spec {
    fn products(&self) -> f64 {
        let taps = taps_for(self.attenuation_db, self.stop - self.pass);
        let each = if has_rows(self) { 1.0 } else { CUBIC_COST };
        each * (taps + RESULT_COST)
    }

    /// At an input rate `dense` times as high.
    fn with(self, ratio: Ratio, dense: f64, (pass, stop): (f64, f64)) -> Self {
        Self {
            ratio,
            pass: pass / dense,
            stop: stop / dense,
            ..self
        }
    }

    fn down_first(self, by: u64) -> Option<[Self; 2]> {
        let coarse = Ratio::new(1, by).ok()?;
        let rest = Ratio::new(by, 1).ok()?.then(self.ratio).ok()?;
        let folds = 1.0 / by as f64 - self.stop;
        (folds > self.pass).then(|| {
            let edges = (self.pass, self.stop);
            [
                self.with(coarse, 1.0, (self.pass, folds)),
                self.with(rest, 1.0 / by as f64, edges),
            ]
        })
    }

    fn up_first(self, by: u64) -> Option<[Self; 2]> {
        let first = Ratio::new(by, 1).ok()?;
        let rest = Ratio::new(1, by).ok()?.then(self.ratio).ok()?;
        // Images lie around multiples of the intermediate rate.
        let (dense, images) = (by as f64, by as f64 - self.stop);
        let fine = Self {
            ratio: first,
            ..self
        };
        Some([fine, self.with(rest, dense, (self.pass, images))])
    }

    fn up_last(self, by: u64) -> Option<[Self; 2]> {
        let coarse = Ratio::new(by, 1).ok()?;
        let rest = self.ratio.then(Ratio::new(1, by).ok()?).ok()?;
        // Images lie around the rate between stages.
        let dense = rest.to_f64();
        let images = dense - self.stop;
        (dense > 1.0 && images > self.pass).then(|| {
            let edges = (self.pass, images);
            [
                Self {
                    ratio: rest,
                    ..self
                },
                self.with(coarse, dense, edges),
            ]
        })
    }
}

fn cost(stages: &[Spec]) -> f64 {
    let (mut dense, mut sum) = (1.0, 0.0);
    for stage in stages {
        dense *= stage.ratio.to_f64();
        sum += stage.products() * dense;
    }
    sum / dense.max(1.0)
}

/// Greedy: splits the narrowest transition first.
fn stages_of(spec: Spec, left: usize) -> Vec<Spec> {
    let (up, down) = (spec.ratio.up(), spec.ratio.down());
    if left == 0 || up == down {
        return vec![spec];
    }
    let most = (up.max(down) / up.min(down) / 2 + 1).min(MAX_COARSE_RATIO);
    let coarse = (2..=most).filter_map(|by| match down > up {
        true => Some((spec.down_first(by)?, Some(1))),
        false => Some((spec.up_last(by)?, Some(0))),
    });
    let fine = (2..=MAX_FINE_RATIO).filter_map(|by| Some((spec.up_first(by)?, None)));
    let pairs = coarse.chain(fine.filter(|_| !has_rows(&spec)));
    let best = pairs.min_by(|(a, _), (b, _)| cost(a).total_cmp(&cost(b)));
    match best {
        Some((pair, further)) if cost(&pair) < MAX_RELATIVE_COST * cost(&[spec]) => {
            let stages = pair.into_iter().enumerate();
            let stages = stages.map(|(at, stage)| match further == Some(at) {
                true => stages_of(stage, left - 1),
                false => vec![stage],
            });
            stages.flatten().collect()
        }
        _ => vec![spec],
    }
}

/// # Errors
/// [`DspError::Parameter`] if the rates are too far apart.
pub(super) fn split(
    operator: &'static str,
    ratio: Ratio,
    quality: Quality,
) -> Result<Vec<Spec>, DspError> {
    let quality = quality.check(operator)?;
    let dense = ratio.to_f64();
    if !(1.0 / MAX_RATIO..=MAX_RATIO).contains(&dense) {
        let allowed = format!("a ratio from 1/{MAX_RATIO} to {MAX_RATIO}");
        return Err(parameter_error(
            operator,
            "up/down",
            ratio.to_string(),
            allowed,
        ));
    }
    let stop = 0.5 * dense.min(1.0);
    let spec = Spec {
        ratio,
        pass: quality.passband * stop,
        stop,
        attenuation_db: quality.attenuation_db,
    };
    let mut stages = stages_of(spec, MAX_COARSE_STAGES);
    // Errors of stages add up.
    let more = 20.0 * (stages.len() as f64).log10();
    stages
        .iter_mut()
        .for_each(|stage| stage.attenuation_db += more);
    Ok(stages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(up: u64, down: u64) -> Vec<(u64, u64)> {
        let ratio = Ratio::new(up, down).unwrap();
        let stages = split("resample", ratio, Quality::default()).unwrap();
        let all = stages
            .iter()
            .try_fold(Ratio::ONE, |all, stage| all.then(stage.ratio));
        assert_eq!(all.unwrap(), ratio);
        stages
            .iter()
            .map(|stage| (stage.ratio.up(), stage.ratio.down()))
            .collect()
    }

    #[test]
    fn small_ratios_are_one_stage_and_large_ones_cost_a_third() {
        assert_eq!(stages(2, 1), [(2, 1)]);
        assert_eq!(stages(160, 147), [(160, 147)]);
        assert_eq!(
            stages(500_000_021, 500_000_000),
            [(2, 1), (500_000_021, 1_000_000_000)]
        );
        assert!(stages(1, 10).len() > 1 && stages(10, 1).len() > 1);
        for (up, down) in [(1, 10), (1, 1000), (80, 441 * 3), (25, 1)] {
            let ratio = Ratio::new(up, down).unwrap();
            let made = split("resample", ratio, Quality::default()).unwrap();
            // A single stage takes 128 products per sample at the higher rate.
            assert!(cost(&made) < 128.0 / 2.5, "{ratio}: {}", cost(&made));
        }
    }
}
