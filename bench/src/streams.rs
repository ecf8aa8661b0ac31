//! nbuf/min-max-mean, nbuf/sha256 and the grid: streams of bytes through workers, against bare loops and the throughput
//! of memory and disk.
//!
//! The grid is that of the paper's figures 10 to 13: a plain loop for minimum, maximum and mean, by workers, memory,
//! source and order. Its workers share all memory, as in the paper; elsewhere the runtime chooses buffers. There are up
//! to 16 workers on two cores, as the paper's 128 on 8, and an eighth of the paper's data.

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use isochrony_bytes::{Chain, Outcome, Piece};
use isochrony_nbuf::{
    BlockProcessor, BufferOutput, Cause, Framing, Input, NativeProcessors, Options, Order,
    RecordBlock,
};

use crate::measure::{Results, Times, order, ratio, turns};
use crate::supply::Supply;

type Failure = Box<dyn std::error::Error>;

const ORDERS: [(Order, &str); 4] = [
    (Order::None, "none"),
    (Order::Output, "output"),
    (Order::Execution, "execution"),
    (Order::Both, "both"),
];

/// Seconds of the paper's own library, not run here, for 1 GiB in memory on two cores: 1.5 to 2.2 s.
const PAPER_S_PER_GIB: f64 = 1.5;

pub fn write(path: &Path, data: &[u8]) -> Result<(), Failure> {
    let mut file = File::create(path)?;
    file.write_all(data)?;
    Ok(file.sync_all()?)
}

/// Drops a file from the page cache, and keeps room for it while the result lives.
pub fn drop_cached(path: &Path) -> Result<Supply, Failure> {
    let (file, advice) = (File::open(path)?, rustix::fs::Advice::DontNeed);
    rustix::fs::fadvise(&file, 0, None, advice)?;
    Ok(Supply::of(file.metadata()?.len() * 5 / 4))
}

pub fn through(name: &str, order: Order, stride: usize, input: Input<'_>) -> Outcome {
    let native = NativeProcessors::parse(&[name]).expect("there is such a processor");
    let options = Options {
        order,
        framing: Framing::Stride(stride),
        ..Options::default()
    };
    isochrony_nbuf::run(&options, vec![input], &native, vec![], &mut |_| true).expect("no error");
    native.outcomes().pop().expect("a result").1
}

/// The processor over pieces that stay in a cache, without workers or buffers.
fn bare(name: &str, data: &[u8]) -> Outcome {
    let chain = Chain::parse(&[name]).expect("there is such a processor");
    let (mut part, mut state) = (chain.part(), chain.state());
    for (number, bytes) in data.chunks(1 << 20).enumerate() {
        let offset = (number << 20) as u64;
        let piece = Piece { offset, bytes };
        chain.scan(piece, &mut part).expect("no error");
        let _ = chain.join(piece, &mut part, &mut state).expect("no error");
    }
    let outcome = chain.finish(&mut state).expect("no error").pop();
    outcome.expect("a result")
}

/// Throughput of memory.
fn sum(data: &[u8], threads: usize) {
    thread::scope(|scope| {
        for part in data.chunks(data.len().div_ceil(threads).next_multiple_of(64)) {
            scope.spawn(move || {
                let mut sums = [0_u64; 8];
                for line in part.chunks_exact(64) {
                    for (sum, word) in sums.iter_mut().zip(line.chunks_exact(8)) {
                        let word = word.try_into().expect("8 bytes");
                        *sum = sum.wrapping_add(u64::from_le_bytes(word));
                    }
                }
                black_box(sums);
            });
        }
    });
}

/// Throughput of the disk.
fn read_all(path: &Path, len: usize, threads: usize) {
    const PIECE: usize = 1 << 20;
    let file = File::open(path).expect("a file");
    let next = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut buffer = vec![0; PIECE];
                loop {
                    let at = {
                        let mut next = next.lock().expect("nobody panics");
                        *next += PIECE;
                        *next - PIECE
                    };
                    if at >= len {
                        break;
                    }
                    let part = &mut buffer[..PIECE.min(len - at)];
                    file.read_exact_at(part, at as u64).expect("it is as long");
                    black_box(part);
                }
            });
        }
    });
}

fn check(outcome: &Outcome, expected: &Expected) {
    let Outcome::Statistics(found) = outcome else {
        panic!("{outcome:?} are no statistics")
    };
    assert_eq!(found.count, expected.count);
    let extremes = [expected.min, expected.max].map(|x| format!("Int({x})"));
    assert_eq!([&found.min, &found.max].map(|x| format!("{x:?}")), extremes);
    assert!((found.mean - expected.sum as f64 / expected.count as f64).abs() < 1e-9);
}

pub fn in_memory(data: &[u8], rounds: usize, threads: usize, results: &mut Results) {
    let expected = Expected::of(data);
    let [ours, memory] = turns(
        rounds,
        [
            &mut || {
                let found = through("stats:<i2", Order::None, 2, Input::bytes(data));
                check(&found, &expected);
            },
            &mut || sum(data, threads),
        ],
    );
    let bytes = Some(data.len() as u64);
    let met = ratio(&ours, &memory) >= 0.9;
    let name = "nbuf/min-max-mean/memory";
    let other = format!("adding up the words in {threads} threads");
    results.compare(name, &ours, &other, &memory, bytes, Some((">= 0.9", met)));
    let paper = PAPER_S_PER_GIB * data.len() as f64 / f64::from(1 << 30);
    let paper = Times::from(vec![Duration::from_secs_f64(paper); rounds]);
    let met = ratio(&ours, &paper) >= 20.0;
    let other = "the paper's library, 1.5 s for 1 GiB when it was measured (not in this run)";
    results.compare(name, &ours, other, &paper, bytes, Some((">= 20", met)));
}

