//! Tunes random plans in the simulator, and compares with a search.
//!
//! ```text
//! cargo run --release -p isochrony-tune --example tune_plans -- CORES PLANS [SEED]
//! ```
//!
//! Prints JSON: for each method geometric mean and worst decile of the reached fraction of the optimum, over starts
//! below 70 % of it. Each method has the windows that the controller takes to settle, at most `MAX_WINDOWS`.

use isochrony_tune::controller::StageCosts;
use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, best_configuration, random_plan,
};
use isochrony_tune::{
    Configuration, ConfigurationLimits, Controller, ControllerOptions, Outcome, Window,
};

const WINDOW_S: f64 = 0.25;
const MAX_WINDOWS: usize = 400;
/// Other starts are too easy: two threads too many reach 95 % of the optimum.
const COUNTED_BELOW: f64 = 0.7;
const LINK_BYTES: u64 = 1 << 20;

struct TuningCase {
    plan: SimulatedPlan,
    machine: SimulatedMachine,
    limits: ConfigurationLimits,
    cores: usize,
    seed: u64,
}

impl TuningCase {
    fn run(&self, configuration: &Configuration, seed: u64) -> SimulatedRun {
        SimulatedRun::new(
            self.plan.clone(),
            self.machine.clone(),
            configuration.clone(),
            seed,
        )
        .expect("configurations are within the limits of the plan")
    }

    fn rate(&self, configuration: &Configuration) -> f64 {
        let mut run = self.run(configuration, 77);
        run.window(1.0);
        run.window(4.0).rate()
    }

    fn configuration(&self, workers: usize, replicas: impl Fn(usize) -> usize) -> Configuration {
        let most = self.limits.replicas.iter().enumerate();
        Configuration {
            workers: workers.clamp(1, self.limits.workers),
            replicas: most
                .map(|(at, &most)| replicas(at).clamp(1, most))
                .collect(),
            link_bytes: vec![LINK_BYTES; self.plan.links.len()],
            task_bytes: 0,
            batch_tasks: 0,
        }
    }

    fn random(&self, random: &mut fastrand::Rng) -> Configuration {
        let replicas = self
            .limits
            .replicas
            .iter()
            .map(|&most| random.usize(1..=most));
        let replicas: Vec<usize> = replicas.collect();
        self.configuration(random.usize(1..=self.cores), |at| replicas[at])
    }
}

struct TuningResult {
    configuration: Configuration,
    windows: usize,
    kept: usize,
    /// Windows until 95 % of the optimum.
    windows_to_goal: Option<usize>,
    /// Predicted over measured throughput.
    prediction: Option<f64>,
}

fn controller(case: &TuningCase, start: &Configuration, best: f64) -> TuningResult {
    let options = ControllerOptions {
        cores: case.cores,
        ..ControllerOptions::default()
    };
    let mut controller = Controller::new(start.clone(), case.limits.clone(), options)
        .expect("the start is within the limits")
        .with_default(case.configuration(case.cores, |_| case.cores));
    let mut run = case.run(start, case.seed);
    let (mut windows, mut goal, mut checked) = (0, None, None::<Configuration>);
    let mut last = Window::default();
    while windows < MAX_WINDOWS && !controller.is_settled() {
        last = run.window(WINDOW_S);
        windows += 1;
        let next = controller.observe(&last, Some(f64::INFINITY)).clone();
        run.configure(&next).expect("within the limits");
        if goal.is_none() && checked.as_ref() != Some(controller.kept()) {
            checked = Some(controller.kept().clone());
            if case.rate(controller.kept()) >= 0.95 * best {
                goal = Some(windows);
            }
        }
    }
    let decisions = controller.decisions().iter();
    let predicted = controller.predicted_rate();
    TuningResult {
        configuration: controller.kept().clone(),
        windows,
        kept: decisions.filter(|one| one.outcome == Outcome::Kept).count(),
        windows_to_goal: goal,
        prediction: predicted.map(|rate| rate / last.rate()),
    }
}

