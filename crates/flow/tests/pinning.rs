//! Threads of a pinned execution keep one CPU each.

#[path = "common/plans.rs"]
#[allow(dead_code)]
mod plans;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use isochrony_expr::Expr;
use isochrony_flow::{GeneratedRecording, Plan, RunOptions, Segments, SharedRecording};
use isochrony_runtime::Watch;
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use plans::named;

fn affinity() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    let all = 0..CpuSet::MAX_CPU;
    all.filter(|&cpu| set.is_set(cpu)).collect()
}

fn stream() -> StreamId {
    Stream::new("made", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

fn segment(nth: i64) -> SigSeg {
    let samples: Vec<i16> = (nth * 1000..(nth + 1) * 1000)
        .map(|at| (at % 977) as i16)
        .collect();
    SigSeg::from_slice(&samples, nth * 1000, stream()).unwrap()
}

type Seen = Arc<Mutex<BTreeSet<Vec<usize>>>>;

/// Segments record the affinity of their thread; one may panic.
fn noted(seen: &Seen, segments: i64, panics_at: Option<i64>) -> Plan {
    let seen = Arc::clone(seen);
    let recording = GeneratedRecording::new(DType::I16, stream(), move || {
        let (seen, mut next) = (Arc::clone(&seen), 0);
        Ok(Box::new(move || {
            seen.lock().unwrap().insert(affinity());
            assert!(Some(next) != panics_at, "as asked");
            next += 1;
            Ok((next <= segments).then(|| segment(next - 1)))
        }))
    });
    Plan::scan(recording)
}

fn filtered(source: Plan) -> Plan {
    let filter = |plan: Plan, nth: usize| {
        let params =
            serde_json::json!({"band": "lowpass", "cutoff_hz": 300.0 + nth as f64, "order": 2});
        named(&plan, &("iir", params)).unwrap()
    };
    (0..3).fold(source, filter).rewindow(256).unwrap()
}

fn spread() -> Plan {
    let segments =
        SharedRecording::new(Segments::new((0..400).map(segment).collect::<Vec<_>>()).unwrap());
    let windows = Plan::scan_part(segments, None, 1000).rewindow(250).unwrap();
    windows.map(&(Expr::input() * 2)).unwrap()
}

fn pinned(workers: usize) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    (options.workers, options.pin, options.task) = (workers, true, 64 << 10);
    options.stages.helpers_after_us = 0;
    options
}

fn one_cpu_each(seen: &Seen) -> bool {
    let seen = seen.lock().unwrap();
    !seen.is_empty() && seen.iter().all(|cpus| cpus.len() == 1)
}

#[test]
fn the_callers_thread_is_pinned_too_and_its_affinity_restored() {
    let before = affinity();
    for workers in [1, 2, 3] {
        let seen = Seen::default();
        let plan = filtered(noted(&seen, 300, None));
        let (got, report) = plan.collect_with(&pinned(workers)).unwrap();
        assert_eq!(affinity(), before);
        assert!(one_cpu_each(&seen), "{seen:?}");
        assert_eq!(got, plan.collect().unwrap());
        let cpus: Vec<usize> = report.pinned_cpus.iter().map(|cpu| cpu.unwrap()).collect();
        assert_eq!(cpus.len(), report.threads.len().max(1), "{report}");
        let different: BTreeSet<&usize> = cpus.iter().collect();
        assert_eq!(different.len(), cpus.len().min(before.len()));
        let text = format!("threads pinned to CPU {}", cpus[0]);
        assert!(report.to_string().contains(&text), "{report}");
    }
}

#[test]
fn workers_of_tasks_are_on_other_cpus_than_the_caller_while_there_are_any() {
    let before = affinity();
    let (got, report) = spread().collect_with(&pinned(2)).unwrap();
    assert_eq!(affinity(), before);
    assert_eq!(got, spread().collect().unwrap());
    assert_eq!(
        (report.workers.len(), report.pinned_cpus.len()),
        (2, 3),
        "{report}"
    );
    let cpus: Vec<usize> = report.pinned_cpus.iter().map(|cpu| cpu.unwrap()).collect();
    let different: BTreeSet<&usize> = cpus.iter().collect();
    assert_eq!(different.len(), before.len().min(3));
    // With two CPUs the two workers still have one each.
    assert_eq!(cpus[1] != cpus[2], before.len() > 1);
}

#[test]
fn unpinned_executions_report_no_cpus() {
    let seen = Seen::default();
    let (_, report) = noted(&seen, 3, None)
        .collect_with(&RunOptions::default())
        .unwrap();
    assert!(report.pinned_cpus.is_empty());
    assert!(!report.to_string().contains("pinned"));
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from([affinity()]));
}

#[test]
fn an_error_restores_the_affinity() {
    let before = affinity();
    for workers in [1, 3] {
        let seen = Seen::default();
        let plan = filtered(noted(&seen, 300, Some(150)));
        let error = plan.collect_with(&pinned(workers)).unwrap_err();
        assert_eq!(error.code(), "operator_panicked", "{error}");
        assert!(one_cpu_each(&seen), "{seen:?}");
        assert_eq!(affinity(), before);
    }
}

#[test]
fn a_panic_of_the_watch_restores_the_affinity() {
    let before = affinity();
    let panics = Arc::new(AtomicUsize::new(0));
    for plan in [spread(), filtered(noted(&Seen::default(), 100_000, None))] {
        for workers in [1, 2] {
            let counts = Arc::clone(&panics);
            let watch = Watch::new(move || {
                counts.fetch_add(1, Ordering::Relaxed);
                panic!("as asked")
            });
            let mut options = pinned(workers);
            options.watch = Some(&watch);
            // In an operator it becomes an error, else it propagates to the caller.
            let _ = catch_unwind(AssertUnwindSafe(|| plan.collect_with(&options)));
            assert_eq!(affinity(), before);
        }
    }
    assert!(panics.load(Ordering::Relaxed) > 0);
}

#[test]
fn threads_stay_within_the_affinity_of_the_caller() {
    let only = affinity()[0];
    let mut one = CpuSet::new();
    one.set(only);
    sched_setaffinity(None, &one).unwrap();
    let seen = Seen::default();
    let (_, report) = filtered(noted(&seen, 300, None))
        .collect_with(&pinned(3))
        .unwrap();
    assert!(
        report.pinned_cpus.iter().all(|&cpu| cpu == Some(only)),
        "{report}"
    );
    assert_eq!(*seen.lock().unwrap(), BTreeSet::from([vec![only]]));
    assert_eq!(affinity(), [only]);
}