pub fn from_disk(
    path: &Path,
    data: &[u8],
    rounds: usize,
    threads: usize,
    results: &mut Results,
) -> Result<(), Failure> {
    let (expected, hashed) = (Expected::of(data), bare("sha256", data));
    let mut spent: [Vec<Duration>; 4] = Default::default();
    for round in 0..=rounds {
        for which in order(4, round) {
            let _supply = drop_cached(path)?;
            let begun = Instant::now();
            match which {
                0 => check(
                    &through("stats:<i2", Order::None, 2, Input::open(path)?),
                    &expected,
                ),
                1 => assert_eq!(
                    through("sha256", Order::Both, 1024, Input::open(path)?),
                    hashed
                ),
                2 => read_all(path, data.len(), threads),
                _ => drop(black_box(bare("sha256", data))),
            }
            if round > 0 {
                spent[which].push(begun.elapsed());
            }
        }
    }
    let slower = spent[2]
        .iter()
        .zip(&spent[3])
        .map(|(disk, hash)| *disk.max(hash));
    let slower = Times::from(slower.collect::<Vec<_>>());
    let [stats, sha, disk, _] = spent.map(Times::from);
    let bytes = Some(data.len() as u64);
    let met = ratio(&stats, &disk) >= 0.9;
    let name = "nbuf/min-max-mean/cold file";
    let other = format!("reading it in {threads} threads");
    results.compare(name, &stats, &other, &disk, bytes, Some((">= 0.9", met)));
    let met = ratio(&sha, &slower) >= 0.95;
    let other = "the slower of reading it and the hash alone";
    let name = "nbuf/sha256/cold file";
    results.compare(name, &sha, other, &slower, bytes, Some((">= 0.95", met)));
    Ok(())
}

/// Minimum, maximum and sum of 16-bit samples, in the paper's plain loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    min: i16,
    max: i16,
    sum: i64,
    count: u64,
}

impl Expected {
    const NOTHING: Self = Self {
        min: i16::MAX,
        max: i16::MIN,
        sum: 0,
        count: 0,
    };

    pub fn of(bytes: &[u8]) -> Self {
        let mut found = Self::NOTHING;
        for two in bytes.chunks_exact(2) {
            let sample = black_box(i16::from_le_bytes([two[0], two[1]]));
            found.min = found.min.min(sample);
            found.max = found.max.max(sample);
            found.sum += i64::from(sample);
            found.count += 1;
        }
        found
    }

    fn with(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            sum: self.sum + other.sum,
            count: self.count + other.count,
        }
    }
}

struct Plain(Mutex<Expected>);

impl BlockProcessor for Plain {
    type Scratch = Expected;

    fn new_scratch(&self) -> Expected {
        Expected::NOTHING
    }

    fn execute(
        &self,
        own: &mut Expected,
        block: &RecordBlock<'_>,
        _: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        *own = Expected::of(block.bytes);
        Ok(())
    }

    fn lanes(&self) -> usize {
        1
    }

    fn join(
        &self,
        _: usize,
        own: &mut Expected,
        _: &RecordBlock<'_>,
        _: &mut BufferOutput<'_>,
    ) -> Result<(), Cause> {
        let mut all = self.0.lock().expect("nobody panics");
        *all = all.with(*own);
        Ok(())
    }

    fn needs_staging(&self) -> bool {
        false
    }
}

/// For all rounds of the grid; a round begins only if it is likely to end by then.
const GRID: Duration = Duration::from_secs(240);
const WORKERS: [usize; 6] = [1, 2, 4, 8, 16, 32];

pub fn grid(path: &Path, data: &[u8], rounds: usize, results: &mut Results) -> Result<(), Failure> {
    let file = path.with_extension("part");
    write(&file, data)?;
    let expected = Expected::of(data);
    // Fewer than a few pages per worker are of no use.
    let memories = (0..=10).map(|power| data.len() >> (10 - power));
    let memories: Vec<usize> = memories.filter(|memory| *memory >= 1 << 17).collect();
    let mut rows = Vec::new();
    for source in ["memory", "file"] {
        for memory in &memories {
            rows.extend(ORDERS.map(|order| (source, *memory, order)));
        }
    }
    let mut spent: Vec<[Vec<Duration>; WORKERS.len()]> = vec![Default::default(); rows.len()];
    let begun = Instant::now();
    for round in 1..=rounds {
        for ((source, memory, (order, _)), spent) in rows.iter().zip(&mut spent) {
            for (workers, spent) in WORKERS.into_iter().zip(spent) {
                let (input, _supply) = if *source == "memory" {
                    (Input::bytes(data), None)
                } else {
                    let supply = drop_cached(&file)?;
                    (Input::open(&file)?, Some(supply))
                };
                let options = Options {
                    order: *order,
                    workers: Some(workers),
                    memory: *memory,
                    buffer: Some((memory / workers / 2).max(2) & !1),
                    framing: Framing::Stride(2),
                    ..Options::default()
                };
                let plain = Plain(Mutex::new(Expected::NOTHING));
                let begun = Instant::now();
                isochrony_nbuf::run(&options, vec![input], &plain, vec![], &mut |_| true)?;
                spent.push(begun.elapsed());
                assert_eq!(*plain.0.lock().expect("nobody panics"), expected);
            }
        }
        let each = begun.elapsed() / round as u32;
        if begun.elapsed() + each > GRID {
            break;
        }
    }
    for ((source, memory, (_, order)), spent) in rows.into_iter().zip(spent) {
        let seconds = spent.map(|times| Times::from(times).seconds());
        results.grid(source, memory, order, data.len(), &WORKERS, &seconds);
    }
    Ok(())
}
