//! `import/raw/<file size>/{copy,import}`: imports raw files with checksums and views, compared with copying them.
//!
//! The copy uses one buffer and syncs each file. Both have a warm page cache and run alternately; results are checked.
//! `ISOCHRONY_BENCH_MB` (default 512) and `ISOCHRONY_BENCH_ROUNDS` (default 5) set the size. As a test it asserts no
//! speed.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use isochrony_ingest::{RawOptions, import_raw};
use isochrony_store::{Mode, Store};

/// Bytes of a file: 30 s at 2 kHz, where a copy waits for every file; and 4000 s, where only bytes count.
const FILES: [usize; 2] = [120_000, 16_000_000];
/// Bytes of a second.
const SECOND: usize = 4000;
const GOAL: f64 = 0.8;

fn main() {
    let test = !std::env::args().any(|argument| argument == "--bench");
    let number = |name: &str, default: usize| {
        let set = std::env::var(name).ok().and_then(|text| text.parse().ok());
        if test {
            default.min(8)
        } else {
            set.unwrap_or(default)
        }
    };
    let bytes = number("ISOCHRONY_BENCH_MB", 512) << 20;
    let rounds = if test {
        1
    } else {
        number("ISOCHRONY_BENCH_ROUNDS", 5)
    };
    for file_bytes in FILES {
        let median = variant(file_bytes, bytes, rounds);
        assert!(
            test || median >= GOAL,
            "importing is slower than {GOAL} of copying"
        );
    }
}

/// Median ratio of copying to importing time.
fn variant(file_bytes: usize, bytes: usize, rounds: usize) -> f64 {
    let folder =
        std::env::var_os("ISOCHRONY_BENCH_DIR").map_or_else(std::env::temp_dir, Into::into);
    let folder = tempfile::tempdir_in(folder).expect("a folder to work in");
    let source = folder.path().join("src/stn_10/2010/060/pressure");
    fs::create_dir_all(&source).expect("folders for the recordings");
    let files = bytes.div_ceil(file_bytes);
    let mut state = 1_u32;
    let mut content = vec![0; file_bytes];
    for number in 0..files {
        for (place, sample) in content.chunks_exact_mut(2).enumerate() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let wave = (place % 4000) as i16 - 2000;
            sample.copy_from_slice(&(wave + (state >> 28) as i16).to_le_bytes());
        }
        let epoch = 1_267_401_600 + file_bytes / SECOND * number;
        fs::write(source.join(format!("stn_10_{epoch}.raw")), &content).expect("a recording");
    }
    let source = folder.path().join("src");
    let (mut copies, mut imports) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let to = folder.path().join(format!("copy{round}"));
        copies.push(timed(|| copy(&source, &to)));
        fs::remove_dir_all(&to).expect("the copy to go");
        let to = folder.path().join(format!("{round}.iso"));
        imports.push(timed(|| import(&source, &to, files * file_bytes / 2)));
        fs::remove_dir_all(&to).expect("the store to go");
    }
    let total = (files * file_bytes) as f64;
    let ratios: Vec<f64> = copies
        .iter()
        .zip(&imports)
        .map(|(copy, import)| copy.as_secs_f64() / import.as_secs_f64())
        .collect();
    for (name, times) in [("copy", &copies), ("import", &imports)] {
        let rates = times
            .iter()
            .map(|time| total / time.as_secs_f64() / 1e9)
            .collect();
        let (least, median, most) = spread(rates);
        println!(
            "import/raw/{} kB/{name}: {median:.2} GB/s ({least:.2} to {most:.2})",
            file_bytes / 1000
        );
    }
    let (least, median, most) = spread(ratios);
    println!(
        "import/raw/{} kB/ratio: {median:.2} ({least:.2} to {most:.2}), goal {GOAL}",
        file_bytes / 1000
    );
    median
}

fn timed(body: impl FnOnce()) -> Duration {
    let began = Instant::now();
    body();
    began.elapsed()
}

fn spread(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (
        values[0],
        values[values.len() / 2],
        values[values.len() - 1],
    )
}

fn copy(from: &Path, to: &Path) {
    let mut buffer = vec![0; 1 << 20];
    let mut folders = vec![(from.to_path_buf(), to.to_path_buf())];
    let mut written = Vec::new();
    while let Some((from, to)) = folders.pop() {
        fs::create_dir_all(&to).expect("a folder");
        for entry in fs::read_dir(&from).expect("a listing") {
            let entry = entry.expect("an entry");
            let target = to.join(entry.file_name());
            if entry.file_type().expect("a type").is_dir() {
                folders.push((entry.path(), target));
                continue;
            }
            let mut input = File::open(entry.path()).expect("a file to read");
            let mut output = File::create(&target).expect("a file to write");
            loop {
                match input.read(&mut buffer).expect("bytes") {
                    0 => break,
                    count => output.write_all(&buffer[..count]).expect("room"),
                }
            }
            written.push(target);
        }
    }
    for path in written {
        File::open(path)
            .and_then(|file| file.sync_all())
            .expect("a sync");
    }
}

fn import(from: &Path, to: &Path, samples: usize) {
    let store = Store::open(to, Mode::Create).expect("a store");
    let options = RawOptions::preset("censam").expect("the preset");
    let summary = import_raw(&store, from, &options, None).expect("an import");
    store.close().expect("the store to close");
    assert!(summary.is_clean(), "{:?}", summary.problems);
    assert_eq!(summary.signals[0].samples as usize, samples);
    assert_eq!((summary.signals[0].gaps, summary.signals[0].runs), (0, 1));
}
