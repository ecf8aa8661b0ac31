//! XStream's design space as code (Girod et al., ICDE 2008), beside the product's engine.
//!
//! The paper chose among four memory managers, four schedulers and several representations of signals in 2008. Here all
//! run the paper's applications on synthetic recordings, by turns in one process.
//!
//! ```text
//! design-space [--quick] [--only NAME] [--out FILE]
//! design-space chain SCHEDULER SEGMENTS        one chain alone, to run under a cache simulator
//! design-space plan PLAN SCHEDULER RUNS        one real plan alone, to run under a profiler
//! ```

mod data;
mod engine;
mod engine_bench;
mod kernels;
mod known;
mod load;
mod measure;
mod memory;
mod memory_managers;
mod models;
mod plans;
mod product;
mod representations;
mod sync_cost;

use std::process::ExitCode;

use serde_json::{Map, Value};

struct Setup {
    quick: bool,
    only: Option<String>,
    out: Option<String>,
}

fn setup(mut arguments: impl Iterator<Item = String>) -> Result<Setup, String> {
    let mut setup = Setup {
        quick: false,
        only: None,
        out: None,
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--quick" => setup.quick = true,
            "--only" => setup.only = arguments.next(),
            "--out" => setup.out = arguments.next(),
            other => return Err(format!("{other}: give --quick, --only NAME or --out FILE")),
        }
    }
    Ok(setup)
}

/// Takes whether there is little data; returns measurements.
type Bench = fn(bool) -> Value;

fn run(setup: &Setup) -> Result<(), Box<dyn std::error::Error>> {
    let benches: [(&str, Bench); 6] = [
        ("memory_managers", memory_managers::run),
        ("load", load::run),
        ("engine_bench", engine_bench::run),
        ("representations", representations::run),
        ("plans", plans::run),
        ("sync_cost", sync_cost::run),
    ];
    known::check();
    let mut results = Map::new();
    for (name, bench) in benches {
        if setup.only.as_deref().is_none_or(|only| only == name) {
            results.insert(name.into(), bench(setup.quick));
        }
    }
    if let Some(path) = &setup.out {
        std::fs::write(path, serde_json::to_vec_pretty(&results)?)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).peekable();
    let done = match arguments.peek().map(String::as_str) {
        Some("chain") => engine_bench::alone(arguments.skip(1)),
        Some("plan") => plans::alone(arguments.skip(1)),
        _ => setup(arguments)
            .map_err(Into::into)
            .and_then(|setup| run(&setup)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("design-space: {error}");
            ExitCode::FAILURE
        }
    }
}
