//! [`random_plan`]: random plans for evaluations.

use fastrand::Rng;

use super::{SimulatedLink, SimulatedPlan, SimulatedSource, SimulatedStage, TimeDistribution};

/// Ranges of service seconds and item bytes, log-uniform.
const SERVICE_S: [f64; 2] = [20e-6, 2e-3];
const ITEM_BYTES: [f64; 2] = [32768.0, 1_048_576.0];

/// A random plan: a chain, a fan or a diamond of 3 to 12 stages after an endless source.
///
/// Service times are 20 µs to 2 ms, constant, exponential or lognormal with a coefficient of variation of 0.1 to 1. Two
/// in three replicable stages have up to `cores` replicas. The last stage mostly takes 20 to 60 µs. One link in five
/// halves or doubles the items. Deterministic by seed.
#[must_use]
pub fn random_plan(seed: u64, cores: usize) -> SimulatedPlan {
    let mut random = Rng::with_seed(seed);
    let count = random.usize(3..=12);
    let pairs = match random.u8(..3) {
        0 => (1..count).map(|to| (to - 1, to)).collect(),
        1 => fan(&mut random, count),
        _ => diamond(&mut random, count),
    };
    let links: Vec<SimulatedLink> = pairs
        .into_iter()
        .map(|(from, to)| SimulatedLink {
            from,
            to,
            gain: match random.u8(..10) {
                0 => 0.5,
                1 => 2.0,
                _ => 1.0,
            },
            item_bytes: between(&mut random, ITEM_BYTES) as u64,
        })
        .collect();
    let stages = (0..count).map(|number| {
        let is_last = number + 1 == count;
        let range = match is_last && random.u8(..5) > 0 {
            true => [SERVICE_S[0], 3.0 * SERVICE_S[0]],
            false => SERVICE_S,
        };
        let mean_s = between(&mut random, range);
        let service = match random.u8(..4) {
            0 => TimeDistribution::Constant { mean_s },
            1 => TimeDistribution::Exponential { mean_s },
            _ => {
                let cv = between(&mut random, [0.1, 1.0]);
                TimeDistribution::Lognormal { mean_s, cv }
            }
        };
        let name = format!("stage {number}");
        let inputs = links.iter().filter(|link| link.to == number).count();
        let replicable = inputs == 1 && !is_last && random.u8(..3) > 0;
        SimulatedStage {
            source: (number == 0).then_some(SimulatedSource::Endless),
            max_replicas: if replicable { cores.max(1) } else { 1 },
            ..SimulatedStage::new(name, service)
        }
    });
    SimulatedPlan {
        stages: stages.collect(),
        links,
        changes: Vec::new(),
    }
}

fn between(random: &mut Rng, [least, most]: [f64; 2]) -> f64 {
    least * libm::pow(most / least, random.f64())
}

fn fan(random: &mut Rng, count: usize) -> Vec<(usize, usize)> {
    let branches = random.usize(1..=(count - 2).min(4));
    let mut ends = vec![0; branches];
    let mut pairs = Vec::new();
    for stage in 1..count - 1 {
        let branch = (stage - 1) % branches;
        pairs.push((ends[branch], stage));
        ends[branch] = stage;
    }
    pairs.extend(ends.into_iter().map(|end| (end, count - 1)));
    pairs
}

fn diamond(random: &mut Rng, count: usize) -> Vec<(usize, usize)> {
    if count < 4 {
        return (1..count).map(|to| (to - 1, to)).collect();
    }
    let split = random.usize(..count - 3);
    let join = random.usize(split + 3..count);
    let middle = random.usize(split + 2..join);
    let mut pairs = Vec::new();
    for to in 1..count {
        let from = match to {
            to if to == middle => split,
            to => to - 1,
        };
        pairs.push((from, to));
    }
    pairs.push((middle - 1, join));
    pairs
}
