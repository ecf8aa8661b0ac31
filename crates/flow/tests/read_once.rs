//! Bytes that a run in tasks reads, by the kernel's count per process: so this process has one test.
#![cfg(target_os = "linux")]

use isochrony_expr::Expr;
use isochrony_flow::{Plan, RunOptions, StoredRecording, json};
use isochrony_segment::DType;
use isochrony_store::{CreateOptions, Mode, Store, Strategy};
use isochrony_time::Rate;

const SAMPLES: u64 = 10 << 20;

/// By system calls; None where the kernel does not count.
fn read_so_far() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/io").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("rchar: "))?;
    line.parse().ok()
}

/// Read-ahead threads.
fn threads() -> usize {
    let all = std::fs::read_dir("/proc/self/task").unwrap();
    let names = all.filter_map(|one| std::fs::read_to_string(one.ok()?.path().join("comm")).ok());
    names
        .filter(|name| name.starts_with("isochrony-read"))
        .count()
}

#[test]
fn tasks_read_no_byte_more_often_than_their_overlaps_need() {
    if read_so_far().is_none() {
        eprintln!("this kernel does not count what a process reads: not tested");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("a.iso"), Mode::Create).unwrap();
    let options = CreateOptions::new(DType::I16, Rate::from_hz(100).unwrap());
    let writer = store.create("p", &options).unwrap();
    let samples: Vec<i16> = (0..SAMPLES).map(|k| (k % 1_009) as i16).collect();
    writer.append(&samples).unwrap();
    store.commit(true).unwrap();
    let mut expected = None;
    for io in [Strategy::Read, Strategy::Direct] {
        let stored = StoredRecording::new(store.path(), store.signal("p").unwrap()).io(io);
        let scan = Plan::scan(stored);
        let windows = scan.rewindow(4_096).unwrap();
        let rows = windows.rows([("mean", Expr::input().mean())]).unwrap();
        let plan = rows
            .group_by(&[], [("sum", json!(["mean", "sum"]))])
            .unwrap();
        for workers in [2, 4] {
            let mut options = RunOptions::default();
            (options.workers, options.task) = (workers, 1 << 20);
            let before = read_so_far().unwrap();
            let (gathered, report) = plan.collect_with(&options).unwrap();
            let read = read_so_far().unwrap() - before;
            let tasks = report.tasks.len() as u64;
            assert!(tasks >= 16, "{tasks} tasks");
            assert_eq!(&gathered, expected.get_or_insert_with(|| gathered.clone()));
            // Windows extend beyond tasks; blocks at both ends of a piece, and other reads.
            let needed = 2 * (SAMPLES + (tasks - 1) * 4_095);
            let pieces = 2 * SAMPLES / (512 << 10) + 2 * tasks;
            let most = needed + pieces * 2 * 4_096 + (64 << 10);
            let used = report.reads[0].used;
            assert!(
                read <= most,
                "{io} ({used:?}), {workers}: {read} of {needed} bytes"
            );
            assert!(read >= 2 * SAMPLES, "{io}: {read} bytes");
        }
    }
    let begun = std::time::Instant::now();
    while threads() > 0 {
        assert!(begun.elapsed().as_secs() < 60, "{} threads", threads());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
