//! Compares three schedules of stages, as a Markdown table.
//!
//! ```text
//! cargo run --profile tested -p isochrony-tune --example schedules -- [PLANS] [ITEMS]
//! ```
//!
//! `PLANS` random plans (50) run on machines of 4, 16 and 64 cores with typical costs, until their source has given
//! `ITEMS` items (2000). Links have 4 MiB. *Allocated* replicas are those of the flow model; *most* is a replica per
//! core of every replicable stage. A plan's rate is divided by the highest rate of its flow model, and by its rate
//! under this package's rule.

use std::error::Error;

use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource, StageSchedule, random_plan,
};
use isochrony_tune::{Configuration, FlowModel};

const RULES: [(&str, StageSchedule); 5] = [
    (
        "nearest to the end (this package)",
        StageSchedule::NearestToEnd,
    ),
    ("a thread per stage", StageSchedule::ThreadPerStage),
    (
        "stealing, threshold 0",
        StageSchedule::CacheWeightedStealing { threshold: 0 },
    ),
    (
        "stealing, threshold 1",
        StageSchedule::CacheWeightedStealing { threshold: 1 },
    ),
    (
        "stealing, threshold 4",
        StageSchedule::CacheWeightedStealing { threshold: 4 },
    ),
];

const LINK_BYTES: u64 = 4 << 20;

#[derive(Debug, Clone, Copy)]
enum Replicas {
    Allocated,
    Most,
}

fn start(
    plan: &SimulatedPlan,
    cores: usize,
    replicas: Replicas,
) -> Result<(Configuration, f64), Box<dyn Error>> {
    let mut configuration = plan.configuration(cores, LINK_BYTES);
    let stages = plan.stages.len();
    let model = FlowModel::new(plan.flow_graph(&configuration, cores))?;
    configuration.replicas = match replicas {
        Replicas::Allocated => {
            let allocation = model.allocate(cores.max(stages) as u32)?;
            let replicas = allocation.replicas.iter();
            replicas.map(|&count| count as usize).collect()
        }
        Replicas::Most => plan.stages.iter().map(|stage| stage.max_replicas).collect(),
    };
    let model = FlowModel::new(plan.flow_graph(&configuration, cores))?;
    Ok((configuration, model.solve().source_rates[0]))
}

fn quantile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| match arguments.next() {
        None => Ok(default),
        Some(text) => text.parse().map_err(|error| format!("{text}: {error}")),
    };
    let (plans, items) = (number(50)?, number(2000)?);
    println!(
        "| replicas | cores | rule | of the flow model: median | least | of this package: median | least | most |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for replicas in [Replicas::Allocated, Replicas::Most] {
        for cores in [4, 16, 64] {
            compare(plans, items, cores, replicas)?;
        }
    }
    Ok(())
}

fn compare(plans: u64, items: u64, cores: usize, replicas: Replicas) -> Result<(), Box<dyn Error>> {
    let mut parts = vec![Vec::new(); RULES.len()];
    for seed in 0..plans {
        let mut plan = random_plan(seed, cores);
        plan.stages[0].source = Some(SimulatedSource::Finite { items });
        let (start, flow) = start(&plan, cores, replicas)?;
        for ((_, schedule), parts) in RULES.iter().zip(&mut parts) {
            let machine = SimulatedMachine {
                schedule: *schedule,
                ..SimulatedMachine::typical(cores)
            };
            let mut run = SimulatedRun::new(plan.clone(), machine, start.clone(), seed)?;
            parts.push(items as f64 / run.run_to_end() / flow);
        }
    }
    for ((name, _), of_rule) in RULES.iter().zip(&parts) {
        let mut of_flow = of_rule.clone();
        of_flow.sort_by(f64::total_cmp);
        let pairs = of_rule.iter().zip(&parts[0]);
        let mut of_own: Vec<f64> = pairs.map(|(other, own)| other / own).collect();
        of_own.sort_by(f64::total_cmp);
        println!(
            "| {replicas:?} | {cores} | {name} | {:.3} | {:.3} | {:.3} | {:.3} | {:.3} |",
            quantile(&of_flow, 0.5),
            quantile(&of_flow, 0.0),
            quantile(&of_own, 0.5),
            quantile(&of_own, 0.0),
            quantile(&of_own, 1.0),
        );
    }
    Ok(())
}
