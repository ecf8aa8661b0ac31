//! Blocks given together are stored as if given one by one.

use isochrony_ingest::{Block, IngestError, Session, SessionOptions, Spec, StampedBlocks, Summary};
use isochrony_segment::DType;
use isochrony_store::{Mode, Store};
use isochrony_time::{Fixed, Rate, Stamp};
use proptest::prelude::*;

const START: i64 = 1_267_401_600_000_000_000;
const SIGNALS: [&str; 2] = ["x", "y"];

/// Event before a recording.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    /// The stamp is off by this many ns.
    Jitter(i64),
    /// Time passes or steps back.
    Step(i64),
    Wrong(i64),
    Again,
    Earlier,
    /// It lies so many ns before the end of a recording that continues.
    Beside(i64),
    Leap,
}

#[derive(Debug, Clone, Copy)]
struct Recording {
    signal: usize,
    first: i32,
    samples: i64,
    stamp: Stamp,
    file: usize,
}

fn disturbance() -> impl Strategy<Value = Disturbance> {
    prop_oneof![
        60 => (-400i64..400).prop_map(|us| Disturbance::Jitter(us * 1000)),
        2 => (1i64..5000).prop_map(|ms| Disturbance::Step(ms * 1_000_000)),
        1 => (-5000i64..0).prop_map(|ms| Disturbance::Step(ms * 1_000_000)),
        1 => Just(Disturbance::Step(90 * 86_400_000_000_000)),
        2 => (-3000i64..3000).prop_map(|ms| Disturbance::Wrong(ms * 1_000_000)),
        // Whole samples, which fine stamps resolve.
        2 => (-3i64..=3).prop_map(|samples| Disturbance::Wrong(samples * 10_000_000)),
        2 => (-3i64..=3).prop_map(|samples| Disturbance::Step(samples * 10_000_000)),
        3 => (1i64..4000).prop_map(|ms| Disturbance::Beside(ms * 1_000_000)),
        1 => Just(Disturbance::Again),
        1 => Just(Disturbance::Earlier),
        1 => Just(Disturbance::Leap),
    ]
}

fn recordings(
    disturbances: &[(Disturbance, i64)],
    resolution: i64,
    jitters: bool,
    file: usize,
) -> Vec<Recording> {
    let (mut time, mut first) = (START, 0);
    let mut all: Vec<Recording> = Vec::new();
    for (number, &(disturbance, samples)) in disturbances.iter().enumerate() {
        let (mut off, mut leap) = (0, false);
        match disturbance {
            Disturbance::Jitter(ns) if jitters => off = ns,
            Disturbance::Jitter(_) => {}
            Disturbance::Step(ns) => time += ns,
            Disturbance::Wrong(ns) => off = ns,
            Disturbance::Beside(ns) => off = -ns,
            Disturbance::Leap => {
                time -= 1_000_000_000;
                leap = true;
            }
            Disturbance::Again | Disturbance::Earlier => {
                let back = if matches!(disturbance, Disturbance::Again) {
                    1
                } else {
                    30
                };
                if let Some(earlier) = all.len().checked_sub(back) {
                    all.push(all[earlier]);
                }
                continue;
            }
        }
        let stamp = Stamp::new(
            Fixed::from_int((time + off).div_euclid(resolution) * resolution),
            Fixed::from_int(resolution),
        );
        all.push(Recording {
            signal: usize::from(number % 97 > 80),
            first,
            samples,
            stamp: Stamp { leap, ..stamp },
            file: number / file,
        });
        if !matches!(disturbance, Disturbance::Beside(_)) {
            time += samples * 10_000_000;
        }
        first += samples as i32;
    }
    all
}

fn bytes(recordings: &[Recording]) -> Vec<u8> {
    let samples = recordings
        .iter()
        .flat_map(|it| it.first..it.first + it.samples as i32);
    samples.flat_map(i32::to_ne_bytes).collect()
}

