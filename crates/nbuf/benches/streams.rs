//! `nbuf/{stats,sha256}/{memory,file}/...`: streams through workers against the bare kernel and against what memory gives.
//!
//! - `stats/memory`: minimum, maximum and mean of 16-bit samples in memory, the paper's benchmark, against the same kernel
//!   called bare in one thread and in as many as there are cores, and against reading the same bytes in as many (the sum
//!   of 64-bit words). What is compared takes turns; ratios are medians.
//! - `stats/table`: seconds by workers, memory, source and order, as the paper's figures 10 to 13.
//! - `sha256/file`: a file whose pages are cached, against the hash alone over the same bytes in memory.
//!
//! `ISOCHRONY_BENCH_MB` (default 1024) and `ISOCHRONY_BENCH_ROUNDS` (default 9) set the size. Run as a test it is small and
//! asserts no speed. Every result is checked against a plain loop.

use std::hint::black_box;
use std::io::{Seek, Write};
use std::num::NonZero;
use std::thread;
use std::time::Instant;

use isochrony_bytes::{Chain, Outcome, Piece};
use isochrony_nbuf::{Framing, Input, Native, Options, Order, run};

const ORDERS: [Order; 4] = [Order::None, Order::Output, Order::Execution, Order::Both];

struct Size {
    test: bool,
    bytes: usize,
    rounds: usize,
    cores: usize,
}

fn main() {
    // Only `cargo bench` says so; `cargo test` runs it small.
    let test = !std::env::args().any(|argument| argument == "--bench");
    let number = |name: &str, default: usize| {
        let set = std::env::var(name).ok().and_then(|text| text.parse().ok());
        set.unwrap_or(default)
    };
    let size = Size {
        test,
        bytes: if test {
            3 << 20
        } else {
            number("ISOCHRONY_BENCH_MB", 1024) << 20
        },
        rounds: if test {
            1
        } else {
            number("ISOCHRONY_BENCH_ROUNDS", 9)
        },
        cores: thread::available_parallelism().map_or(1, NonZero::get),
    };
    let data = samples(size.bytes);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&data).expect("disk space");
    statistics(&size, &data);
    hash(&size, &data, &mut file);
    table(&size, &data, &mut file);
}

/// Noise a few counts wide on a slow wave: what sensors give.
fn samples(bytes: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let sample = |place: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let wave = (place % 4096) as i32 - 2048;
        (wave + (state >> 27) as i32) as i16
    };
    (0..bytes / 2)
        .map(sample)
        .flat_map(i16::to_le_bytes)
        .collect()
}

fn options(order: Order, workers: Option<usize>) -> Options {
    Options {
        order,
        workers,
        framing: Framing::Stride(2),
        ..Options::default()
    }
}

/// Seconds, and what was found.
fn through(name: &str, options: &Options, input: Input<'_>) -> (f64, Outcome) {
    let native = Native::parse(&[name]).expect("there is such a processor");
    let begun = Instant::now();
    run(options, vec![input], &native, vec![], &mut |_| true).expect("no error");
    let seconds = begun.elapsed().as_secs_f64();
    let (_, outcome) = native.outcomes().pop().expect("a result");
    (seconds, outcome)
}

/// The kernel over pieces that stay in a cache, without workers, turns or buffers.
fn bare(name: &str, data: &[u8]) -> (f64, Outcome) {
    let chain = Chain::parse(&[name]).expect("there is such a processor");
    let begun = Instant::now();
    let (mut part, mut state) = (chain.part(), chain.state());
    for (number, bytes) in data.chunks(1 << 20).enumerate() {
        let piece = Piece {
            offset: (number << 20) as u64,
            bytes,
        };
        chain.scan(piece, &mut part).expect("no error");
        let _ = chain.join(piece, &mut part, &mut state).expect("no error");
    }
    let outcome = chain.finish(&mut state).expect("no error").pop();
    (begun.elapsed().as_secs_f64(), outcome.expect("a result"))
}

/// The kernel in several threads with a part of the memory each.
fn bare_threads(name: &str, data: &[u8], threads: usize) -> f64 {
    let begun = Instant::now();
    thread::scope(|scope| {
        for part in data.chunks(data.len().div_ceil(threads)) {
            scope.spawn(|| black_box(bare(name, part)));
        }
    });
    begun.elapsed().as_secs_f64()
}

