//! Runs plans for another process, which times them by turns with its own: `iso-bench --serve` reads a request per line
//! and answers with seconds and result.
//!
//! `plan PATH` runs a saved plan, `chain OPERATORS SAMPLES` PASSCHAIN over noise, and `bare LOOP BYTES ARRAY...` one of
//! `archives`' loops.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::time::Instant;

use isochrony::flow::{Catalog, Plan, Segments, SharedRecording, StoredRecording};
use isochrony::prelude::*;
use isochrony::segment::Stream;
use isochrony::time::TimebaseId;

use crate::archives;
use crate::measure::noise;

/// Answers until the requests end.
pub fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let mut plans: HashMap<String, Plan> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(asked) = line.strip_prefix("bare ") {
            let (seconds, found) = archives::run(asked)?;
            println!("{seconds} {found}");
            std::io::stdout().flush()?;
            continue;
        }
        if !plans.contains_key(&line) {
            plans.insert(line.clone(), prepare(&line)?);
        }
        let start = Instant::now();
        let result = plans[&line].collect()?.count();
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{seconds} {}",
            result.ok_or("the plan does not end in a count")?
        );
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn prepare(line: &str) -> Result<Plan, Box<dyn std::error::Error>> {
    match line.split_once(' ') {
        Some(("plan", path)) => {
            let saved = serde_json::from_slice(&std::fs::read(path)?)?;
            let resolve = |named: &_| StoredRecording::resolve(named, None);
            Ok(Plan::from_json(&saved, &Catalog::standard(), &resolve)?)
        }
        Some(("chain", rest)) => {
            let (operators, samples) = rest.split_once(' ').ok_or("chain OPERATORS SAMPLES")?;
            chain(operators.parse()?, samples.parse()?)
        }
        _ => Err(format!(
            "{line}: give `plan PATH`, `chain OPERATORS SAMPLES` or `bare LOOP BYTES ARRAY...`"
        )
        .into()),
    }
}

/// In segments of 4096 samples of noise.
fn chain(operators: usize, samples: usize) -> Result<Plan, Box<dyn std::error::Error>> {
    let stream = Stream::new("noise", TimebaseId(0), Rate::from_hz(48_000)?).intern();
    let segment = SigSeg::from_slice(&noise(9, samples), 0, stream)?;
    let live = SharedRecording::new(Segments::new([segment]).ok_or("no segment")?);
    Ok(crate::chain::chain(&live, operators, true)?)
}
