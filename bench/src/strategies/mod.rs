//! store/strategies: Scan Summarize by each I/O strategy, against predictions and bare loops, with cached and uncached
//! files.
//!
//! Disks of virtual machines change their speed within minutes, so predictions are compared within a round, which has
//! its own calibration.

mod bare;
mod larger;
mod tables;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isochrony::flow::arrow::array::cast::AsArray;
use isochrony::flow::arrow::array::types::{Float64Type, Int64Type};
use isochrony::prelude::*;
use isochrony_store::machine::{Amount, CacheState, CalibrationOptions, calibrate};
use isochrony_store::{Strategy, layout};

use crate::measure::{Results, Times, noise, order, ratio};
use crate::supply::Supply;
use bare::BARE;

/// Samples per window: a minute at 2 kHz.
const WINDOW: usize = 120_000;
/// Samples per window, so that none lies across two pieces of a strategy: the plan would copy its samples.
const ALIGNED_WINDOW: usize = 65_536;
/// Where samples begin in a shard.
pub const PAYLOAD: u64 = 4_096;

type Failure = Box<dyn std::error::Error>;
type Row<T> = (T, T, f64);

/// Largest error of a prediction in the claim.
const MAX_PREDICTION_ERROR: f64 = 0.15;

pub fn run(dir: &Path, quick: bool, results: &mut Results) -> Result<(), Failure> {
    let bytes: u64 = if quick { 16 << 20 } else { 512 << 20 };
    let rounds = if quick { 2 } else { 11 };
    let path = dir.join("scan.iso");
    let short = Scanned::make::<i16>(&path, "short", bytes)?;
    // The same numbers as float64; a quarter is enough.
    let long = Scanned::make::<f64>(&path, "long", bytes)?;
    let expected = BARE[0].1(&short.files, WINDOW)?;
    let within = BARE[0].1(&short.files, ALIGNED_WINDOW)?;
    let both = [(&short, &Strategy::ALL[..]), (&long, &TYPED[..])];
    let mut cases = Vec::new();
    for (state, _) in STATES {
        for (scanned, strategies) in both {
            let of = |&strategy| Case::new(scanned, strategy, state);
            cases.extend(strategies.iter().map(of));
        }
    }
    let mut bare = vec![vec![Vec::new(); BARE.len()]; STATES.len()];
    let mut chosen = vec![Vec::new(); STATES.len()];
    for round in 0..rounds {
        let wanted = CalibrationOptions {
            folder: dir.into(),
            bytes,
            repeats: 1,
        };
        let volume = calibrate(&wanted, |_, _| {})?.volumes.swap_remove(0);
        for (k, (state, _)) in STATES.into_iter().enumerate() {
            let amount = Amount {
                bytes: bytes as f64,
                cached: Some(if state == CacheState::Cached {
                    1.0
                } else {
                    0.0
                }),
                dtype: DType::I16,
            };
            // Reads past the page cache are chosen only on request.
            let best = volume.best(amount, |one| !one.bypasses_page_cache());
            if state == CacheState::Cached {
                both.iter()
                    .try_for_each(|(scanned, _)| refill(&scanned.files))?;
            }
            let mut now: Vec<_> = cases
                .iter_mut()
                .filter(|case| case.state == state)
                .collect();
            for turn in order(now.len(), round) {
                let case = &mut now[turn];
                let _supply = cooled(&case.scanned.files, state)?;
                let (rows, spent) = plan(&path, case.scanned, case.strategy, ALIGNED_WINDOW)?;
                check(&rows, &within, case.strategy.name());
                case.measured.push(spent);
                let scanned = case.scanned;
                let seconds =
                    volume.predict(case.strategy, state, scanned.bytes as f64, scanned.dtype);
                case.predicted
                    .extend(seconds.map(|s| Duration::from_secs_f64(s.median)));
            }
            for at in order(BARE.len() + 1, round) {
                let _supply = cooled(&short.files, state)?;
                if at == BARE.len() {
                    let Some(best) = best else { continue };
                    let (rows, spent) = plan(&path, &short, best, WINDOW)?;
                    check(&rows, &expected, best.name());
                    chosen[k].push(spent);
                    continue;
                }
                let begun = Instant::now();
                let rows = BARE[at].1(&short.files, WINDOW)?;
                bare[k][at].push(begun.elapsed());
                assert_eq!(rows, expected, "{}", BARE[at].0);
            }
        }
    }
    for (k, (state, name)) in STATES.into_iter().enumerate() {
        for case in cases.iter().filter(|case| case.state == state) {
            case.report(results, name);
        }
        let median = |times: &Vec<Duration>| Times::from(times.clone()).seconds().median;
        let best =
            (0..BARE.len()).min_by(|&a, &b| median(&bare[k][a]).total_cmp(&median(&bare[k][b])));
        let best = best.unwrap_or(0);
        if chosen[k].len() < rounds {
            println!("store/strategies/{name}/chosen: nothing was known to be best in some rounds");
            continue;
        }
        let (ours, other) = (
            Times::from(chosen[k].clone()),
            Times::from(bare[k][best].clone()),
        );
        let met = ratio(&ours, &other) >= 0.95;
        results.compare(
            &format!("store/strategies/{name}/chosen"),
            &ours,
            &format!("the best of {} bare loops, {}", BARE.len(), BARE[best].0),
            &other,
            Some(bytes),
            Some((">= 0.95", met)),
        );
    }
    tables::run(dir, &path, &short.files, quick, results)?;
    std::fs::remove_dir_all(&path)?;
    larger::run(dir, quick, results)
}

