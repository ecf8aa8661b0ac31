//! Recordings in any order with any clock faults: readers can open whatever the writer accepts.

use std::path::Path;

use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Signal, Store, VerifyOptions, verify};
use isochrony_time::{Fixed, Rate, Stamp};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

const T0: i64 = 1_330_837_567 * 1_000_000_000;
const TIMES: i64 = 400;

#[derive(Debug, Clone)]
struct Recording {
    samples: i64,
    civil: i64,
    resolution: i64,
    leap: bool,
}

impl Recording {
    fn stamp(&self) -> Stamp {
        let (civil, resolution) = (
            Fixed::from_int(self.civil),
            Fixed::from_int(self.resolution),
        );
        Stamp {
            leap: self.leap,
            ..Stamp::new(civil, resolution)
        }
    }
}

#[derive(Debug, Clone)]
enum Fault {
    /// The clock steps by hundredths of a period.
    Step(i64),
    /// Only this stamp, in hundredths of a period.
    Wrong(i64),
    Lost(usize),
    Repeated,
    LeapSecond,
    /// Exchanged with another.
    Exchanged(usize),
    /// So many, with this seed.
    Shuffled(usize, u64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum StoreMethod {
    /// Each with the stamp of the next, as importers do.
    Knowing,
    /// Each by itself, as live feeds do.
    Alone,
}

#[derive(Debug, Clone)]
struct History {
    rate: Rate,
    /// Longer gaps take one chunk of indices; in recordings.
    max_gap: i64,
    recordings: Vec<Recording>,
    way: StoreMethod,
    /// Stamps earlier than the latest are backfilled.
    backfills: bool,
    reopened: usize,
}

fn rates() -> impl Strategy<Value = Rate> {
    const RATES: [&str; 7] = ["0.5", "1", "20", "100", "31.25", "1000", "20000"];
    prop::sample::select(&RATES[..]).prop_map(|rate| rate.parse().unwrap())
}

fn fault() -> impl Strategy<Value = Fault> {
    let far = prop::sample::select(&[2i64, 30, 60, 160, 500, 3000, 60_000, 2_000_000][..]);
    let off = (far, prop::bool::ANY).prop_map(|(off, back)| if back { -off } else { off });
    prop_oneof![
        3 => off.clone().prop_map(Fault::Step),
        2 => off.prop_map(Fault::Wrong),
        2 => (1usize..6).prop_map(Fault::Lost),
        1 => Just(Fault::Repeated),
        1 => Just(Fault::LeapSecond),
        4 => (0usize..200).prop_map(Fault::Exchanged),
        1 => (2usize..200, any::<u64>()).prop_map(|(count, seed)| Fault::Shuffled(count, seed)),
    ]
}

/// Hundredths of a period: none, small, or rarely large.
fn jitter() -> impl Strategy<Value = i64> {
    prop_oneof![
        12 => Just(0),
        2 => -3i64..4,
        1 => -300i64..301,
    ]
}

fn history() -> impl Strategy<Value = History> {
    let shape = (
        rates(),
        prop::sample::select(&[1i64, 1000, 1_000_000, 1_000_000_000][..]),
        prop::sample::select(&[3i64, 40, 600][..]),
        prop::sample::select(&[5i64, 1_000_000][..]),
        prop::sample::select(&[0i64, 0, 1][..]),
    );
    let blocks = prop::collection::vec((0i64..40, jitter()), 10..130);
    let faults = prop::collection::vec((0usize..200, fault()), 0..40);
    let ways = (
        prop::sample::select(&[StoreMethod::Knowing, StoreMethod::Alone][..]),
        prop::bool::ANY,
        prop::sample::select(&[7usize, 40, 1000][..]),
    );
    (shape, blocks, faults, ways).prop_map(|(shape, blocks, faults, ways)| {
        let (rate, resolution, least, max_gap, jitters) = shape;
        let period = 1e9 / rate.to_f64();
        let mut index = 0;
        let mut recordings = Vec::new();
        for (more, jitter) in blocks {
            let samples = least + more;
            let off = (jitters * jitter) as f64 / 100.0;
            recordings.push(Recording {
                samples,
                civil: T0 + ((index as f64 + off) * period) as i64,
                resolution,
                leap: false,
            });
            index += samples;
        }
        for (at, fault) in faults {
            let at = at % recordings.len();
            happen(&mut recordings, at, &fault, period);
        }
        for recording in &mut recordings {
            recording.civil -= recording.civil.rem_euclid(resolution);
        }
        History {
            rate,
            max_gap,
            recordings,
            way: ways.0,
            backfills: ways.1,
            reopened: ways.2,
        }
    })
}

fn happen(recordings: &mut Vec<Recording>, at: usize, fault: &Fault, period: f64) {
    let hundredths = |count: i64| (count as f64 / 100.0 * period) as i64;
    let count = recordings.len();
    match *fault {
        Fault::Step(by) => {
            for recording in &mut recordings[at..] {
                recording.civil += hundredths(by);
            }
        }
        Fault::Wrong(by) => recordings[at].civil += hundredths(by),
        Fault::Lost(lost) => drop(recordings.drain(at..(at + lost).min(count - 1).max(at))),
        Fault::Repeated => recordings.insert(at, recordings[at].clone()),
        Fault::LeapSecond => recordings[at].leap = true,
        Fault::Exchanged(other) => recordings.swap(at, other % count),
        Fault::Shuffled(few, mut seed) => {
            let end = (at + few).min(count);
            for last in (at + 1..end).rev() {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let span = (last - at + 1) as u64;
                recordings.swap(last, at + ((seed >> 33) % span) as usize);
            }
        }
    }
}

fn stored(root: &Path, history: &History) -> Signal {
    let mut store = Store::open(root, Mode::Create).unwrap();
    let mut options = CreateOptions::new(DType::I16, history.rate);
    let blocks = history.max_gap.saturating_mul(600);
    options.max_gap_ns = history
        .rate
        .duration_ns(blocks)
        .unwrap()
        .floor_i64()
        .unwrap();
    store.create("x", &options).unwrap();
    let mut latest = None;
    for (count, recording) in history.recordings.iter().enumerate() {
        if count % history.reopened == history.reopened - 1 {
            store.commit(false).unwrap();
            store.close().unwrap();
            store = Store::open(root, Mode::ReadWrite).unwrap();
        }
        let writer = store.writer("x").unwrap();
        let samples: Vec<i16> = (0..recording.samples)
            .map(|k| (k + count as i64) as i16)
            .collect();
        let bytes: Vec<u8> = samples
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect();
        let stamp = recording.stamp();
        let next = history.recordings.get(count + 1).map(Recording::stamp);
        let next = next.filter(|_| history.way == StoreMethod::Knowing);
        if history.backfills && latest.is_some_and(|latest| stamp.civil < latest) {
            writer.backfill(&bytes, &stamp).unwrap();
        } else {
            writer
                .append_bytes_at(&bytes, &stamp, next.as_ref())
                .unwrap();
        }
        latest = latest.max(Some(stamp.civil));
    }
    store.commit(true).unwrap();
    store.writer("x").unwrap().signal().unwrap()
}

fn look_for_faults(history: &History) -> Result<(), String> {
    let memory = Path::new("/dev/shm");
    let folder = tempfile::tempdir_in(memory)
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let root = folder.path().join("a.iso");
    let own = stored(&root, history);
    let reader = Store::open(&root, Mode::Read).map_err(|error| error.to_string())?;
    let signal = reader.signal("x").map_err(|error| error.to_string())?;
    let every = (own.end_index() / TIMES).max(1) as usize;
    for index in (0..own.end_index()).step_by(every) {
        let (expected, got) = (own.time_of(index).unwrap(), signal.time_of(index).unwrap());
        if expected.value != got.value {
            return Err(format!("other times at {index}: {expected:?}, {got:?}"));
        }
    }
    reader.close().unwrap();
    drop((own, signal));
    let deep = VerifyOptions {
        signals: None,
        deep: true,
    };
    let findings = verify(&root, &deep).unwrap().findings;
    match findings.first() {
        Some(finding) => Err(format!("verify: {finding:?}")),
        None => Ok(()),
    }
}

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(200)
}

#[test]
fn stores_of_any_order_of_recordings_open_and_verify() {
    let mut runner = TestRunner::new(ProptestConfig {
        cases: cases(),
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let outcome = runner.run(&history(), |history| {
        look_for_faults(&history).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
