//! Simulates a plan: JSON in, JSON out.
//!
//! ```text
//! cargo run --profile tested -p isochrony-tune --example simulate_plans -- plan.json
//! ```
//!
//! Fields, times in seconds; those with a default are optional:
//!
//! | field | meaning | default |
//! |---|---|---|
//! | `plan` | a `SimulatedPlan` | |
//! | `random_plan` | seed of a random plan for the machine's cores, instead of `plan` | |
//! | `machine` | a `SimulatedMachine`; what it leaves out costs nothing | two ideal cores |
//! | `typical_cores` | that many cores with typical costs, instead of `machine` | |
//! | `configuration` | a `Configuration` | a thread for each core, one replica each, links of 1 MiB |
//! | `seed` | seed of the run | 0 |
//! | `window_s` | length of a window; 0 for none | 0 |
//! | `seconds` | when to stop; needed for endless plans | none |
//! | `changes` | list of `{"at_s": …, "configuration": …}` by time | none |
//! | `best` | search the best configuration, and start with it | false |
//!
//! ```json
//! {
//!   "plan": {
//!     "stages": [
//!       {"name": "scan", "service": {"constant": {"mean_s": 0.001}}, "source": {"finite": {"items": 1000}}},
//!       {"name": "filter", "service": {"lognormal": {"mean_s": 0.004, "cv": 0.3}}, "max_replicas": 4},
//!       {"name": "sink", "service": {"exponential": {"mean_s": 0.0005}}}
//!     ],
//!     "links": [
//!       {"from": 0, "to": 1, "gain": 1.0, "item_bytes": 524288},
//!       {"from": 1, "to": 2, "gain": 0.5, "item_bytes": 524288}
//!     ]
//!   },
//!   "machine": {"cores": 4, "hand_over_s": 1e-6},
//!   "configuration": {"workers": 4, "replicas": [1, 3, 1], "link_bytes": [2097152, 2097152]},
//!   "window_s": 0.5
//! }
//! ```
//!
//! Output: `is_over`; `makespan_s`, null if the plan did not end; the final `configuration`; `best_rate`, if searched;
//! `totals` of the run; `windows`; `events` of the simulator; `links`, with items carried and mean wait.

use std::error::Error;

use isochrony_tune::Configuration;
use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, best_configuration, random_plan,
};
use serde::Deserialize;
use serde_json::json;

const LINK_BYTES: u64 = 1 << 20;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    plan: Option<SimulatedPlan>,
    random_plan: Option<u64>,
    machine: Option<SimulatedMachine>,
    typical_cores: Option<usize>,
    configuration: Option<Configuration>,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    window_s: f64,
    seconds: Option<f64>,
    #[serde(default)]
    changes: Vec<Change>,
    #[serde(default)]
    best: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    at_s: f64,
    configuration: Configuration,
}

fn either<T>(
    first: (&str, Option<T>),
    second: (&str, Option<T>),
) -> Result<Option<T>, Box<dyn Error>> {
    match (first, second) {
        ((one, Some(_)), (other, Some(_))) => {
            Err(format!("both {one} and {other} are given; leave one out").into())
        }
        ((_, first), (_, second)) => Ok(first.or(second)),
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args()
        .nth(1)
        .ok_or("no file is named; give a JSON file that describes the run")?;
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let given: Description =
        serde_json::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
    let typical = given.typical_cores.map(SimulatedMachine::typical);
    let machine = either(("machine", given.machine), ("typical_cores", typical))?;
    let machine = machine.unwrap_or_default();
    let random = given
        .random_plan
        .map(|seed| random_plan(seed, machine.cores));
    let plan = either(("plan", given.plan), ("random_plan", random))?;
    let plan = plan.ok_or("no plan is given; give plan or random_plan")?;
    if !(given.window_s.is_finite() && given.window_s >= 0.0) {
        return Err(format!("window_s={}; give at least 0", given.window_s).into());
    }
    let best = match given.best {
        true => Some(best_configuration(&plan, &machine)?),
        false => None,
    };
    let start = best.as_ref().map(|best| best.configuration.clone());
    let start = start.or(given.configuration);
    let start = start.unwrap_or_else(|| plan.configuration(machine.cores, LINK_BYTES));
    let mut run = SimulatedRun::new(plan, machine, start, given.seed)?;
    let mut windows = Vec::new();
    let mut changes = given.changes.into_iter().peekable();
    let end = given.seconds.unwrap_or(f64::INFINITY);
    let mut window_end = given.window_s;
    while !run.is_over() && run.now() < end {
        let change = changes.peek().map_or(f64::INFINITY, |change| change.at_s);
        let next = match given.window_s > 0.0 {
            true => change.min(end).min(window_end),
            false => change.min(end),
        };
        if next.is_infinite() {
            if run.run_to_end().is_infinite() {
                return Err("the plan does not end; give seconds".into());
            }
        } else {
            let window = run.window((next - run.now()).max(0.0));
            if given.window_s > 0.0 {
                windows.push(window);
            }
        }
        while window_end <= run.now() && given.window_s > 0.0 {
            window_end += given.window_s;
        }
        while let Some(change) = changes.next_if(|change| change.at_s <= run.now()) {
            run.configure(&change.configuration)?;
        }
    }
    let totals = run.totals();
    let links: Vec<_> = totals
        .links
        .iter()
        .map(|link| {
            let wait_s = link.wait_s / link.received.max(1) as f64;
            json!({"sent": link.sent, "received": link.received, "mean_wait_s": wait_s})
        })
        .collect();
    let printed = json!({
        "is_over": run.is_over(),
        "makespan_s": run.is_over().then(|| run.now()),
        "configuration": run.configuration(),
        "best_rate": best.map(|best| best.rate),
        "events": totals.events,
        "totals": totals.window,
        "links": links,
        "windows": windows,
    });
    println!("{printed:#}");
    Ok(())
}
