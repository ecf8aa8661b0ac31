//! The paper's table 3: the machine without workers, in one thread. It is the measure of the grid, as of figures 10 to
//! 13.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::measure::{Results, order};
use crate::streams::{Expected, drop_cached};
use crate::supply::Supply;

type Failure = Box<dyn std::error::Error>;

/// Work, and the paper's mean in seconds and relative standard deviation in per cent.
const PAPER: [(&str, f64, f64); 4] = [
    (
        "reading it from a file, not in the page cache",
        13.411_522,
        2.81,
    ),
    (
        "writing it to a new file, until the system returns",
        0.541_844,
        1.28,
    ),
    ("copying it in memory", 0.184_583, 0.46),
    (
        "processing it in memory, one after another",
        4.757_252,
        0.68,
    ),
];

/// Mean in seconds, and standard deviation as per cent of it.
fn spread(times: &[Duration]) -> (f64, f64) {
    let count = times.len() as f64;
    let mean = times.iter().map(Duration::as_secs_f64).sum::<f64>() / count;
    let squares = times.iter().map(|time| (time.as_secs_f64() - mean).powi(2));
    let variance = squares.sum::<f64>() / (count - 1.0).max(1.0);
    (mean, variance.sqrt() / mean * 100.0)
}

/// `path` holds `data`, or more.
pub fn run(path: &Path, data: &[u8], rounds: usize, results: &mut Results) -> Result<(), Failure> {
    // 1 GB as in the paper, if there is as much.
    let data = &data[..data.len().min(1_000_000_000)];
    let expected = Expected::of(data);
    let mut other = vec![1; data.len()];
    let new = path.with_extension("new");
    let mut spent: [Vec<Duration>; 4] = Default::default();
    for round in 0..=rounds {
        for which in order(4, round) {
            let _supply = match which {
                0 => Some(drop_cached(path)?),
                1 => Some(Supply::of(data.len() as u64 * 5 / 4)),
                _ => None,
            };
            other[..4].fill(1);
            let begun = Instant::now();
            match which {
                0 => File::open(path)?.read_exact(&mut other)?,
                1 => File::create(&new)?.write_all(data)?,
                2 => black_box(&mut other[..]).copy_from_slice(black_box(data)),
                _ => assert_eq!(Expected::of(data), expected),
            }
            let took = begun.elapsed();
            match which {
                // The next finds an idle disk and a new file.
                1 => {
                    let file = File::open(&new)?;
                    assert_eq!(file.metadata()?.len(), data.len() as u64);
                    file.sync_all()?;
                    fs::remove_file(&new)?;
                }
                0 | 2 => assert!(other == data),
                _ => {}
            }
            if round > 0 {
                spent[which].push(took);
            }
        }
    }
    let rows: Vec<Vec<String>> = PAPER
        .iter()
        .zip(&spent)
        .map(|((what, mean, deviation), times)| {
            // The paper's are for 1 GB.
            let mean = mean * data.len() as f64 / 1e9;
            let (here, spread) = spread(times);
            vec![
                (*what).to_owned(),
                format!("{mean:.3}"),
                format!("{deviation:.1}"),
                format!("{here:.3}"),
                format!("{spread:.1}"),
                format!("{:.1}", mean / here),
            ]
        })
        .collect();
    results.table(
        "nbuf/table_3",
        &format!(
            "The paper's table 3: seconds for {} MB in one thread without workers, and their relative standard deviation in per \
             cent, means of {rounds} rounds by turns",
            data.len() / 1_000_000
        ),
        &["action", "2015", "RSD", "here", "RSD", "times as fast"],
        &rows,
        None,
    );
    Ok(())
}
