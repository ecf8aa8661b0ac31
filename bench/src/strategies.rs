//! store/strategies: Scan Summarize by each I/O strategy, against what a calibration predicts and against bare loops over
//! the same files, with them in the page cache and without.
//!
//! Disks of virtual machines change their speed from one minute to the next. In each round a calibration is made, then
//! every scan; a prediction is compared with the measurement of its own round.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use isochrony::flow::arrow::array::cast::AsArray;
use isochrony::flow::arrow::array::types::{Float64Type, Int64Type};
use isochrony::prelude::*;
use isochrony_store::machine::{Amount, Calibration, State, calibrate};
use isochrony_store::{Strategy, layout};

use crate::measure::{Results, Times, noise, ratio};

const WINDOW: usize = 120_000;
/// Where samples begin in a shard.
pub const PAYLOAD: u64 = 65_536;

type Failure = Box<dyn std::error::Error>;
type Rows = Vec<(i16, i16, f64)>;

/// What is told of a prediction that is off by no more than that, either way.
const CLOSE: f64 = 0.15;

pub fn run(dir: &Path, quick: bool, results: &mut Results) -> Result<(), Failure> {
    let bytes: u64 = if quick { 16 << 20 } else { 1 << 30 };
    let rounds = if quick { 2 } else { 11 };
    let path = dir.join("scan.iso");
    let files = make(&path, bytes)?;
    let expected = BARE[0].1(&files)?;
    let states = [(State::Cached, "cached"), (State::Cold, "cold")];
    // Seconds by state, strategy and round.
    let mut measured = vec![vec![Vec::new(); Strategy::ALL.len()]; states.len()];
    let mut predicted = measured.clone();
    let mut bare = vec![vec![Vec::new(); BARE.len()]; states.len()];
    let mut chosen = vec![Vec::new(); states.len()];
    for round in 0..rounds {
        let wanted = Calibration {
            folder: dir.into(),
            bytes: bytes.min(512 << 20),
            repeats: 1,
        };
        let volume = calibrate(&wanted, |_, _| {})?.volumes.swap_remove(0);
        for (k, (state, _)) in states.into_iter().enumerate() {
            let amount = Amount {
                bytes: bytes as f64,
                cached: Some(if state == State::Cached { 1.0 } else { 0.0 }),
            };
            // Past the page cache nothing is left for the next scan, so that it is not chosen unless asked for.
            let best = volume.best(amount, |one| !one.is_direct());
            for turn in 0..Strategy::ALL.len() {
                let at = (turn + round) % Strategy::ALL.len();
                let strategy = Strategy::ALL[at];
                prepare(&files, state)?;
                let (rows, spent) = plan(&path, strategy)?;
                check(&rows, &expected, strategy.name());
                measured[k][at].push(spent);
                let seconds = volume.predict(strategy, state, bytes as f64);
                predicted[k][at].extend(seconds.map(|s| Duration::from_secs_f64(s.median)));
                if best == Some(strategy) {
                    chosen[k].push(spent);
                }
            }
            for turn in 0..BARE.len() {
                let at = (turn + round) % BARE.len();
                prepare(&files, state)?;
                let begun = Instant::now();
                let rows = BARE[at].1(&files)?;
                bare[k][at].push(begun.elapsed());
                check(&rows, &expected, BARE[at].0);
            }
        }
    }
    for (k, (state, name)) in states.into_iter().enumerate() {
        for (at, strategy) in Strategy::ALL.into_iter().enumerate() {
            let (ours, foretold) = (measured[k][at].clone(), predicted[k][at].clone());
            if foretold.len() < ours.len() {
                println!("store/strategies/{name}/{strategy}: not measured here, so not predicted");
                continue;
            }
            report(
                results,
                &format!("store/strategies/{name}/{strategy}"),
                ours,
                foretold,
                bytes,
                state,
            );
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
    Ok(())
}

/// A prediction against what came: above 1 the scan was faster than predicted.
fn report(
    results: &mut Results,
    name: &str,
    ours: Vec<Duration>,
    foretold: Vec<Duration>,
    bytes: u64,
    state: State,
) {
    let (ours, foretold) = (Times::from(ours), Times::from(foretold));
    let middle = ratio(&ours, &foretold);
    let met = (1.0 - CLOSE..=1.0 / (1.0 - CLOSE)).contains(&middle);
    let spread = ours.seconds();
    // A disk that takes twice as long in every fourth scan cannot be foretold.
    let unpredictable = state == State::Cold && spread.high > 1.5 * spread.low;
    let what = match unpredictable {
        true => {
            "the prediction from a calibration of the same round (unpredictable: the disk's speed changes)"
        }
        false => "the prediction from a calibration of the same round",
    };
    let goal = (!unpredictable).then_some(("0.85 to 1.18", met));
    results.compare(name, &ours, what, &foretold, Some(bytes), goal);
}

fn check(rows: &Rows, expected: &Rows, what: &str) {
    assert_eq!(rows.len(), expected.len(), "{what}");
    for (row, expected) in rows.iter().zip(expected) {
        assert_eq!((row.0, row.1), (expected.0, expected.1), "{what}");
        assert!((row.2 - expected.2).abs() < 1e-9, "{what}");
    }
}

/// Writes a signal; its shard files, each with its bytes of samples.
fn make(path: &Path, bytes: u64) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let store = Store::open(path, Mode::Create)?;
    let writer = store.create("s", &CreateOptions::new(DType::I16, Rate::from_hz(2_000)?))?;
    let block = noise(1, 8 << 20);
    for _ in 0..bytes / (16 << 20) {
        writer.append(&block)?;
    }
    store.commit(true)?;
    store.close()?;
    shards(&path.join("s").join("data"), bytes)
}

/// The shard files of an array, each with its bytes of samples, of which there are so many.
pub fn shards(array: &Path, bytes: u64) -> Result<Vec<(PathBuf, u64)>, Failure> {
    let mut files = Vec::new();
    let mut left = bytes;
    for shard in 0.. {
        let path = layout::shard_file(array, shard);
        let Ok(file) = File::open(&path) else { break };
        file.sync_all()?;
        let len = (file.metadata()?.len() - PAYLOAD).min(left);
        left -= len;
        files.push((path, len));
    }
    assert_eq!(left, 0, "shards hold what was appended");
    Ok(files)
}

/// Drops the files from the page cache, or fills it with them.
fn prepare(files: &[(PathBuf, u64)], state: State) -> Result<(), Failure> {
    let mut buffer = vec![0; 1 << 20];
    for (path, _) in files {
        let mut file = File::open(path)?;
        match state {
            State::Cold => rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?,
            _ => while std::io::Read::read(&mut file, &mut buffer)? > 0 {},
        }
    }
    Ok(())
}

/// The plan, from opening the store to the table.
fn plan(path: &Path, strategy: Strategy) -> Result<(Rows, Duration), Failure> {
    let store = Store::open(path, Mode::Read)?;
    let stored = Stored::new(store.path(), store.signal("s")?).io(strategy);
    let plan = Plan::scan(stored).rewindow(WINDOW as u64)?;
    let plan = plan.stats([Stat::Min, Stat::Max, Stat::Mean])?;
    let begun = Instant::now();
    let gathered = plan.collect()?;
    let spent = begun.elapsed();
    let Gathered::Rows(table) = gathered else {
        return Err("statistics are rows".into());
    };
    let column = |name| table.column_by_name(name).ok_or("a column is missing");
    let (low, high) = (
        column("min")?.as_primitive::<Int64Type>(),
        column("max")?.as_primitive::<Int64Type>(),
    );
    let mean = column("mean")?.as_primitive::<Float64Type>();
    let rows =
        (0..table.num_rows()).map(|k| (low.value(k) as i16, high.value(k) as i16, mean.value(k)));
    Ok((rows.collect(), spent))
}

// --- bare loops ---

type Bare = (&'static str, fn(&[(PathBuf, u64)]) -> Result<Rows, Failure>);

const BARE: [Bare; 4] = [
    ("pread of 512 KiB", |files| copied(files, 512 << 10, 0)),
    ("mmap", |files| mapped(files, false)),
    ("mmap with read-ahead", |files| mapped(files, true)),
    ("pread of 4 MiB past the page cache", |files| {
        copied(files, 4 << 20, O_DIRECT)
    }),
];

#[cfg(any(target_arch = "aarch64", target_arch = "arm"))]
const O_DIRECT: i32 = 0o200_000;
#[cfg(not(any(target_arch = "aarch64", target_arch = "arm")))]
const O_DIRECT: i32 = 0o40_000;

fn copied(files: &[(PathBuf, u64)], piece: usize, flags: i32) -> Result<Rows, Failure> {
    let mut windows = Windows::default();
    let mut memory = vec![0i16; (piece + 4096) / 2];
    let skip = memory.as_ptr().addr().wrapping_neg() % 4096 / 2;
    for (path, len) in files {
        let file = File::options().read(true).custom_flags(flags).open(path)?;
        let mut at = 0;
        while at < *len {
            let samples = &mut memory[skip..][..(piece as u64).min(len - at) as usize / 2];
            // SAFETY: any bytes are samples, and the slice has twice as many of them.
            let bytes = unsafe {
                std::slice::from_raw_parts_mut(samples.as_mut_ptr().cast::<u8>(), samples.len() * 2)
            };
            file.read_exact_at(bytes, PAYLOAD + at)?;
            windows.push(samples);
            at += samples.len() as u64 * 2;
        }
    }
    Ok(windows.table)
}

fn mapped(files: &[(PathBuf, u64)], ahead: bool) -> Result<Rows, Failure> {
    const PIECE: usize = 4 << 20;
    let mut windows = Windows::default();
    for (path, len) in files {
        let file = File::open(path)?;
        // SAFETY: nobody changes the file while it is measured.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        let payload = &map[PAYLOAD as usize..][..*len as usize];
        // SAFETY: the mapping begins at a page, and the payload at a multiple of 65,536 in it: aligned for samples.
        let samples = unsafe {
            std::slice::from_raw_parts(payload.as_ptr().cast::<i16>(), payload.len() / 2)
        };
        let mut asked = 0;
        for (k, part) in samples.chunks(PIECE / 2).enumerate() {
            let until = ((k + 2) * PIECE).min(payload.len());
            while ahead && asked < until {
                let len = (until - asked).min(1 << 20) as u64;
                let from = PAYLOAD + asked as u64;
                rustix::fs::fadvise(
                    &file,
                    from,
                    len.try_into().ok(),
                    rustix::fs::Advice::WillNeed,
                )?;
                asked += len as usize;
            }
            windows.push(part);
        }
    }
    Ok(windows.table)
}

/// Windows' minimum, maximum and mean, as one would write it by hand.
struct Windows {
    table: Rows,
    min: i16,
    max: i16,
    sum: i64,
    count: usize,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            table: Vec::new(),
            min: i16::MAX,
            max: i16::MIN,
            sum: 0,
            count: 0,
        }
    }
}

impl Windows {
    fn push(&mut self, samples: &[i16]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.push_avx2(samples) };
        }
        self.push_plain(samples);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn push_avx2(&mut self, samples: &[i16]) {
        self.push_plain(samples);
    }

    #[inline(always)]
    fn push_plain(&mut self, mut samples: &[i16]) {
        while !samples.is_empty() {
            let (part, rest) = samples.split_at(samples.len().min(WINDOW - self.count));
            samples = rest;
            // Sums of 32,768 samples fit 32 bits, which is what lets the compiler use vectors.
            for part in part.chunks(32_768) {
                let (mut low, mut high, mut total) = (i16::MAX, i16::MIN, 0i32);
                for &x in part {
                    low = low.min(x);
                    high = high.max(x);
                    total += i32::from(x);
                }
                self.min = self.min.min(low);
                self.max = self.max.max(high);
                self.sum += i64::from(total);
            }
            self.count += part.len();
            if self.count == WINDOW {
                let mean = self.sum as f64 / WINDOW as f64;
                self.table.push((self.min, self.max, mean));
                let table = std::mem::take(&mut self.table);
                *self = Self {
                    table,
                    ..Self::default()
                };
            }
        }
    }
}