/// What memory gives: the sum of all words, in several threads.
fn memory_speed(data: &[u8], threads: usize) -> f64 {
    let begun = Instant::now();
    thread::scope(|scope| {
        for part in data.chunks(data.len().div_ceil(threads)) {
            scope.spawn(|| {
                let words = part.chunks_exact(64);
                let sums = words.fold([0_u64; 8], |mut sums, line| {
                    for (sum, word) in sums.iter_mut().zip(line.chunks_exact(8)) {
                        let word = word.try_into().expect("8 bytes");
                        *sum = sum.wrapping_add(u64::from_le_bytes(word));
                    }
                    sums
                });
                black_box(sums)
            });
        }
    });
    begun.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn check(outcome: &Outcome, data: &[u8]) {
    let Outcome::Statistics(found) = outcome else {
        panic!("{outcome:?} are no statistics")
    };
    let samples = data
        .chunks_exact(2)
        .map(|two| i64::from(i16::from_le_bytes([two[0], two[1]])));
    let sum: i64 = samples.clone().sum();
    let count = data.len() as u64 / 2;
    assert_eq!(found.count, count);
    assert_eq!(
        format!("{:?}", found.min),
        format!("Int({})", samples.clone().min().expect("samples"))
    );
    assert_eq!(
        format!("{:?}", found.max),
        format!("Int({})", samples.max().expect("samples"))
    );
    assert!((found.mean - sum as f64 / count as f64).abs() < 1e-9);
}

fn statistics(size: &Size, data: &[u8]) {
    let name = "stats:<i2";
    let mut seconds: [Vec<f64>; 4] = Default::default();
    for _ in 0..size.rounds {
        let (took, outcome) = through(name, &options(Order::None, None), Input::bytes(data));
        check(&outcome, data);
        seconds[0].push(took);
        seconds[1].push(bare(name, data).0);
        seconds[2].push(bare_threads(name, data, size.cores));
        seconds[3].push(memory_speed(data, size.cores));
    }
    let ratio = |other: usize| {
        median(
            seconds[other]
                .iter()
                .zip(&seconds[0])
                .map(|(other, ours)| other / ours)
                .collect(),
        )
    };
    let [ours, one, all, memory] = [0, 1, 2, 3].map(|which| median(seconds[which].clone()));
    let gb = data.len() as f64 / 1e9;
    println!("nbuf/stats/memory: {ours:.4} s, {:.1} GB/s", gb / ours);
    println!(
        "  bare, 1 thread:   {one:.4} s, {:.1} GB/s; speed-up {:.2}",
        gb / one,
        ratio(1)
    );
    println!(
        "  bare, {} threads:  {all:.4} s, {:.1} GB/s; {:.2} of it",
        size.cores,
        gb / all,
        ratio(2)
    );
    println!(
        "  memory, {} threads: {memory:.4} s, {:.1} GB/s; {:.2} of it",
        size.cores,
        gb / memory,
        ratio(3)
    );
}

fn table(size: &Size, data: &[u8], file: &mut std::fs::File) {
    let name = "stats:<i2";
    println!("nbuf/stats/table: seconds by source, memory, order and 1, 2, 4, ... workers");
    let memories: &[usize] = if size.test {
        &[20]
    } else {
        &[18, 20, 22, 24, 26, 28, 30]
    };
    for source in ["memory", "file"] {
        for memory in memories {
            for order in ORDERS {
                let mut line = format!(
                    "  {source:6} {:>8} KiB {order:9?}",
                    (1_usize << memory) >> 10
                );
                for workers in [1, 2, 4, 8, 16] {
                    let options = Options {
                        memory: 1 << memory,
                        // As the paper has it: all memory, divided among workers.
                        buffer: Some(((1 << memory) / workers / 2).max(2) & !1),
                        ..options(order, Some(workers))
                    };
                    let took = (0..size.rounds.min(3)).map(|_| {
                        file.rewind().expect("a file");
                        let input = if source == "memory" {
                            Input::bytes(data)
                        } else {
                            Input::file(file.try_clone().expect("a file")).expect("a file")
                        };
                        through(name, &options, input).0
                    });
                    line += &format!(" {:.3}", median(took.collect()));
                }
                println!("{line}");
            }
        }
    }
}

fn hash(size: &Size, data: &[u8], file: &mut std::fs::File) {
    let mut ratios = Vec::new();
    let mut seconds = Vec::new();
    for _ in 0..size.rounds.min(5) {
        file.rewind().expect("a file");
        let input = Input::file(file.try_clone().expect("a file")).expect("a file");
        let (ours, found) = through("sha256", &options(Order::None, None), input);
        let (alone, wanted) = bare("sha256", data);
        assert_eq!(found, wanted);
        ratios.push(alone / ours);
        seconds.push(ours);
    }
    let ours = median(seconds);
    let gb = data.len() as f64 / 1e9;
    println!(
        "nbuf/sha256/file: {ours:.3} s, {:.2} GB/s; {:.2} of the hash alone",
        gb / ours,
        median(ratios)
    );
}
