//! Benchmarks of store, plans, streams and placement, mostly against bare loops, named area/operation/size/variant.
//!
//! Machines are noisy, so claims are median ratios of two things that take turns in this process. Every result is
//! asserted before its time counts.

mod archives;
mod chain;
mod commit;
mod diffusion;
mod fft;
mod import;
mod links;
mod literals;
mod measure;
mod nbuf;
mod open;
mod placement;
mod scan;
mod serve;
mod skipping;
mod statfilter;
mod strategies;
mod streams;
mod supply;
mod table3;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;

use measure::Results;

struct Setup {
    dir: PathBuf,
    out: Option<PathBuf>,
    /// Little data, as a test.
    quick: bool,
    only: Option<String>,
}

fn setup() -> Result<Setup, String> {
    let mut setup = Setup {
        dir: std::env::temp_dir(),
        out: None,
        quick: false,
        only: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--dir" => setup.dir = value()?.into(),
            "--out" => setup.out = Some(value()?.into()),
            "--only" => setup.only = Some(value()?),
            "--quick" => setup.quick = true,
            other => {
                return Err(format!(
                    "{other}: give --dir DIR, --out FILE, --only NAME or --quick"
                ));
            }
        }
    }
    Ok(setup)
}

type Bench = fn(&std::path::Path, bool, &mut Results) -> Result<(), Box<dyn std::error::Error>>;

fn run(setup: &Setup) -> Result<(), Box<dyn std::error::Error>> {
    let mut results = Results::default();
    let benches: [(&str, Bench); 14] = [
        ("statfilter", statfilter::run),
        ("skipping", skipping::run),
        ("chain", chain::run),
        ("links", links::run),
        ("fft", fft::run),
        ("scan", scan::run),
        ("open", open::run),
        ("commit", commit::run),
        ("view", view::run),
        ("import", import::run),
        ("strategies", strategies::run),
        ("streams", nbuf::run),
        ("placement", placement::run),
        ("diffusion", diffusion::run),
    ];
    for (name, bench) in benches {
        if setup.only.as_deref().is_none_or(|only| only == name) {
            let folder = tempfile::Builder::new()
                .prefix(name)
                .tempdir_in(&setup.dir)?;
            bench(folder.path(), setup.quick, &mut results)?;
        }
    }
    if let Some(path) = &setup.out {
        std::fs::write(path, serde_json::to_vec_pretty(&results.to_json())?)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("--serve") {
        return finished(serve::serve());
    }
    if std::env::args().nth(1).as_deref() == Some("--supply") {
        return finished(supply::serve());
    }
    finished(setup().map_err(Into::into).and_then(|setup| run(&setup)))
}

fn finished(done: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("iso-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
