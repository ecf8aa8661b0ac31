//! A signal written in one session equals one with reopenings.

use isochrony_segment::DType;
use isochrony_store::state::Table;
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::{Fixed, Rate, Stamp};
use proptest::prelude::*;

const SECOND: i64 = 1_000_000_000;
const T0: i64 = 1_267_401_600 * SECOND;

#[derive(Debug, Clone)]
struct Block {
    samples: i64,
    /// Jump of the clock before this block, ns.
    jump: i64,
    /// Error of the stamp, ns.
    jitter: i64,
    stamped: bool,
    gap: i64,
    late: bool,
    reopen: bool,
}

fn block() -> impl Strategy<Value = Block> {
    let jump = prop_oneof![
        6 => Just(0i64),
        2 => 1i64..40 * SECOND,
        1 => -20 * SECOND..0,
        1 => Just(40 * 86_400 * SECOND),
    ];
    let odds = (
        prop::bool::weighted(0.85),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.25),
    );
    (
        200i64..900,
        jump,
        -40_000i64..40_000,
        prop_oneof![9 => Just(0i64), 1 => 1i64..500],
        odds,
    )
        .prop_map(
            |(samples, jump, jitter, gap, (stamped, late, reopen))| Block {
                samples,
                jump,
                jitter,
                stamped,
                gap,
                late,
                reopen,
            },
        )
}

struct Outcome {
    end: i64,
    tables: Vec<Table>,
    samples: Vec<i16>,
}

fn write(blocks: &[Block], ppm: f64, resolution: i64, start: bool, reopens: bool) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.iso");
    let mut store = Store::open(&path, Mode::Create).unwrap();
    let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    options.start = start.then(|| Fixed::from_int(T0));
    store.create("x", &options).unwrap();
    store.commit(false).unwrap();
    let period = SECOND as f64 / 100.0 * (1.0 + ppm / 1e6);
    let (mut time, mut value) = (T0, 0i16);
    for block in blocks {
        let samples: Vec<i16> = (0..block.samples)
            .map(|_| {
                value = value.wrapping_add(1);
                value
            })
            .collect();
        let writer = store.writer("x").unwrap();
        if block.gap > 0 {
            writer.append_gap(block.gap).unwrap();
            time += (block.gap as f64 * period) as i64;
        }
        if block.stamped {
            time += block.jump;
        }
        let told = (time + block.jitter).div_euclid(resolution) * resolution;
        let stamp = |ns: i64| Stamp::new(Fixed::from_int(ns), Fixed::from_int(resolution));
        if block.late {
            let bytes: Vec<u8> = samples.iter().flat_map(|x| x.to_ne_bytes()).collect();
            writer.backfill(&bytes, &stamp(told - 15 * SECOND)).unwrap();
            continue;
        }
        if block.stamped {
            writer.append_at(&samples, &stamp(told)).unwrap();
        } else {
            writer.append(&samples).unwrap();
        }
        time += (block.samples as f64 * period) as i64;
        if block.reopen && reopens {
            store.commit(false).unwrap();
            store.close().unwrap();
            store = Store::open(&path, Mode::ReadWrite).unwrap();
        }
    }
    store.commit(true).unwrap();
    let signal = store.signal("x").unwrap();
    let all = signal.select(0..signal.end_index()).unwrap();
    signal.empirical().unwrap();
    Outcome {
        end: signal.end_index(),
        tables: signal.state().tables(),
        samples: all
            .segments()
            .flat_map(|segment| segment.unwrap().to_vec::<i16>().unwrap())
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 500, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn reopening_changes_nothing(
        blocks in proptest::collection::vec(block(), 1..14),
        ppm in -80.0..80.0f64,
        resolution in prop::sample::select(vec![1_000i64, 1_000_000, SECOND]),
        start in any::<bool>(),
    ) {
        let once = write(&blocks, ppm, resolution, start, false);
        let often = write(&blocks, ppm, resolution, start, true);
        prop_assert_eq!(once.end, often.end);
        for (a, b) in once.tables.iter().zip(&often.tables) {
            prop_assert_eq!(a, b, "table {}", a.name);
        }
        prop_assert_eq!(&once.samples, &often.samples);
        let written: i64 = blocks.iter().map(|block| block.samples).sum();
        prop_assert_eq!(once.samples.len() as i64, written, "nothing recorded is lost");
    }
}
