//! Work distribution, failures and bounds of runs on several cores.

use crate::common::fail;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use isochrony_expr::Expr;
use isochrony_flow::{
    Contract, Inputs, Interrupt, Item, Next, OpError, Operator, OperatorFactory,
    OperatorProperties, Out, Plan, PlanError, Port, PortType, Progress, RunOptions, SharedFactory,
    SharedRecording, Stat, json, operator,
};

use crate::common::gapped::{SAMPLES, named, options, recording, windows};

fn failing(at: &[i64], how: &str) -> Plan {
    let s = Expr::input();
    let failing = fail::failing(&windows().map(&(&s * 2).wrapping()).unwrap(), at, how);
    failing.map(&s.max()).unwrap()
}

#[test]
fn an_error_of_a_worker_names_the_operator_by_its_number_in_the_plan() {
    let plan = failing(&[35_010], "error");
    let alone = plan.collect().unwrap_err();
    let many = plan.collect_with(&options(3)).unwrap_err();
    assert_eq!(many.code(), alone.code());
    let text = many.to_string();
    assert!(text.starts_with("fail (node 3, samples "), "{text}");
    assert!(text.contains("sample 35010 is bad"), "{text}");
}

#[test]
fn too_many_groups_are_refused_in_a_task_and_when_tasks_are_combined() {
    let rows = windows().stats([Stat::Max]).unwrap();
    let most = |most: u64| {
        let params = json!({"keys": ["start"], "aggregates": {"n": "count"}, "most": most});
        let error = named(&rows, "group_by", params).collect_with(&options(2));
        error.map(|(table, _)| table.rows().unwrap().num_rows())
    };
    for few in [3, 300] {
        let error = most(few).unwrap_err();
        assert_eq!(error.code(), "too_many_groups");
        assert!(error.to_string().starts_with("group_by (node 3"), "{error}");
    }
    assert_eq!(most(1000).unwrap(), 123 + 176 + 90);
}

#[test]
fn of_several_errors_that_counts_which_comes_first_in_the_recording() {
    for _ in 0..20 {
        let error = failing(&[38_000, 9_000, 31_500], "error")
            .collect_with(&options(4))
            .unwrap_err();
        assert!(error.to_string().contains("sample 9000 is bad"), "{error}");
    }
}

#[test]
fn a_panic_in_a_worker_ends_the_run_and_not_the_process() {
    let error = failing(&[20_000], "panic")
        .collect_with(&options(2))
        .unwrap_err();
    assert_eq!(error.code(), "operator_panicked");
    assert!(
        error.to_string().contains("sample 20000 is cursed"),
        "{error}"
    );
}

#[test]
fn the_report_says_who_did_which_task_and_counts_what_one_thread_would() {
    let s = Expr::input();
    let plan = windows().filter(&s.max().gt(500)).unwrap().count().unwrap();
    let (one, alone) = plan.collect_with(&RunOptions::default()).unwrap();
    let (many, report) = plan.collect_with(&options(3)).unwrap();
    assert_eq!(one, many);
    let names: Vec<_> = report.operators.iter().map(|one| one.name).collect();
    assert_eq!(names, ["scan", "rewindow", "filter", "count"]);
    // Windows count once, though samples after portions are read twice.
    let samples = |report: &isochrony_flow::Report| report.operators[2].samples;
    assert_eq!(samples(&report), samples(&alone));
    assert_eq!(report.operators[1].gaps, 2);
    let mut upto = 0;
    let mut covered = 0;
    for task in &report.tasks {
        // Tasks go on over gaps.
        assert_eq!(task.range.start, upto);
        upto = task.range.end;
        covered += task.range.end - task.range.start;
        assert!(task.worker < 3);
    }
    assert_eq!((upto, covered), (SAMPLES, SAMPLES));
    let done: u64 = report.workers.iter().map(|one| one.work.items).sum();
    assert_eq!((report.workers.len(), done), (3, report.tasks.len() as u64));
    assert!(report.to_string().contains("worker 0"), "{report}");
    assert!(alone.workers.is_empty() && alone.tasks.is_empty());
}

/// May hold its first item until a later task was computed.
struct Slow(Arc<AtomicI64>, Arc<AtomicI64>, bool);

impl OperatorFactory for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self(self.0.clone(), self.1.clone(), self.2)))
    }
}

impl Operator for Slow {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let (_, next) = item.extent().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        if std::mem::take(&mut self.2) {
            let patience = Instant::now() + Duration::from_secs(30);
            while FURTHEST.load(Ordering::SeqCst) < next + 1000 {
                assert!(Instant::now() < patience, "workers do nothing meanwhile");
                std::thread::yield_now();
            }
        }
        let ahead = FURTHEST.load(Ordering::SeqCst) - next;
        self.1.fetch_max(ahead, Ordering::SeqCst);
        self.0.store(next, Ordering::SeqCst);
        Ok(Next::Forward)
    }
}

static FURTHEST: AtomicI64 = AtomicI64::new(0);

operator! {
    /// Says how far it is.
    pub struct Far = "far" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Far {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let (_, next) = item.extent().unwrap();
        FURTHEST.fetch_max(next, Ordering::SeqCst);
        Ok(Next::Forward)
    }
}

