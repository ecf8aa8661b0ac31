//! Compares cached reads with reads of a plain file, stores with writes, and measures calls.
//!
//! Pairs alternate and are reported as median and spread of their ratio (bare time over ours: 1 is as fast). Results
//! are asserted; without `--bench` each case runs once on little data.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use isochrony_cache::{Cache, CacheError, CacheOptions, Check, ObjectKey, PinnedObject};

const PIECE: u64 = 1 << 20;

fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed().as_secs_f64(), result)
}

/// Lowest, median and highest.
fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    ]
}

struct Bench {
    turns: usize,
    bytes: u64,
}

impl Bench {
    fn compare<T: PartialEq>(
        &self,
        name: &str,
        mut bare: impl FnMut() -> (f64, T),
        mut ours: impl FnMut() -> (f64, T),
    ) {
        let mut ratios = Vec::new();
        let mut rates = Vec::new();
        for _ in 0..self.turns {
            let ((bare, expected), (ours, got)) = (bare(), ours());
            assert!(expected == got, "{name}: another result");
            ratios.push(bare / ours);
            rates.push(self.bytes as f64 / ours / 1e9);
        }
        let ([low, median, high], [_, rate, _]) = (spread(ratios), spread(rates));
        println!("{name}: {rate:.2} GB/s, ratio {median:.2} ({low:.2} to {high:.2})");
    }

    fn time(&self, name: &str, calls: u32, mut call: impl FnMut()) {
        let turns = (0..self.turns)
            .map(|_| seconds(|| (0..calls).for_each(|_| call())).0 / f64::from(calls));
        let [low, median, high] = spread(turns.collect());
        println!(
            "{name}: {:.2} us ({:.2} to {:.2})",
            median * 1e6,
            low * 1e6,
            high * 1e6
        );
    }
}

fn sum(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words
        .iter()
        .fold(0, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)))
}

fn fetch(object: &PinnedObject, content: &[u8]) {
    let fetched = object.fetch(0..object.bytes(), Duration::from_secs(60), |reservation| {
        for range in reservation.ranges() {
            for start in (range.start..range.end).step_by(PIECE as usize) {
                let end = (start + PIECE).min(range.end);
                reservation.store(
                    start,
                    &content[start as usize..end as usize],
                    Check::VerifiedByCaller,
                )?;
            }
        }
        Ok::<(), CacheError>(())
    });
    fetched.expect("fetched");
}

fn write_pieces(path: &Path, content: &[u8]) -> u64 {
    let file = File::create(path).expect("a file");
    for (at, piece) in content.chunks(PIECE as usize).enumerate() {
        file.write_all_at(piece, at as u64 * PIECE)
            .expect("written");
    }
    file.metadata().expect("its length").len()
}

fn read_all(bytes: u64, block: &mut [u8], read: impl Fn(&mut [u8], u64)) -> u64 {
    let mut total = 0u64;
    for at in (0..bytes).step_by(block.len()) {
        read(block, at);
        total = total.wrapping_add(sum(block));
    }
    total
}

#[allow(unsafe_code)] // The bare side maps a file too.
fn map(path: &Path) -> memmap2::Mmap {
    // SAFETY: nobody changes the file while this program runs.
    unsafe { memmap2::Mmap::map(&File::open(path).expect("a file")) }.expect("a mapping")
}

fn main() {
    let is_measured = std::env::args().any(|argument| argument == "--bench");
    let bench = match is_measured {
        true => Bench {
            turns: 15,
            bytes: 256 << 20,
        },
        false => Bench {
            turns: 1,
            bytes: 4 << 20,
        },
    };
    let temporary = tempfile::tempdir_in(".").expect("a folder");
    let folder = temporary.path().join("cache");
    let plain = temporary.path().join("plain");
    let content: Vec<u8> = (0..bench.bytes)
        .map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8)
        .collect();
    // Piece size determines the sizes of the page cache's folios.
    write_pieces(&plain, &content);
    let options = CacheOptions::new(bench.bytes * 4 + (64 << 20));
    let cache = Cache::open(&folder, options).expect("a cache");
    let key = |number: u32| ObjectKey::file(format!("https://example.org/{number}"), "1");
    let object = cache.pin(&key(0), bench.bytes).expect("pinned");
    fetch(&object, &content);

    let (ours, bare) = (object.map().expect("a mapping"), map(&plain));
    bench.compare(
        "cache/read/mapped, against a plain mapping",
        || seconds(|| sum(&bare)),
        || seconds(|| sum(ours.slice(0..bench.bytes).expect("present"))),
    );
    let file = File::open(&plain).expect("a file");
    let mut blocks = [vec![0; 64 << 10], vec![0; 64 << 10]];
    let [one, two] = &mut blocks;
    bench.compare(
        "cache/read/read_at/64KiB, against pread",
        || {
            seconds(|| {
                read_all(bench.bytes, one, |block, at| {
                    file.read_exact_at(block, at).expect("read")
                })
            })
        },
        || {
            seconds(|| {
                read_all(bench.bytes, two, |block, at| {
                    object.read_at(at, block).expect("read")
                })
            })
        },
    );
    bench.compare(
        "cache/read/first use of a process (checksums), against a new plain mapping",
        || seconds(|| sum(&map(&plain))),
        || {
            let other = Cache::open(&folder, options).expect("a cache");
            let object = other.pin(&key(0), bench.bytes).expect("pinned");
            seconds(|| {
                sum(object
                    .map()
                    .expect("a mapping")
                    .slice(0..bench.bytes)
                    .expect("present"))
            })
        },
    );
    let copy = temporary.path().join("copy");
    let mut number = 1;
    bench.compare(
        "cache/store/1MiB, against pwrite to a new file",
        || {
            let _ = std::fs::remove_file(&copy);
            seconds(|| write_pieces(&copy, &content))
        },
        || {
            cache.clear().expect("cleared");
            number += 1;
            seconds(|| {
                let object = cache.pin(&key(number), bench.bytes).expect("pinned");
                fetch(&object, &content);
                object.bytes()
            })
        },
    );
    bench.time("cache/pin+missing/pinned by this process", 10_000, || {
        let object = cache.pin(&key(0), bench.bytes).expect("pinned");
        assert!(object.missing(0..8 * 4096).expect("missing").is_empty());
    });
    let small = cache.pin(&key(1_000_000), 4096).expect("pinned");
    fetch(&small, &content);
    drop(small);
    bench.time("cache/pin+missing/not pinned before", 2_000, || {
        let object = cache.pin(&key(1_000_000), 4096).expect("pinned");
        assert!(object.missing(0..4096).expect("missing").is_empty());
    });
    let absent = cache.pin(&key(1_000_001), PIECE).expect("pinned");
    bench.time("cache/missing/absent", 2_000, || {
        assert_eq!(absent.missing(0..1).expect("missing").len(), 1);
    });
}
