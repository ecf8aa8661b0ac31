//! flow/skipping: a filter of windows by their maximum, by stored extremes against reading all samples.

use std::path::Path;

use isochrony::expr::Expr;
use isochrony::flow::{Plan, RunOptions, StoredRecording};
use isochrony::prelude::*;

use crate::measure::{Results, interleave, noise, ratio};

const WINDOW: u64 = 4096;
const BLOCK: usize = 1 << 22;

pub fn run(
    dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let blocks = if quick { 2 } else { 64 };
    let store = Store::open(dir.join("quiet.iso"), Mode::Create)?;
    let writer = store.create("s", &CreateOptions::new(DType::I16, Rate::from_hz(100)?))?;
    let mut block: Vec<i16> = noise(7, BLOCK).iter().map(|sample| sample / 64).collect();
    // One burst per block, in two windows.
    block[BLOCK / 2 - 100..BLOCK / 2 + 100].fill(2000);
    for _ in 0..blocks {
        writer.append(&block)?;
    }
    store.commit(true)?;
    store.close()?;
    let store = Store::open(dir.join("quiet.iso"), Mode::Read)?;
    let plan = Plan::scan(StoredRecording::new(store.path(), store.signal("s")?))
        .rewindow(WINDOW)?
        .filter(&Expr::input().max().gt(1000))?
        .count()?;
    let collect = |optimise: bool| {
        let mut options = RunOptions::default();
        options.optimise = optimise;
        let (found, report) = plan.collect_with(&options).expect("ran");
        assert_eq!(found.count(), Some(2 * blocks));
        assert_eq!(report.operators[0].skipped > 0, optimise);
    };
    let rounds = if quick { 3 } else { 15 };
    let (a, b) = interleave(rounds, || collect(true), || collect(false));
    let met = ratio(&a, &b) >= 5.0;
    results.compare(
        "flow/skipping/16-bit/4096",
        &a,
        "the same, read as a whole",
        &b,
        Some(2 * blocks * BLOCK as u64),
        Some((">= 5", met)),
    );
    Ok(())
}
