//! A reader in another process follows a growing signal and never sees a torn sample, gap table or length.
//!
//! Every commit keeps invariants of both signals: the sample at index `i` is a function of `i`, gaps are at fixed
//! places, both have the same length, and an event records it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use isochrony_segment::DType;
use isochrony_store::StoreError;
use isochrony_store::engine::{Engine, OpenMode, Reader};
use isochrony_store::media::{Access, disk};
use isochrony_store::meta::{ClockSettings, SignalMeta};
use isochrony_store::op::{EventRow, Op, SignalId};
use isochrony_time::Rate;

const NAME: &str = "crash_reader::a_live_reader_sees_whole_commits_only";
const ROLE: &str = "ISOCHRONY_LIVE_READER";
const CHUNK: i64 = 1024;
const SHARD: i64 = 8 * CHUNK;
/// Every range of so many samples ends with a gap of a tenth of it.
const PERIOD: i64 = 5000;

fn sample(index: i64) -> i32 {
    (index.wrapping_mul(2_654_435_761) >> 7) as i32
}

fn meta() -> SignalMeta {
    SignalMeta {
        format: DType::I32.into(),
        rate: Rate::from_hz(1000).unwrap(),
        unit: String::new(),
        calibration: None,
        chunk_samples: CHUNK as u64,
        shard_chunks: 8,
        codec: String::new(),
        clock: ClockSettings {
            alpha: 0.1,
            gap_slip_ns: None,
            max_gap_ns: 1,
            initial_rate: None,
        },
        attributes: "{}".into(),
    }
}

fn extend(engine: &Engine, id: SignalId, start: i64, end: i64) {
    let mut at = start;
    while at < end {
        let period = at - at % PERIOD;
        let gap_from = period + PERIOD * 9 / 10;
        let in_gap = at >= gap_from;
        let stop = end.min(if in_gap { period + PERIOD } else { gap_from });
        if in_gap {
            engine
                .queue(Op::Gap {
                    id,
                    start: at,
                    end: stop,
                })
                .unwrap();
        } else {
            let bytes: Vec<u8> = (at..stop).flat_map(|i| sample(i).to_le_bytes()).collect();
            engine.write_samples(id, at, &bytes).unwrap();
            engine
                .queue(Op::Valid {
                    id,
                    start: at,
                    end: stop,
                })
                .unwrap();
        }
        at = stop;
    }
    engine.queue(Op::End { id, end }).unwrap();
    let event = EventRow {
        id: 1,
        start: end,
        end,
        kind: "length".into(),
        fields: "{}".into(),
    };
    engine.queue(Op::Event { id, event }).unwrap();
}

/// Replaces it by a copy of itself, as in-place writes do.
fn replace(engine: &Engine, id: SignalId, shard: u64) {
    let media = disk();
    let old = engine.data_shard_path(id, shard).unwrap();
    let Some(bytes) = media.read(&old, u64::MAX).unwrap() else {
        return;
    };
    let (tmp, path) = engine.new_tmp();
    let file = media.open(&path, Access::CreateNew).unwrap();
    file.write_at(0, &bytes).unwrap();
    engine.queue(Op::ReplaceShard { id, shard, tmp }).unwrap();
}

#[derive(Debug, Default)]
struct ReaderCounts {
    lengths: usize,
    compared: usize,
    replaced: usize,
}

fn follow(root: &Path) -> ReaderCounts {
    let reader = Reader::open(root).unwrap();
    let ids = [SignalId(1), SignalId(2)];
    let (mut seen, mut last) = (ReaderCounts::default(), -1);
    let began = Instant::now();
    while !root.join("end").exists() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the writer never ended"
        );
        reader.refresh().unwrap();
        let sequence = reader.sequence();
        let states = ids.map(|id| reader.state(id).unwrap());
        if reader.sequence() != sequence {
            // Loading a signal may have refreshed the store.
            continue;
        }
        let end = states[0].end;
        let other = states[1].end;
        assert_eq!(other, end, "the second length at commit {sequence}");
        assert!(end >= last, "the signal shrank from {last} to {end}");
        seen.lengths += usize::from(end > last);
        last = end;
        for (id, state) in ids.into_iter().zip(&states) {
            if end > 0 {
                let event = state
                    .events
                    .iter()
                    .next()
                    .expect("an event tells the length");
                assert_eq!(event.start, end, "at commit {sequence}");
            }
            for from in [
                (end - 2 * SHARD).max(0),
                (sequence as i64 * 7919) % end.max(1),
            ] {
                match check(&reader, id, state, from, (from + 2 * SHARD).min(end)) {
                    true => seen.compared += 1,
                    false => seen.replaced += 1,
                }
            }
        }
    }
    seen
}

