//! Stored channels of one clock that meet in tasks.

#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{
    Plan, PlanOutput, Report, RunOptions, SharedRecording, Stat, StoredRecording,
};
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store};
use isochrony_time::{Fixed, Rate, Stamp};
use proptest::prelude::*;
use tempfile::TempDir;

const SECOND: i64 = 1_000_000_000;
const T0: i64 = 1_267_401_600 * SECOND;

#[derive(Debug, Clone, Copy)]
enum Discontinuity {
    Gap(i64),
    Step,
}

type History = Vec<(usize, Discontinuity)>;

fn value(channel: usize, index: i64) -> i16 {
    (index * (37 + 4 * channel as i64) % 601 - 300) as i16
}

struct Made {
    _folder: TempDir,
    store: Store,
    stretches: [Vec<Range<i64>>; 2],
}

impl Made {
    fn new(histories: &[History; 2], timed: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
        let mut stretches = [Vec::new(), Vec::new()];
        for (channel, history) in histories.iter().enumerate() {
            let mut options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
            options.start = timed.then(|| Fixed::from_int(T0));
            let writer = store.create(&format!("stn/{channel}"), &options).unwrap();
            let (mut back, mut stepped) = (0, false);
            for &(count, then) in history {
                let end = writer.signal().unwrap().end_index();
                let samples: Vec<i16> =
                    (0..count as i64).map(|k| value(channel, end + k)).collect();
                let appended = if stepped {
                    back += 3600 * SECOND;
                    let stamp = Stamp::new(Fixed::from_int(T0 - back), Fixed::ZERO);
                    writer.append_at(&samples, &stamp).unwrap()
                } else {
                    writer.append(&samples).unwrap()
                };
                assert_eq!(appended.index, end);
                stretches[channel].push(end..end + count as i64);
                stepped = timed && matches!(then, Discontinuity::Step);
                if let Discontinuity::Gap(samples) = then {
                    writer.append_gap(samples).unwrap();
                }
            }
        }
        store.commit(true).unwrap();
        Self {
            _folder: folder,
            store,
            stretches,
        }
    }

    fn stored(&self, channel: usize) -> StoredRecording {
        let signal = |channel: usize| self.store.signal(&format!("stn/{channel}")).unwrap();
        let stored = StoredRecording::new(self.store.path(), signal(channel));
        match channel {
            0 => stored,
            _ => stored.with_clock_of(&signal(0)).unwrap(),
        }
    }
}

fn history() -> impl Strategy<Value = History> {
    let then = prop_oneof![
        (1i64..40).prop_map(Discontinuity::Gap),
        Just(Discontinuity::Step)
    ];
    prop::collection::vec((1usize..120, then), 1..6)
}

fn run(
    scans: &[Plan; 2],
    window: u64,
    hop: u64,
    workers: usize,
    task: u64,
) -> (Vec<PlanOutput>, Report) {
    let [a, b] = scans;
    let s = Expr::input();
    let others = std::slice::from_ref(b);
    let apart = a.map_with(&(&s * 1.0 - Expr::input_at(1)), others).unwrap();
    let rows = apart
        .rewindow_every(window, hop)
        .unwrap()
        .stats([Stat::Min, Stat::Mean])
        .unwrap();
    let both = a
        .map(&(&s * 2))
        .unwrap()
        .zip(&[b.map(&(&s + 1)).unwrap()])
        .unwrap()
        .output(1)
        .unwrap();
    let kept = both
        .rewindow_every(window, hop)
        .unwrap()
        .filter(&s.mean().gt(0))
        .unwrap();
    let mut options = RunOptions::default();
    (options.workers, options.task) = (workers, task);
    Plan::collect_all(&[apart, rows, both, kept], &options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn stored_channels_meet_in_tasks_to_the_same_bits_and_as_a_loop_has_it(
        one in history(), other in history(), alike in any::<bool>(), cut in (0.0f64..1.0, 0.0f64..1.0), window in 1u64..30,
        hop in 1u64..40, segments in (1u64..90, 1u64..90), task in 2u64..400,
    ) {
        let second = if alike { one.clone() } else { other };
        let made = Made::new(&[one, second], alike);
        let ends = [0, 1].map(|channel| made.stretches[channel].last().unwrap().end);
        let end = ends[0].min(ends[1]);
        let at = |share: f64| (share * end as f64) as i64;
        let (a, b) = (at(cut.0.min(cut.1)), at(cut.0.max(cut.1)));
        let scan = |stored: [StoredRecording; 2]| {
            let [first, second] = stored.map(SharedRecording::new);
            [Plan::scan_part(first, None, segments.0), Plan::scan_part(second, None, segments.1)]
        };
        let whole = scan([made.stored(0), made.stored(1)]);
        let selected = scan([made.stored(0).ranges([a..b]), made.stored(1).ranges([a..b])]);
        let apart = scan([made.stored(0).ranges([a..end]), made.stored(1).ranges([0..b])]);
        let backwards = scan([0, 1].map(|channel| made.stored(channel).ranges([b..end, 0..b])));
        for scans in [&whole, &selected, &apart, &backwards] {
            let (one, _) = run(scans, window, hop, 1, task);
            for workers in [2, 5] {
                prop_assert_eq!(&run(scans, window, hop, workers, task).0, &one);
            }
        }
        let (gathered, report) = run(&whole, window, hop, 3, task);
        prop_assert_eq!(report.workers.len(), 3);
        prop_assert_eq!(report.reads.len(), 2);
        let has = |channel: usize, index: i64| made.stretches[channel].iter().any(|one| one.contains(&index));
        let both = (0..end).filter(|&index| has(0, index) && has(1, index));
        let expected: Vec<f64> = both.map(|index| f64::from(value(0, index)) - f64::from(value(1, index))).collect();
        prop_assert_eq!(gathered[0].array().unwrap().to_vec::<f64>().unwrap(), expected);
    }
}

#[test]
fn tasks_read_channels_together_but_not_ranges_that_may_go_back() {
    let history = vec![
        (100, Discontinuity::Gap(5)),
        (100, Discontinuity::Step),
        (60, Discontinuity::Gap(1)),
    ];
    let made = Made::new(&[history.clone(), history], true);
    let said = |stored: [StoredRecording; 2]| {
        let [a, b] = stored.map(Plan::scan);
        let apart = a
            .map_with(&(Expr::input() - Expr::input_at(1)), &[b])
            .unwrap();
        apart.limit(5).unwrap().explain()
    };
    let together = said([made.stored(0), made.stored(1)]);
    assert!(
        together.contains("0 scan, 1 scan, 0 and 1 -> 2 map in tasks of"),
        "{together}"
    );
    let back = [0, 1].map(|channel| made.stored(channel).ranges([50..90, 0..50]));
    let back = said(back);
    assert!(
        back.contains("scan in order: map matches streams of ranges that may rewind"),
        "{back}"
    );
}
