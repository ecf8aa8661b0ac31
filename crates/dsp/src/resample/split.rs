//! Large ratios in stages.
//!
//! What a weight costs is set by the narrowest transition, at the edge of what passes, and by the rate at which it is
//! applied. Going down, a first stage may let alias what the last one stops; its transition is wide, and the narrow one is
//! left to a lower rate. Going up is the same backwards. A stage goes down, or up, by a whole number, so places stay exact.
//!
//! A ratio of too many phases for a row each costs several products a weight, for its cubics. There a first stage goes up by
//! a small number with the narrow transition, at one product a weight, and leaves the cubics a wide one.

use isochrony_time::Ratio;

use super::Quality;
use super::design::{has_rows, taps_for};
use crate::DspError;
use crate::filter::parameter_error;

/// Greatest whole ratio of a coarse stage.
const COARSE: u64 = 64;
/// Time of a weight that is a cubic, in products.
const CUBIC: f64 = 5.0;
/// Weights that a result costs beside its own: finding its place and adding up what a vector holds.
const RESULT: f64 = 8.0;
/// Greatest ratio of a first stage that goes up so that cubics are few.
const FINE: u64 = 4;
/// What a split must save to be worth another pass.
const WORTH: f64 = 0.8;
/// Coarse stages at most.
const STAGES: usize = 3;
/// Greatest ratio between the rates.
pub(super) const MOST: f64 = 1_048_576.0;

/// A stage: its ratio and what it passes and stops, in cycles for a sample that goes in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spec {
    pub(super) ratio: Ratio,
    pub(super) pass: f64,
    pub(super) stop: f64,
    pub(super) attenuation_db: f64,
}

impl Spec {
    /// Products that a result takes.
    fn products(&self) -> f64 {
        let taps = taps_for(self.attenuation_db, self.stop - self.pass);
        let each = if has_rows(self) { 1.0 } else { CUBIC };
        each * (taps + RESULT)
    }

    /// The same with another ratio, seen from samples that are `dense` times as many.
    fn with(self, ratio: Ratio, dense: f64, (pass, stop): (f64, f64)) -> Self {
        Self {
            ratio,
            pass: pass / dense,
            stop: stop / dense,
            ..self
        }
    }

    /// A coarse first stage down by `by`, and what is left to do.
    fn down_first(self, by: u64) -> Option<[Self; 2]> {
        let coarse = Ratio::new(1, by).ok()?;
        let rest = Ratio::new(by, 1).ok()?.then(self.ratio).ok()?;
        // What folds back onto the band below `stop` comes from here on.
        let folds = 1.0 / by as f64 - self.stop;
        (folds > self.pass).then(|| {
            let edges = (self.pass, self.stop);
            [
                self.with(coarse, 1.0, (self.pass, folds)),
                self.with(rest, 1.0 / by as f64, edges),
            ]
        })
    }

    /// A first stage up by `by`, and a coarse one for the rest.
    fn up_first(self, by: u64) -> Option<[Self; 2]> {
        let first = Ratio::new(by, 1).ok()?;
        let rest = Ratio::new(1, by).ok()?.then(self.ratio).ok()?;
        // Images of what passes lie around the rate between them. What aliases is gone before.
        let (dense, images) = (by as f64, by as f64 - self.stop);
        let fine = Self {
            ratio: first,
            ..self
        };
        Some([fine, self.with(rest, dense, (self.pass, images))])
    }

    /// What is to be done before a coarse last stage up by `by`, and that stage.
    fn up_last(self, by: u64) -> Option<[Self; 2]> {
        let coarse = Ratio::new(by, 1).ok()?;
        let rest = self.ratio.then(Ratio::new(1, by).ok()?).ok()?;
        // Between the stages samples are so dense; images lie around that rate.
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

/// Products for a sample that goes in or comes out, whichever are more.
fn cost(stages: &[Spec]) -> f64 {
    let (mut dense, mut sum) = (1.0, 0.0);
    for stage in stages {
        dense *= stage.ratio.to_f64();
        sum += stage.products() * dense;
    }
    sum / dense.max(1.0)
}

/// The cheapest stages found, halving the work first where it is narrowest.
fn stages_of(spec: Spec, left: usize) -> Vec<Spec> {
    let (up, down) = (spec.ratio.up(), spec.ratio.down());
    if left == 0 || up == down {
        return vec![spec];
    }
    let most = (up.max(down) / up.min(down) / 2 + 1).min(COARSE);
    // Two stages, and which of them may be split further.
    let coarse = (2..=most).filter_map(|by| match down > up {
        true => Some((spec.down_first(by)?, Some(1))),
        false => Some((spec.up_last(by)?, Some(0))),
    });
    let fine = (2..=FINE).filter_map(|by| Some((spec.up_first(by)?, None)));
    let pairs = coarse.chain(fine.filter(|_| !has_rows(&spec)));
    let best = pairs.min_by(|(a, _), (b, _)| cost(a).total_cmp(&cost(b)));
    match best {
        Some((pair, further)) if cost(&pair) < WORTH * cost(&[spec]) => {
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

/// The stages of a ratio.
///
/// # Errors
/// [`DspError::Parameter`] for rates that are too far apart.
pub(super) fn split(
    operator: &'static str,
    ratio: Ratio,
    quality: Quality,
) -> Result<Vec<Spec>, DspError> {
    let quality = quality.check(operator)?;
    let dense = ratio.to_f64();
    if !(1.0 / MOST..=MOST).contains(&dense) {
        let allowed = format!("a ratio from 1/{MOST} to {MOST}");
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
    let mut stages = stages_of(spec, STAGES);
    // What they let through adds up.
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
        // Each ends where the next begins.
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
        // Too many phases for a row each.
        assert_eq!(
            stages(500_000_021, 500_000_000),
            [(2, 1), (500_000_021, 1_000_000_000)]
        );
        assert!(stages(1, 10).len() > 1 && stages(10, 1).len() > 1);
        for (up, down) in [(1, 10), (1, 1000), (80, 441 * 3), (25, 1)] {
            let ratio = Ratio::new(up, down).unwrap();
            let made = split("resample", ratio, Quality::default()).unwrap();
            // 128 products a sample at the higher rate, if it were one stage.
            assert!(cost(&made) < 128.0 / 2.5, "{ratio}: {}", cost(&made));
        }
    }
}