/// Whether no samples were replaced since the state.
fn check(
    reader: &Reader,
    id: SignalId,
    state: &isochrony_store::state::SignalState,
    from: i64,
    to: i64,
) -> bool {
    let mut at = from;
    while at < to {
        let period = at - at % PERIOD;
        let gap_from = period + PERIOD * 9 / 10;
        let in_gap = at >= gap_from;
        let stop = to.min(if in_gap { period + PERIOD } else { gap_from });
        let missing = state.gaps.missing_within(at..stop);
        assert_eq!(
            missing,
            if in_gap { stop - at } else { 0 },
            "gaps in {at}..{stop}"
        );
        if in_gap {
            at = stop;
            continue;
        }
        let stop = stop.min((at / SHARD + 1) * SHARD);
        let buffer = match reader.read(id, at, (stop - at) as usize) {
            Ok(buffer) => buffer,
            // The writer replaced the shard: compare the next state.
            Err(StoreError::SamplesReplaced { .. }) => return false,
            Err(error) => panic!("{at}..{stop}: {error}"),
        };
        for (index, bytes) in (at..stop).zip(buffer.bytes().chunks_exact(4)) {
            let value = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            assert_eq!(value, sample(index), "sample {index} of {to}");
        }
        at = stop;
    }
    true
}

#[test]
fn a_live_reader_sees_whole_commits_only() {
    if let Ok(root) = std::env::var(ROLE) {
        let seen = follow(Path::new(&root));
        println!(
            "saw {} lengths {} compared {} replaced",
            seen.lengths, seen.compared, seen.replaced
        );
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("live.iso");
    let engine = Engine::open(&root, OpenMode::CreateNew).unwrap();
    let ids = ["one", "two"].map(|name| {
        let id = engine.new_id();
        let (name, meta) = (name.to_owned(), Box::new(meta()));
        engine.queue(Op::Create { id, name, meta }).unwrap();
        id
    });
    engine.commit(true).unwrap();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME, "--nocapture"])
                .env(ROLE, &root)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let began = Instant::now();
    let (mut end, mut round) = (0, 0u64);
    while began.elapsed() < Duration::from_secs(3) {
        round += 1;
        let grow = if round % 7 == 0 {
            20_000
        } else {
            1 + (round * 37 % 900) as i64
        };
        for id in ids {
            extend(&engine, id, end, end + grow);
        }
        end += grow;
        if round % 11 == 0 {
            replace(&engine, ids[(round % 2) as usize], (end / SHARD) as u64);
        }
        engine.commit(round % 3 == 0).unwrap();
        if round % 50 == 0 {
            engine.checkpoint().unwrap();
        }
    }
    std::fs::write(root.join("end"), "").unwrap();
    for reader in readers {
        let output = reader.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}{error}");
        let numbers = said.lines().find_map(|line| {
            let words = line.strip_prefix("saw ")?.split(' ');
            Some(words.filter_map(|word| word.parse().ok()).collect())
        });
        let numbers: Vec<usize> = numbers.expect("the reader says what it saw");
        let [seen, compared, replaced] = numbers[..] else {
            panic!("{said}")
        };
        println!(
            "{round} commits, a reader saw {seen} lengths, {compared} ranges, {replaced} replaced"
        );
        assert!(seen > 10, "the reader saw only {seen} of {round} commits");
        // One commit in eleven replaces a shard.
        assert!(compared > 2 * replaced, "{said}");
    }
}