const STATES: [(CacheState, &str); 2] =
    [(CacheState::Cached, "cached"), (CacheState::Cold, "cold")];

/// Strategies for scans of other types.
const TYPED: [Strategy; 2] = [Strategy::Read, Strategy::Mmap];

/// A signal that is scanned.
pub struct Scanned {
    name: &'static str,
    dtype: DType,
    bytes: u64,
    pub files: Vec<(PathBuf, u64)>,
}

impl Scanned {
    /// Appends noise of so many bytes.
    fn make<T: isochrony::segment::Sample + FromShort>(
        path: &Path,
        name: &'static str,
        bytes: u64,
    ) -> Result<Self, Failure> {
        let store = Store::open(path, Mode::Append)?;
        let writer = store.create(name, &CreateOptions::new(T::DTYPE, Rate::from_hz(2_000)?))?;
        let block: Vec<T> = noise(1, 1 << 20).into_iter().map(T::from_short).collect();
        for _ in 0..bytes / size_of_val(&block[..]) as u64 {
            writer.append(&block)?;
        }
        store.commit(true)?;
        store.close()?;
        Ok(Self {
            name,
            dtype: T::DTYPE,
            bytes,
            files: shards(&path.join(name).join("data"), bytes)?,
        })
    }
}

trait FromShort {
    fn from_short(short: i16) -> Self;
}

impl FromShort for i16 {
    fn from_short(short: i16) -> Self {
        short
    }
}

impl FromShort for f64 {
    fn from_short(short: i16) -> Self {
        short.into()
    }
}

struct Case<'a> {
    scanned: &'a Scanned,
    strategy: Strategy,
    state: CacheState,
    measured: Vec<Duration>,
    predicted: Vec<Duration>,
}

impl<'a> Case<'a> {
    fn new(scanned: &'a Scanned, strategy: Strategy, state: CacheState) -> Self {
        Self {
            scanned,
            strategy,
            state,
            measured: Vec::new(),
            predicted: Vec::new(),
        }
    }

    fn report(&self, results: &mut Results, state: &str) {
        let strategy = self.strategy;
        let name = match self.scanned.dtype {
            DType::I16 => format!("store/strategies/{state}/{strategy}"),
            other => format!("store/strategies/{state}/{strategy}/{}", other.name()),
        };
        if self.predicted.len() < self.measured.len() {
            println!("{name}: not measured here, so not predicted");
            return;
        }
        let (ours, foretold) = (self.measured.clone(), self.predicted.clone());
        report(
            results,
            &name,
            ours,
            foretold,
            self.scanned.bytes,
            self.state,
        );
    }
}

