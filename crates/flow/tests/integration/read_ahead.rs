//! Read-ahead from task to task gives the same results by every strategy.

use std::sync::atomic::{AtomicBool, Ordering};

use isochrony_expr::Expr;
use isochrony_flow::{
    Interrupt, Plan, RunOptions, SharedRecording, Stat, StoredRecording, Watch, json,
};
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, Strategy};
use isochrony_time::Rate;
use tempfile::TempDir;

const SAMPLES: i64 = 1_500_000;

fn made(folder: &TempDir) -> Store {
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    for (channel, gaps) in [(0, [500_000, 31]), (1, [17, 400_000])] {
        let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
        let writer = store.create(&format!("p{channel}"), &options).unwrap();
        let mut gaps = gaps.into_iter();
        while writer.signal().unwrap().end_index() < SAMPLES {
            let from = writer.signal().unwrap().end_index();
            let samples = (from..from + 345_678).map(|k| ((k * (37 + channel)) >> 4) as i16);
            writer.append(&samples.collect::<Vec<_>>()).unwrap();
            if let Some(gap) = gaps.next() {
                writer.append_gap(gap).unwrap();
            }
        }
    }
    store.commit(true).unwrap();
    store
}

fn scans(store: &Store, io: Strategy) -> [Plan; 2] {
    let signal = |channel: i64| store.signal(&format!("p{channel}")).unwrap();
    let stored = |channel| StoredRecording::new(store.path(), signal(channel)).io(io);
    let other = stored(1).with_clock_of(&signal(0)).unwrap();
    [stored(0), other].map(|one| Plan::scan_part(SharedRecording::new(one), None, 5_000))
}

fn plans(store: &Store, io: Strategy) -> Vec<Plan> {
    let [one, other] = scans(store, io);
    let s = Expr::input();
    let rows = one.rewindow_every(700, 300).unwrap();
    let means = rows.rows([("mean", s.mean())]).unwrap();
    let apart = one.map_with(&(&s * 1.0 - Expr::input_at(1)), &[other]);
    vec![
        means
            .group_by(&[], [("sum", json!(["mean", "sum"]))])
            .unwrap(),
        apart
            .unwrap()
            .rewindow(512)
            .unwrap()
            .stats([Stat::Max])
            .unwrap(),
    ]
}

fn options(workers: usize) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    (options.workers, options.task) = (workers, 100_000);
    options
}

#[test]
fn every_strategy_gives_any_number_of_workers_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    let expected = Plan::collect_all(&plans(&store, Strategy::Mmap), &options(1)).unwrap();
    for io in Strategy::ALL {
        let plans = plans(&store, io);
        for (workers, shuffle) in [(1, None), (2, None), (5, None), (2, Some(1)), (5, Some(2))] {
            let mut options = options(workers);
            options.stages.shuffle = shuffle;
            let (found, report) = Plan::collect_all(&plans, &options).unwrap();
            assert_eq!(found, expected.0, "{io}, {workers} workers, {shuffle:?}");
            let reads = report.reads.iter();
            assert!(
                reads.clone().all(|read| read.asked == io),
                "{:?}",
                report.reads
            );
            assert!(workers == 1 || report.tasks.len() > 10);
        }
    }
}

#[test]
fn what_is_appended_during_a_run_is_not_read_ahead() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    let writer = store.writer("p0").unwrap();
    for io in [Strategy::Direct, Strategy::IoUring, Strategy::Readahead] {
        let [scan, _] = scans(&store, io);
        let before = store.signal("p0").unwrap().end_index();
        let once = AtomicBool::new(false);
        let (store, writer) = (store.clone(), writer.clone());
        let append = Watch::new(move || {
            if !once.swap(true, Ordering::Relaxed) {
                writer.append(&[1_i16; 300_000]).unwrap();
                store.commit(true).unwrap();
            }
            true
        });
        let counted = scan.map(&(Expr::input() * 2)).unwrap().count().unwrap();
        let mut options = options(2);
        options.watch = Some(&append);
        let (gathered, _) = counted.collect_with(&options).unwrap();
        let gaps = 500_031;
        assert_eq!(gathered.count(), Some((before - gaps) as u64), "{io}");
    }
}

#[test]
fn runs_that_end_early_give_what_came_before_or_say_that_they_were_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    for io in Strategy::ALL {
        let [scan, _] = scans(&store, io);
        let doubled = scan
            .rewindow(100)
            .unwrap()
            .map(&(Expr::input() * 2).wrapping())
            .unwrap();
        let all = doubled.collect().unwrap();
        let all = all.array().unwrap().to_vec::<i16>().unwrap();
        for windows in [1, 700, 3_000] {
            let some = doubled
                .limit(windows)
                .unwrap()
                .collect_with(&options(2))
                .unwrap()
                .0;
            let some = some.array().unwrap().to_vec::<i16>().unwrap();
            assert_eq!(some, all[..100 * windows as usize], "{io}");
        }
        for looks in [0, 1] {
            let stop = Interrupt::default();
            if looks == 0 {
                stop.request();
            }
            let (flag, seen) = (stop.clone(), AtomicBool::new(false));
            let watch = Watch::new(move || {
                if seen.swap(true, Ordering::Relaxed) {
                    flag.request();
                }
                true
            });
            let mut options = options(2);
            (options.interrupt, options.watch) = (Some(&stop), Some(&watch));
            match doubled.run_with(&options) {
                Err(error) => assert_eq!(error.code(), "interrupted"),
                Ok(_) => assert_eq!(looks, 1),
            }
        }
    }
}

#[test]
fn tasks_that_are_done_again_for_want_of_memory_read_the_same_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = made(&folder);
    let expected = {
        let [scan, _] = scans(&store, Strategy::Mmap);
        let doubled = scan.rewindow(1_000).unwrap().map(&(Expr::input() * 2.5));
        doubled.unwrap().collect().unwrap()
    };
    for io in [Strategy::Read, Strategy::Direct, Strategy::IoUringDirect] {
        let [scan, _] = scans(&store, io);
        let plan = scan
            .rewindow(1_000)
            .unwrap()
            .map(&(Expr::input() * 2.5))
            .unwrap();
        let mut options = options(3);
        options.memory = 512 << 10;
        let (found, report) = plan.collect_with(&options).unwrap();
        assert_eq!(found, expected, "{io}");
        assert!(report.peak_bytes <= options.memory, "{}", report.peak_bytes);
    }
}
