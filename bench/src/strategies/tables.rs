//! The thesis's tables 5.2 to 5.4: the two parts of Scan Summarize by strategy, page faults, and conclusions.

use std::path::{Path, PathBuf};

use isochrony::prelude::*;
use isochrony_store::Strategy;
use isochrony_store::machine::{
    CacheState, CalibrationOptions, Quartiles, Trial, calibrate, time_scan,
};

use super::{Failure, cooled, refill};
use crate::measure::{Results, order};

/// Of the thesis's load, 3,947,364,352 bytes.
struct Thesis {
    name: &'static str,
    /// Seconds of requesting and of summarising samples: medians of table 5.2.
    outer: f64,
    inner: f64,
    /// Table 5.3.
    faults: u64,
    reclaims: u64,
}

fn thesis(strategy: Strategy) -> Option<Thesis> {
    let row = |name, outer, inner, faults, reclaims| Thesis {
        name,
        outer,
        inner,
        faults,
        reclaims,
    };
    Some(match strategy {
        Strategy::Read => row("Fread", 26.93, 5.97, 0, 0),
        Strategy::Mmap => row("Mmap", 7.28, 44.42, 60_231, 903_481),
        Strategy::Readahead => row("Ptr RA", 8.88, 17.25, 0, 963_712),
        Strategy::ReadaheadAll => row("Long RA", 7.04, 45.10, 60_231, 903_481),
        _ => return None,
    })
}

type Trials = Vec<Vec<Trial>>;

const STATES: [(CacheState, &str); 3] = [
    (CacheState::Cold, "on the disk"),
    (CacheState::Cached, "in the page cache"),
    (CacheState::Mapped, "scanned again"),
];

pub fn run(
    dir: &Path,
    path: &Path,
    files: &[(PathBuf, u64)],
    quick: bool,
    results: &mut Results,
) -> Result<(), Failure> {
    let rounds = if quick { 1 } else { 3 };
    let mut all: Vec<Trials> = vec![vec![Vec::new(); STATES.len()]; Strategy::ALL.len()];
    for round in 0..rounds {
        for at in order(Strategy::ALL.len(), round) {
            let _supply = cooled(files, CacheState::Cold)?;
            let (trial, _) = scan(path, Strategy::ALL[at], CacheState::Cold)?;
            all[at][0].extend(trial);
        }
        refill(files)?;
        for at in order(Strategy::ALL.len(), round) {
            let (first, again) = scan(path, Strategy::ALL[at], CacheState::Cached)?;
            all[at][1].extend(first);
            all[at][2].extend(again);
        }
    }
    loops(&all, results);
    faults(&all, results);
    parameters(dir, quick, results)
}

fn scan(
    path: &Path,
    strategy: Strategy,
    state: CacheState,
) -> Result<(Option<Trial>, Option<Trial>), Failure> {
    let store = Store::open(path, Mode::Read)?;
    let signal = store.signal("short")?;
    let first = time_scan(&signal, strategy, state)?;
    let again = match state {
        CacheState::Cold => None,
        _ => time_scan(&signal, strategy, CacheState::Mapped)?,
    };
    Ok((first, again))
}

fn median(trials: &[Trial], of: impl Fn(&Trial) -> f64) -> Option<f64> {
    Some(Quartiles::of(trials.iter().map(of).collect())?.median)
}

fn text(value: Option<f64>, digits: usize) -> String {
    value.map_or("–".into(), |value| format!("{value:.digits$}"))
}