/// Blocks of a file and signal are given in groups of at most `most`.
fn import(store: &Store, all: &[Recording], options: &SessionOptions, most: usize) -> Summary {
    let spec = Spec::new(DType::I32, Rate::from_hz(100).unwrap());
    let mut session = Session::new(store, options.clone()).unwrap();
    for file in all.chunk_by(|a, b| a.file == b.file) {
        let source = format!("/data/{}", file[0].file);
        if session.known(&source, 5, Some(file.len() as i64)).unwrap() {
            continue;
        }
        for group in file
            .chunk_by(|a, b| a.signal == b.signal)
            .flat_map(|same| same.chunks(most))
        {
            let signal = SIGNALS[group[0].signal];
            let samples = bytes(group);
            if let [one] = group {
                let block = Block {
                    signal,
                    spec: &spec,
                    bytes: &samples,
                    stamp: Some(one.stamp),
                    source: &source,
                };
                session.block(&block).unwrap();
                continue;
            }
            let recordings: Vec<_> = group.iter().map(|it| (it.samples, it.stamp)).collect();
            let blocks = StampedBlocks {
                signal,
                spec: &spec,
                bytes: &samples,
                recordings: &recordings,
                source: &source,
            };
            session.blocks(&blocks).unwrap();
        }
        session.done(&source, 5, Some(file.len() as i64)).unwrap();
    }
    session.finish().unwrap()
}

fn stored(store: &Store, summary: &Summary) -> Vec<String> {
    let mut out = vec![format!(
        "{:?} {} {} {:?}",
        summary.problems.list, summary.bytes, summary.duplicates, summary.signals
    )];
    for name in store.names().unwrap() {
        let signal = store.signal(&name).unwrap();
        let state = signal.state();
        let points: Vec<_> = state.points.iter().collect();
        let runs: Vec<_> = state.runs.iter().collect();
        let fit: Vec<_> = state.fit.iter().collect();
        let events: Vec<_> = state.events.iter().collect();
        out.push(format!(
            "{name} {points:?} {runs:?} {fit:?} {events:?} {:?}",
            signal.gaps()
        ));
        for segment in signal.select(0..signal.end_index()).unwrap().segments() {
            out.push(format!("{:?}", segment.unwrap().to_vec::<i32>()));
        }
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_grouping_equals_one_by_one(
        disturbances in prop::collection::vec((disturbance(), 1i64..40), 1..160),
        most in 2usize..60,
        file in 10usize..200,
        resolution in prop::sample::select(vec![1000, 100_000, 1_000_000]),
        jitters in any::<bool>(),
        gap_slip_ns in prop::option::of(0i64..20_000_000),
        value_jump in prop::option::weighted(0.1, 0.5f64..3.0),
        grows in prop::bool::weighted(0.3),
    ) {
        let all = recordings(&disturbances, resolution, jitters, file);
        // Repeated with a longer last file.
        let grown = disturbances.len() * 2 / 3;
        let begun = &all[..grown.min(all.len())];
        let options = SessionOptions { gap_slip_ns, value_jump, ..SessionOptions::default() };
        let folder = tempfile::tempdir().unwrap();
        let outcomes = [1, most].map(|most| {
            let store = Store::open(folder.path().join(most.to_string()), Mode::Append).unwrap();
            let mut told = Vec::new();
            if grows {
                told = stored(&store, &import(&store, begun, &options, most));
            }
            let second = import(&store, &all, &options, most);
            told.extend(stored(&store, &second));
            told
        });
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }
}

#[test]
fn rejects_blocks_that_are_not_as_long_as_stated() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Append).unwrap();
    let mut session = Session::new(&store, SessionOptions::default()).unwrap();
    let spec = Spec::new(DType::I32, Rate::from_hz(100).unwrap());
    let stamp = Stamp::new(Fixed::from_int(START), Fixed::from_int(1000));
    for counts in [vec![3], vec![5], vec![4, 0], vec![5, -1], vec![i64::MAX, 4]] {
        let recordings: Vec<_> = counts.iter().map(|count| (*count, stamp)).collect();
        let blocks = StampedBlocks {
            signal: "x",
            spec: &spec,
            bytes: &[0; 16],
            recordings: &recordings,
            source: "/data/a",
        };
        let error = session.blocks(&blocks).unwrap_err();
        assert!(matches!(error, IngestError::BlockSizes { .. }), "{error}");
    }
    assert!(session.finish().unwrap().signals.is_empty());
}