#[test]
fn workers_go_on_while_the_run_is_busy_and_wait_for_who_takes_what_they_gave() {
    let (done, ahead) = (Arc::default(), Arc::default());
    let slow = Slow(Arc::clone(&done), Arc::clone(&ahead), true);
    let plan = windows()
        .then::<Far>(serde_json::Map::new())
        .unwrap()
        .apply_factory(SharedFactory::new(slow), &[])
        .unwrap();
    let (_, report) = plan.collect_with(&options(2)).unwrap();
    assert_eq!(done.load(Ordering::SeqCst), SAMPLES);
    let ahead = ahead.load(Ordering::SeqCst);
    assert!(
        report.tasks.len() > 30 && (1000..=8 * 1100 + 1001).contains(&ahead),
        "{ahead} samples ahead"
    );
}

#[test]
fn who_wants_no_more_ends_the_workers() {
    let s = Expr::input();
    let plan = windows().map(&(&s + 1)).unwrap().limit(3).unwrap();
    let (some, report) = plan.collect_with(&options(4)).unwrap();
    assert_eq!(some.array().unwrap().shape, [3, 100]);
    assert!(report.tasks.len() <= 13, "{}", report.tasks.len());
}

#[test]
fn an_interrupt_stops_all_of_them() {
    let stop = Interrupt::default();
    let mut options = options(3);
    options.interrupt = Some(&stop);
    let (done, ahead) = (Arc::default(), Arc::default());
    let slow = SharedFactory::new(Slow(Arc::clone(&done), Arc::clone(&ahead), false));
    let s = Expr::input();
    let plan = windows()
        .map(&(&s + 1))
        .unwrap()
        .apply_factory(slow, &[])
        .unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Ordering::SeqCst) < 1000 {
                std::thread::yield_now();
            }
            stop.request();
        });
        let error = plan.collect_with(&options).unwrap_err();
        assert_eq!(error.code(), "interrupted");
    });
    assert!(done.load(Ordering::SeqCst) < SAMPLES);
}

#[test]
fn streams_meet_behind_workers_as_they_do_behind_scans() {
    let s = Expr::input();
    let loud = windows().filter(&s.max().gt(900)).unwrap();
    let power = windows().map(&(&s * &s).sum()).unwrap();
    let both = power
        .map_with(
            &(Expr::input() - Expr::input_at(1).mean()),
            std::slice::from_ref(&loud),
        )
        .unwrap();
    let merged = loud.merge(&[windows().map(&(&s * 1)).unwrap()]);
    for plan in merged.into_iter().chain([both]) {
        assert_eq!(
            plan.collect_with(&options(3)).unwrap().0,
            plan.collect().unwrap()
        );
    }
}

operator! {
    /// Fails unless its thread has a single core; waits until three threads have come.
    pub struct Pinned = "pinned" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Pinned {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let cores = cores();
        assert_eq!(cores.len(), 1);
        let here = (std::thread::current().name().map(Into::into), cores[0]);
        CORES.lock().unwrap().insert(here);
        let patience = Instant::now() + Duration::from_secs(30);
        while CORES.lock().unwrap().len() < 3 {
            assert!(Instant::now() < patience, "not all workers get a task");
            std::thread::yield_now();
        }
        Ok(Next::Forward)
    }
}

static CORES: Mutex<BTreeSet<(Option<String>, usize)>> = Mutex::new(BTreeSet::new());

fn cores() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap();
    let all = 0..rustix::thread::CpuSet::MAX_CPU;
    all.filter(|&core| set.is_set(core)).collect()
}

#[test]
fn workers_may_stay_on_a_core_each() {
    let plan = windows().then::<Pinned>(serde_json::Map::new()).unwrap();
    let mut options = options(3);
    options.pin = true;
    assert_eq!(
        plan.collect_with(&options).unwrap().0,
        windows().collect().unwrap()
    );
    let seen = CORES.lock().unwrap();
    let used: BTreeSet<usize> = seen.iter().map(|(_, core)| *core).collect();
    assert_eq!((seen.len(), used.len()), (3, cores().len().min(3)));
}

#[test]
fn what_comes_before_an_error_in_its_task_still_comes() {
    let plan = failing(&[900], "error").limit(3).unwrap();
    let (some, _) = plan.collect_with(&options(3)).unwrap();
    assert_eq!(
        some.array().unwrap().to_vec::<i16>().unwrap(),
        [198, 398, 598]
    );
}

#[test]
fn rows_that_wait_to_go_on_together_stay_in_their_task() {
    let rows = windows().stats([Stat::Min, Stat::Max]).unwrap();
    for workers in 2..5 {
        let (many, _) = rows.collect_with(&options(workers)).unwrap();
        assert_eq!(many, rows.collect().unwrap());
    }
}

#[test]
fn progress_ends_at_all_samples_and_counts_none_twice() {
    let progress = Progress::default();
    let mut options = options(3);
    options.progress = Some(&progress);
    let s = Expr::input();
    let plan = Plan::scan_part(recording(), None, 500)
        .rewindow_every(300, 7)
        .unwrap();
    plan.map(&s.max()).unwrap().run_with(&options).unwrap();
    assert_eq!(
        (progress.done(), progress.total()),
        (SAMPLES as u64 - 1001, Some(SAMPLES as u64 - 1001))
    );
}

#[test]
fn windows_that_overlap_too_much_for_tasks_go_in_order() {
    let wide = Plan::scan_part(recording(), None, 500)
        .rewindow_every(8192, 1)
        .unwrap();
    let powers = wide.power().unwrap();
    let mut options = options(2);
    options.memory = 64 << 20;
    let report = powers.limit(5).unwrap().run_with(&options).unwrap();
    assert!(report.workers.is_empty());
}