fn measure(run: &mut SimulatedRun, configuration: &Configuration) -> (f64, Window) {
    run.configure(configuration).expect("within the limits");
    run.window(WINDOW_S);
    let window = run.window(WINDOW_S);
    (window.rate(), window)
}

fn random_search(case: &TuningCase, start: &Configuration, windows: usize) -> Configuration {
    let mut random = fastrand::Rng::with_seed(case.seed);
    let mut run = case.run(start, case.seed);
    let mut best = (measure(&mut run, start).0, start.clone());
    for _ in 1..windows / 2 {
        let next = case.random(&mut random);
        let rate = measure(&mut run, &next).0;
        if rate > best.0 {
            best = (rate, next);
        }
    }
    best.1
}

/// Steps one value at a time, kept if a window is faster.
fn hill_climbing(case: &TuningCase, start: &Configuration, windows: usize) -> Configuration {
    let mut run = case.run(start, case.seed);
    let mut best = (measure(&mut run, start).0, start.clone());
    let values = 2 * (1 + start.replicas.len());
    for step in 1..windows / 2 {
        let (value, up) = (step % values / 2, step % 2 == 0);
        let mut next = best.1.clone();
        let changed = match value {
            0 => &mut next.workers,
            stage => &mut next.replicas[stage - 1],
        };
        let most = match value {
            0 => case.limits.workers,
            stage => case.limits.replicas[stage - 1],
        };
        *changed = if up {
            *changed + 1
        } else {
            changed.saturating_sub(1)
        }
        .clamp(1, most);
        if next == best.1 {
            continue;
        }
        let rate = measure(&mut run, &next).0;
        if rate > best.0 {
            best = (rate, next);
        }
    }
    best.1
}

/// As DS2 (Kalavri et al., OSDI 2018) with an endless source: each stage's true rate gives replicas for the throughput
/// of all cores. Three rounds.
fn ds2(case: &TuningCase, start: &Configuration) -> Configuration {
    let mut run = case.run(start, case.seed);
    let mut configuration = start.clone();
    for _ in 0..3 {
        let (_, window) = measure(&mut run, &configuration);
        let Some(costs) = StageCosts::of(&[window]) else {
            break;
        };
        let seconds = &costs.seconds_per_sample;
        let all: f64 = seconds.iter().sum();
        let stages = seconds.iter().zip(&case.limits.replicas);
        let slowest = stages.map(|(seconds, &most)| most as f64 / seconds);
        let target = slowest.fold(case.cores as f64 / all, f64::min);
        configuration = case.configuration(case.cores, |at| (target * seconds[at]).ceil() as usize);
    }
    configuration
}

/// The dissertation's rule: replicate the busiest stage while windows get faster.
fn dissertation(case: &TuningCase, start: &Configuration, windows: usize) -> Configuration {
    let mut run = case.run(start, case.seed);
    let mut kept = Configuration {
        workers: case.cores,
        ..start.clone()
    };
    let (mut rate, mut window) = measure(&mut run, &kept);
    for _ in 1..windows / 2 {
        let busy = window.stages.iter().zip(&kept.replicas).enumerate();
        let growing = busy.filter(|&(at, (_, &replicas))| replicas < case.limits.replicas[at]);
        let share = |stage: usize| window.stages[stage].busy_s / kept.replicas[stage] as f64;
        let busiest = growing.max_by(|one, other| share(one.0).total_cmp(&share(other.0)));
        let Some((stage, _)) = busiest else {
            break;
        };
        let mut next = kept.clone();
        next.replicas[stage] += 1;
        let (faster, seen) = measure(&mut run, &next);
        if faster <= rate {
            break;
        }
        (rate, window, kept) = (faster, seen, next);
    }
    kept
}

