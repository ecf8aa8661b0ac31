//! store/view: 2000 columns of an hour and of a year at 100 Hz.

use std::path::Path;

use isochrony::prelude::*;

use crate::measure::{Results, interleave, noise, ratio};

const PIXELS: usize = 2000;

pub fn run(
    dir: &Path,
    quick: bool,
    results: &mut Results,
) -> Result<(), Box<dyn std::error::Error>> {
    let store = Store::open(dir.join("view.iso"), Mode::Create)?;
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100)?);
    options.start = Some(civil::parse("2020-01-01T00:00:00Z")?);
    let writer = store.create("s", &options)?;
    let hour = 360_000i64;
    let year = if quick { 7 * 24 * hour } else { 8766 * hour };
    let block = noise(3, 1 << 22);
    let mut left = year;
    while left > 0 {
        let count = left.min(block.len() as i64);
        writer.append(&block[..count as usize])?;
        left -= count;
    }
    store.commit(true)?;
    store.close()?;
    let store = Store::open(dir.join("view.iso"), Mode::Read)?;
    let signal = store.signal("s")?;
    let view = |from: i64, length: i64| {
        let view = signal.view(from..from + length, PIXELS).expect("a view");
        let columns = &view.columns;
        assert_eq!(columns.len(), PIXELS);
        assert_eq!(columns.count.iter().sum::<u64>(), length.unsigned_abs());
        assert_eq!(
            (columns.start[0], columns.end[PIXELS - 1]),
            (from, from + length)
        );
        assert!(view.civil.is_some());
        view
    };
    for (from, length) in [(1_000_003, hour), (0, year)] {
        let found = view(from, length).columns;
        let max = found.max.samples::<i16>().expect("i16");
        for k in [0, 1, PIXELS / 2, PIXELS - 1] {
            let range = found.start[k]..found.end[k];
            let segment = signal.select(range)?.as_segment()?;
            let samples = segment.to_vec::<i16>()?;
            assert_eq!(samples.iter().max(), Some(&max[k]));
            let mean = samples.iter().map(|x| f64::from(*x)).sum::<f64>() / samples.len() as f64;
            assert!((mean - found.mean[k]).abs() < 1e-6);
        }
    }
    let rounds = if quick { 5 } else { 101 };
    let (year_times, hour_times) =
        interleave(rounds, || _ = view(0, year), || _ = view(year / 3, hour));
    let (a, b) = (year_times.seconds().median, hour_times.seconds().median);
    let between = ratio(&year_times, &hour_times);
    let met = a < 0.005 && b < 0.005 && (0.5..=2.0).contains(&between);
    results.compare(
        "store/view/1-year/2000-pixels",
        &year_times,
        "the same of 1 hour",
        &hour_times,
        None,
        Some(("within 2x of each other, each < 5 ms", met)),
    );
    Ok(())
}
