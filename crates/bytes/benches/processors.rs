//! Throughput of processors, run buffer by buffer in one thread, against the library's bare loop or reading memory.
//!
//! Pairs alternate and are reported as median and spread of their ratio (bare time by ours: 1 is as fast). Results are
//! asserted; without `--bench` each case runs once on little data. `cargo bench -p isochrony-bytes [-- WORD]` runs the
//! cases with WORD in their name.

use std::hint::black_box;
use std::time::Instant;

use isochrony_bytes::{Chain, JoinOutcome, Piece, Value};
use memchr::memmem;
use sha2::Digest as _;

/// Bytes of one buffer.
const BUFFER: usize = 4 << 20;

struct Bench {
    measured: bool,
    only: Option<String>,
}

fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = black_box(work());
    (start.elapsed().as_secs_f64(), result)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Runs a chain in order with one part; returns the fields of its first result, and the length of its output.
fn run(chain: &Chain, bytes: &[u8]) -> (Vec<(&'static str, Value)>, u64) {
    let (mut part, mut state) = (chain.part(), chain.state());
    let (mut offset, mut written) = (0, 0);
    for bytes in bytes.chunks(BUFFER) {
        let piece = Piece { offset, bytes };
        chain.scan(piece, &mut part).expect("a scan");
        while chain.join(piece, &mut part, &mut state).expect("a join") == JoinOutcome::Again {
            written += part
                .output()
                .iter()
                .map(|half| half.len() as u64)
                .sum::<u64>();
        }
        written += part
            .output()
            .iter()
            .map(|half| half.len() as u64)
            .sum::<u64>();
        offset = piece.end();
    }
    let outcomes = chain.finish(&mut state).expect("results");
    (outcomes[0].fields(), written + state.output().len() as u64)
}

impl Bench {
    fn length(&self, measured: usize) -> usize {
        if self.measured { measured } else { 64 << 10 }
    }

    /// A processor against a bare loop with the same result.
    fn against<T>(
        &self,
        case: &str,
        name: &str,
        bytes: &[u8],
        bare: impl Fn(&[u8]) -> T,
        agree: impl Fn(&[(&'static str, Value)], u64, &T) -> bool,
    ) {
        let case = format!("bytes/{name}/{case}");
        if self.only.as_ref().is_some_and(|only| !case.contains(only)) {
            return;
        }
        let chain = Chain::parse(&[name]).expect("a processor");
        let (mut ours, mut ratios) = (vec![], vec![]);
        for _ in 0..if self.measured { 9 } else { 1 } {
            let (theirs, want) = seconds(|| bare(black_box(bytes)));
            let (time, (fields, written)) = seconds(|| run(&chain, black_box(bytes)));
            assert!(agree(&fields, written, &want), "{case}: {fields:?}");
            ours.push(bytes.len() as f64 / time / 1e9);
            ratios.push(theirs / time);
        }
        let (ours, ratios) = (sorted(ours), sorted(ratios));
        let middle = ratios.len() / 2;
        println!(
            "{case}: {:.2} GB/s; ratio {:.2} ({:.2}..{:.2})",
            ours[middle],
            ratios[middle],
            ratios[ratios.len() / 10],
            ratios[ratios.len() * 9 / 10],
        );
    }
}

/// Eight sums of 64 bits, which compilers vectorise.
fn read(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<64>();
    let mut sums = [0u64; 8];
    for words in words {
        for (sum, word) in sums.iter_mut().zip(words.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.iter().fold(0, |a, b| a ^ b)
}

fn is_hex(fields: &[(&'static str, Value)], want: &[u8]) -> bool {
    let want: String = want.iter().map(|byte| format!("{byte:02x}")).collect();
    fields == [("hex", Value::Text(want))]
}

fn counts(fields: &[(&'static str, Value)], want: usize) -> bool {
    fields[0] == ("total", Value::Int(want as i128))
}

fn samples(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut level = 0.0f64;
    (0..length / 2)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            level = 0.99 * level + (state >> 40) as f64 / f64::from(1 << 24) * 20.0 - 10.0;
            (level as i16).to_le_bytes()
        })
        .collect()
}

/// `needle` is in every 20,000th line.
fn text(length: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(length + 200);
    let mut line = 0u64;
    while bytes.len() < length {
        line += 1;
        let mixed = line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        let what = match line % 20_000 {
            0 => "the needle was found",
            _ if mixed.is_multiple_of(3) => "the pump was started by the timer",
            _ => "pressure within the usual range",
        };
        bytes.extend(
            format!(
                "2026-11-22T08:{:02}:{:02} station {mixed} {what}\n",
                line / 60 % 60,
                line % 60
            )
            .into_bytes(),
        );
    }
    bytes.truncate(length);
    bytes
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut bench = Bench {
        measured: false,
        only: None,
    };
    for argument in arguments.by_ref() {
        match &argument[..] {
            "--bench" => bench.measured = true,
            word if !word.starts_with("--") => bench.only = Some(word.into()),
            _ => {}
        }
    }
    let long = samples(bench.length(512 << 20));
    // Words as floats would be NaN at random.
    let floats: Vec<u8> = long
        .as_chunks::<4>()
        .0
        .iter()
        .flat_map(|word| (i32::from_le_bytes(*word) as f32).to_le_bytes())
        .collect();
    let doubles: Vec<u8> = long
        .as_chunks::<8>()
        .0
        .iter()
        .flat_map(|word| (i64::from_le_bytes(*word) as f64).to_le_bytes())
        .collect();
    for (name, bytes) in [
        ("stats:<i2", &long),
        ("stats:>i2", &long),
        ("stats:u1", &long),
        ("stats:<i4", &long),
        ("stats:<f4", &floats),
        ("stats:<f8", &doubles),
    ] {
        // The bound is memory bandwidth.
        bench.against(
            "read",
            name,
            bytes,
            read,
            |fields, _, _| matches!(&fields[0], ("count", Value::Int(count)) if *count > 0),
        );
    }
    drop((floats, doubles));
    digests(&bench, &long);
    searches(&bench);
    outputs(&bench);
}

fn digests(bench: &Bench, long: &[u8]) {
    let short = &long[..bench.length(64 << 20)];
    macro_rules! bare {
        ($name:literal, $bytes:expr, $digest:expr) => {
            bench.against("bare", $name, $bytes, $digest, |fields, _, want| {
                is_hex(fields, &want[..])
            });
        };
    }
    bare!("sha256", short, |bytes| sha2::Sha256::digest(bytes));
    bare!("sha512", short, |bytes| sha2::Sha512::digest(bytes));
    bare!("md5", short, |bytes| md5::Md5::digest(bytes));
    bare!("blake3", long, |bytes| *blake3::hash(bytes).as_bytes());
    bare!("crc32c", long, |bytes| crc32c::crc32c(bytes).to_be_bytes());
    bare!("xxh3", long, |bytes| {
        twox_hash::XxHash3_64::oneshot(bytes).to_be_bytes()
    });
    bare!("xxh3-128", long, |bytes| {
        twox_hash::XxHash3_128::oneshot(bytes).to_be_bytes()
    });
}

fn searches(bench: &Bench) {
    let text = text(bench.length(256 << 20));
    for (name, pattern) in [
        ("count:needle", "needle"),
        ("count:the", "the"),
        ("count:started", "started"),
        ("count:station", "station"),
        ("count:e", "e"),
        ("count:ss", "ss"),
    ] {
        let finder = memmem::Finder::new(pattern);
        bench.against(
            "memmem",
            name,
            &text,
            |bytes| finder.find_iter(bytes).count(),
            |fields, _, &want| counts(fields, want),
        );
    }
    against_ripgrep(bench, &text);
    let several = ["needle", "timer", "absent"];
    let automaton = aho_corasick::AhoCorasick::new(several).expect("an automaton");
    bench.against(
        "aho-corasick",
        "count:needle|timer|absent",
        &text,
        |bytes| automaton.find_iter(bytes).count(),
        |fields, _, &want| counts(fields, want),
    );
}

/// Counted by `rg` in one thread, if installed; its start and mapping count, too.
fn against_ripgrep(bench: &Bench, text: &[u8]) {
    let there = std::process::Command::new("rg").arg("--version").output();
    if !bench.measured || there.is_err() {
        println!("bytes/count/ripgrep: skipped");
        return;
    }
    let path = std::env::temp_dir().join(format!("isochrony-bytes-{}.txt", std::process::id()));
    std::fs::write(&path, text).expect("a text");
    for (name, pattern) in [
        ("count:needle", "needle"),
        ("count:station", "station"),
        ("count:the", "the"),
    ] {
        let count = |_: &[u8]| {
            let output = std::process::Command::new("rg")
                .args(["-j1", "--no-config", "-F", "--count-matches", pattern])
                .arg(&path)
                .output()
                .expect("rg");
            let printed = String::from_utf8(output.stdout).expect("a number");
            printed.trim().parse::<usize>().expect("a number")
        };
        bench.against("ripgrep", name, text, count, |fields, _, &want| {
            counts(fields, want)
        });
    }
    std::fs::remove_file(&path).expect("a text to remove");
}

fn outputs(bench: &Bench) {
    let short = samples(bench.length(32 << 20));
    let written = |want: usize| {
        move |fields: &[(&'static str, Value)], written: u64, _: &usize| {
            fields[1].1 == Value::Int(i128::from(written)) && written as usize == want
        }
    };
    let zstd = |bytes: &[u8]| {
        let mut context = zstd_safe::CCtx::create();
        let mut out = Vec::with_capacity(zstd_safe::compress_bound(BUFFER));
        bytes
            .chunks(BUFFER)
            .map(|bytes| context.compress(&mut out, bytes, 3).expect("a frame"))
            .sum::<usize>()
    };
    let frames = short.len().div_ceil(BUFFER);
    let want = zstd(&short) + 4 * frames;
    bench.against("bare", "zstd:3", &short, zstd, written(want));
    let gzip = |bytes: &[u8]| {
        let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
        let mut out = vec![0; compressor.gzip_compress_bound(BUFFER)];
        bytes
            .chunks(BUFFER)
            .map(|bytes| compressor.gzip_compress(bytes, &mut out).expect("a member"))
            .sum::<usize>()
    };
    let want = gzip(&short);
    bench.against("bare", "gzip:6", &short, gzip, written(want));

    let floats = |bytes: &[u8]| {
        let mut out = vec![0f32; BUFFER / 2];
        let mut count = 0;
        for bytes in bytes.chunks(BUFFER) {
            for (sample, out) in bytes.as_chunks::<2>().0.iter().zip(&mut out) {
                *out = f32::from(i16::from_le_bytes(*sample)) * 0.001;
            }
            count += 2 * bytes.len();
            black_box(&out);
        }
        count
    };
    let want = 2 * short.len();
    bench.against(
        "bare",
        "convert,scale=0.001:<i2:<f4",
        &short,
        floats,
        written(want),
    );
    bench.against("bare", "convert:<i2:>i4", &short, floats, written(want));
}