fn geometric_mean(parts: &[f64]) -> f64 {
    (parts.iter().map(|part| part.max(1e-9).ln()).sum::<f64>() / parts.len().max(1) as f64).exp()
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1) as f64;
    values
        .get((part * last).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .map(|one| one.parse().expect("CORES PLANS [SEED] are whole numbers"))
        .collect();
    let [cores, plans, rest @ ..] = &arguments[..] else {
        eprintln!("tune_plans CORES PLANS [SEED]");
        std::process::exit(2);
    };
    let (cores, first) = (*cores as usize, rest.first().copied().unwrap_or(1));
    let methods = [
        "controller",
        "start",
        "all ones",
        "all cores",
        "random search",
        "hill climbing",
        "DS2",
        "dissertation",
    ];
    let mut parts: Vec<Vec<f64>> = vec![Vec::new(); methods.len()];
    let (mut windows, mut goals, mut kept, mut errors) = (vec![], vec![], vec![], vec![]);
    let (mut counted, mut missed_goal) = (0, 0);
    for seed in first..first + plans {
        let plan = random_plan(seed, cores);
        let machine = SimulatedMachine::typical(cores);
        let limits = ConfigurationLimits {
            min_workers: 1,
            workers: cores,
            replicas: plan.stages.iter().map(|stage| stage.max_replicas).collect(),
            min_link_bytes: 64 << 10,
            max_link_bytes: 16 << 20,
            min_task_bytes: 0,
            max_task_bytes: 0,
            max_batch_tasks: 0,
        };
        let searched = best_configuration(&plan, &machine).expect("the plan is valid");
        let case = TuningCase {
            plan,
            machine,
            limits,
            cores,
            seed,
        };
        let mut random = fastrand::Rng::with_seed(seed);
        let ones = case.configuration(1, |_| 1);
        let starts = [
            ones.clone(),
            case.configuration(cores, |_| 1),
            case.random(&mut random),
        ];
        let most = case.configuration(cores, |_| cores);
        let mut best = case.rate(&searched.configuration).max(case.rate(&most));
        let tuned: Vec<TuningResult> = starts
            .iter()
            .map(|start| controller(&case, start, best))
            .collect();
        for one in &tuned {
            best = best.max(case.rate(&one.configuration));
        }
        for (start, tuned) in starts.iter().zip(&tuned) {
            let from = case.rate(start);
            if from >= COUNTED_BELOW * best {
                continue;
            }
            counted += 1;
            let budget = tuned.windows;
            let reached = [
                case.rate(&tuned.configuration),
                from,
                case.rate(&ones),
                case.rate(&most),
                case.rate(&random_search(&case, start, budget)),
                case.rate(&hill_climbing(&case, start, budget)),
                case.rate(&ds2(&case, start)),
                case.rate(&dissertation(&case, start, budget)),
            ];
            for (parts, rate) in parts.iter_mut().zip(reached) {
                parts.push(rate / best);
            }
            windows.push(tuned.windows as f64);
            kept.push(tuned.kept as f64);
            match tuned.windows_to_goal {
                Some(windows) => goals.push(windows as f64),
                None => missed_goal += 1,
            }
            errors.extend(tuned.prediction.map(|ratio| (ratio - 1.0).abs()));
        }
    }
    let rows = methods.iter().zip(&parts).map(|(name, parts)| {
        serde_json::json!({
            "method": name,
            "geometric_mean": geometric_mean(parts),
            "worst_decile": quantile(parts, 0.1),
            "worst": quantile(parts, 0.0),
        })
    });
    println!(
        "{:#}",
        serde_json::json!({
            "cores": cores,
            "plans": plans,
            "starts": counted,
            "methods": rows.collect::<Vec<_>>(),
            "windows": quantile(&windows, 0.5),
            "changes": quantile(&kept, 0.5),
            "windows_to_95": quantile(&goals, 0.5),
            "never_95": missed_goal,
            "prediction_error": {"median": quantile(&errors, 0.5), "p90": quantile(&errors, 0.9)},
        })
    );
}