fn loops(all: &[Trials], results: &mut Results) {
    let each = |trials: &[Trial], of: fn(&Trial) -> f64| {
        text(median(trials, |one| of(one) * 1e12 / one.bytes), 0)
    };
    let rows: Vec<Vec<String>> = Strategy::ALL
        .iter()
        .zip(all)
        .map(|(strategy, states)| {
            let old = thesis(*strategy);
            let per_byte = |seconds: f64| seconds * 1e12 / 3_947_364_352.0;
            let mut row = vec![
                strategy.to_string(),
                old.as_ref().map_or("–", |old| old.name).into(),
                text(old.as_ref().map(|old| per_byte(old.outer)), 0),
                text(old.as_ref().map(|old| per_byte(old.inner)), 0),
            ];
            for trials in states {
                row.push(each(trials, |one| one.outer));
                row.push(each(trials, |one| one.inner));
            }
            row
        })
        .collect();
    results.table(
        "store/strategies/table_5_2",
        "Table 5.2: Scan Summarize in picoseconds a byte, outer loop (asking) and inner loop (summarising, faults); medians",
        &[
            "strategy",
            "thesis",
            "2010 outer",
            "2010 inner",
            "on the disk: outer",
            "inner",
            "in the page cache: outer",
            "inner",
            "scanned again: outer",
            "inner",
        ],
        &rows,
        None,
    );
}

fn faults(all: &[Trials], results: &mut Results) {
    // Per million bytes, to compare loads of different size.
    let each = |trials: &[Trial], of: fn(&Trial) -> f64| {
        text(median(trials, |one| of(one) * 1e9 / one.bytes), 0)
    };
    let rows: Vec<Vec<String>> = Strategy::ALL
        .iter()
        .zip(all)
        .map(|(strategy, states)| {
            let old = thesis(*strategy);
            let a_gigabyte = |count: u64| count as f64 * 1e9 / 3_947_364_352.0;
            let mut row = vec![
                strategy.to_string(),
                old.as_ref().map_or("–", |old| old.name).into(),
                text(old.as_ref().map(|old| a_gigabyte(old.faults)), 0),
                text(old.as_ref().map(|old| a_gigabyte(old.reclaims)), 0),
            ];
            for trials in states {
                row.push(each(trials, |one| one.major));
                row.push(each(trials, |one| one.minor));
            }
            row
        })
        .collect();
    results.table(
        "store/strategies/table_5_3",
        "Table 5.3: page faults for each GB scanned, major (the disk is waited for) and minor (reclaims), by getrusage; medians",
        &[
            "strategy",
            "thesis",
            "2010 major",
            "2010 minor",
            "on the disk: major",
            "minor",
            "in the page cache: major",
            "minor",
            "scanned again: major",
            "minor",
        ],
        &rows,
        None,
    );
}

fn parameters(dir: &Path, quick: bool, results: &mut Results) -> Result<(), Failure> {
    let wanted = CalibrationOptions {
        folder: dir.into(),
        bytes: if quick { 8 << 20 } else { 256 << 20 },
        repeats: if quick { 1 } else { 3 },
    };
    let mut profile = calibrate(&wanted, |_, _| {})?;
    let volume = profile.volumes.swap_remove(0);
    let show = |value: Option<Quartiles>, scale: f64, unit: &str| match value {
        None => "–".into(),
        Some(Quartiles { low, median, high }) => format!(
            "{:.3} {unit} ({:.3} to {:.3})",
            median * scale,
            low * scale,
            high * scale
        ),
    };
    let fastest = volume
        .paths
        .values()
        .filter_map(|path| Some(path.cold?.throughput));
    let fastest = fastest.max_by(|one, other| one.median.total_cmp(&other.median));
    let row = |name: &str, old: &str, new: String| vec![name.to_owned(), old.to_owned(), new];
    let rows = [
        row("disk throughput", "160 MB/s", show(fastest, 1e-6, "MB/s")),
        row(
            "major page fault",
            "0.46 ms",
            show(volume.major_fault, 1e3, "ms"),
        ),
        row(
            "minor page fault",
            "11.7 us",
            show(volume.costs.minor_fault, 1e6, "us"),
        ),
        row(
            "the same a page",
            "11.7 us",
            show(volume.costs.page, 1e6, "us"),
        ),
        row(
            "page size",
            "4 KB",
            format!("{} bytes", profile.machine.page_bytes),
        ),
        row(
            "a system call",
            "–",
            show(Some(profile.system_call), 1e6, "us"),
        ),
        row("cores", "12", profile.machine.cores.to_string()),
    ];
    results.table(
        "store/strategies/table_5_4",
        "Tables 5.1 and 5.4: parameters as the thesis derives them",
        &["parameter", "2010", "here: median (quartiles)"],
        &rows,
        None,
    );
    Ok(())
}