/// Above 1 the scan was faster than predicted.
fn report(
    results: &mut Results,
    name: &str,
    ours: Vec<Duration>,
    foretold: Vec<Duration>,
    bytes: u64,
    state: CacheState,
) {
    let (ours, foretold) = (Times::from(ours), Times::from(foretold));
    let middle = ratio(&ours, &foretold);
    let met = (1.0 - MAX_PREDICTION_ERROR..=1.0 / (1.0 - MAX_PREDICTION_ERROR)).contains(&middle);
    let spread = ours.seconds();
    // Unpredictable if every fourth scan takes twice as long.
    let unpredictable = state == CacheState::Cold && spread.high > 1.5 * spread.low;
    let what = match unpredictable {
        true => {
            "the prediction from a calibration of the same round (unpredictable: the disk's speed changes)"
        }
        false => "the prediction from a calibration of the same round",
    };
    let goal = (!unpredictable).then_some(("0.85 to 1.18", met));
    results.compare(name, &ours, what, &foretold, Some(bytes), goal);
}

fn check(rows: &[Row<f64>], expected: &[Row<i16>], what: &str) {
    assert!(!rows.is_empty() && rows.len() <= expected.len(), "{what}");
    for (row, expected) in rows.iter().zip(expected) {
        let extremes = (f64::from(expected.0), f64::from(expected.1));
        assert_eq!((row.0, row.1), extremes, "{what}");
        assert!((row.2 - expected.2).abs() < 1e-9, "{what}");
    }
}

/// The shard files of an array, each with its bytes of samples.
pub fn shards(array: &Path, bytes: u64) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let mut files = Vec::new();
    let mut left = bytes;
    for shard in 0.. {
        let path = layout::shard_file(array, shard);
        let Ok(file) = File::open(&path) else { break };
        let len = (file.metadata()?.len() - PAYLOAD).min(left);
        left -= len;
        files.push((path, len));
    }
    assert_eq!(left, 0, "shards hold what was appended");
    Ok(files)
}

/// For a cold scan, drops the files from the page cache, which has room for them while the result lives.
fn cooled(files: &[(PathBuf, u64)], state: CacheState) -> Result<Option<Supply>, Failure> {
    if state != CacheState::Cold {
        return Ok(None);
    }
    forget(files)?;
    let bytes = files.iter().map(|(_, bytes)| bytes * 5 / 4).sum();
    Ok(Some(Supply::of(bytes)))
}

fn forget(files: &[(PathBuf, u64)]) -> Result<(), Failure> {
    for (path, _) in files {
        rustix::fs::fadvise(File::open(path)?, 0, None, rustix::fs::Advice::DontNeed)?;
    }
    Ok(())
}

/// Brings the files into the page cache as a sequential reader leaves them. Drops them first: a fault maps fewer pages
/// that were read ahead on request.
fn refill(files: &[(PathBuf, u64)]) -> Result<(), Failure> {
    forget(files)?;
    let mut buffer = vec![0; 512 << 10];
    for (path, _) in files {
        let mut file = File::open(path)?;
        while std::io::Read::read(&mut file, &mut buffer)? > 0 {}
    }
    Ok(())
}

fn plan(
    path: &Path,
    scanned: &Scanned,
    strategy: Strategy,
    window: usize,
) -> Result<(Vec<Row<f64>>, Duration), Failure> {
    let store = Store::open(path, Mode::Read)?;
    let stored = StoredRecording::new(store.path(), store.signal(scanned.name)?).io(strategy);
    let plan = Plan::scan(stored).rewindow(window as u64)?;
    let plan = plan.stats([Stat::Min, Stat::Max, Stat::Mean])?;
    let begun = Instant::now();
    let gathered = plan.collect()?;
    let spent = begun.elapsed();
    Ok((rows(gathered)?, spent))
}

fn rows(gathered: PlanOutput) -> Result<Vec<Row<f64>>, Failure> {
    let PlanOutput::Rows(table) = gathered else {
        return Err("statistics are rows".into());
    };
    let column = |name| -> Result<Vec<f64>, Failure> {
        let column = table.column_by_name(name).ok_or("a column is missing")?;
        Ok(match column.as_primitive_opt::<Int64Type>() {
            Some(whole) => whole.values().iter().map(|&value| value as f64).collect(),
            None => column.as_primitive::<Float64Type>().values().to_vec(),
        })
    };
    let (low, high, mean) = (column("min")?, column("max")?, column("mean")?);
    let rows = low.into_iter().zip(high).zip(mean);
    Ok(rows.map(|((low, high), mean)| (low, high, mean)).collect())
}
