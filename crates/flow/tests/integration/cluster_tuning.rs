//! Plans on a cluster that are tuned: the same bits, decisions, and configurations that fit clusters of other sizes.

use std::time::Duration;

use isochrony_flow::{
    Plan, PlanOutput, Report, RunError, RunOptions, Segments, SharedRecording, Tuning, TuningMode,
    TuningReport,
};
use isochrony_segment::{SigSeg, Stream};
use isochrony_time::{Rate, TimebaseId};
use isochrony_tune::{Configuration, Outcome};

use crate::common::loopback::Loopback;

const TASK: usize = 1024;
const SLOTS: usize = 4;

fn plan(tasks: usize) -> Plan {
    let stream = Stream::new("made", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern();
    let samples = (0..tasks * TASK).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 50) as i16);
    let samples: Vec<i16> = samples.collect();
    let segment = SigSeg::from_slice(&samples, 0, stream).unwrap();
    let recording = SharedRecording::new(Segments::new([segment]).unwrap());
    let scan = Plan::scan_part(recording, None, TASK as u64);
    scan.rewindow(256).unwrap().power().unwrap()
}

fn options() -> RunOptions<'static> {
    let mut options = RunOptions::default();
    options.task = 2 * TASK as u64;
    options.workers = 2;
    options
}

struct TunedRun {
    output: PlanOutput,
    report: Report,
    tuning: TuningReport,
    messages: u64,
}

/// On slots, of which one in `lost_one_in` calls loses one.
fn run(
    plan: &Plan,
    mode: TuningMode,
    delay_ms: u64,
    lost_one_in: u64,
) -> Result<TunedRun, RunError> {
    let hosts = [(vec![plan.clone()], None)];
    let delay = Duration::from_millis(delay_ms);
    let cluster = Loopback::with_delay(&hosts, None, options(), SLOTS, lost_one_in, delay);
    let tuning = Tuning::new(mode, false);
    let mut here: RunOptions<'_> = options();
    here.cluster = Some(&cluster);
    here.tuning = Some(&tuning);
    let (output, report) = plan.collect_with(&here)?;
    Ok(TunedRun {
        output,
        report,
        tuning: tuning.report().unwrap(),
        messages: cluster.calls(),
    })
}

fn tuned(plan: &Plan, mode: TuningMode, delay_ms: u64, lost_one_in: u64) -> TunedRun {
    run(plan, mode, delay_ms, lost_one_in).unwrap()
}

fn configuration(workers: usize, slots: usize, batch_tasks: usize) -> Configuration {
    Configuration {
        workers,
        replicas: vec![slots],
        link_bytes: Vec::new(),
        task_bytes: 0,
        batch_tasks,
    }
}

fn expected(plan: &Plan) -> PlanOutput {
    plan.collect_with(&RunOptions::default()).unwrap().0
}

#[test]
fn a_bad_start_is_improved_where_messages_travel_for_long() {
    // On a busy machine a trial takes half as many windows as there are in 6,000 tasks.
    let plan = plan(12_000);
    // Two tasks in 10 ms: 60 s for all.
    let start = configuration(1, SLOTS, 1);
    let ran = tuned(&plan, TuningMode::ChangeFrom(start), 10, 0);
    assert_eq!(ran.output, expected(&plan));
    let TunedRun { report, tuning, .. } = ran;
    let kept = tuning.decisions.iter();
    let kept: Vec<_> = kept.filter(|one| one.outcome == Outcome::Kept).collect();
    assert!(
        kept.iter().any(|one| one.to.workers > one.from.workers),
        "{tuning:#?}"
    );
    // 0: each slot decides, which is more than one of these small tasks.
    let carries_more = kept.iter().any(|one| {
        one.to.batch_tasks > one.from.batch_tasks
            || one.to.batch_tasks == 0 && one.from.batch_tasks == 1
            || one.to.task_bytes > one.from.task_bytes
    });
    assert!(carries_more, "{tuning:#?}");
    assert!(kept.iter().all(|one| one.gain.unwrap().low.unwrap() > 0.0));
    assert!(
        report.elapsed < Duration::from_secs(30),
        "{:?}",
        report.elapsed
    );
    let found = tuning.configuration.unwrap();
    assert!((2..=SLOTS).contains(&found.workers), "{found}");
    assert_eq!(found.replicas, [SLOTS]);
}

#[test]
fn slots_that_are_lost_while_a_plan_is_tuned_change_no_bits() {
    let plan = plan(3000);
    let start = configuration(SLOTS, SLOTS, 1);
    let ran = tuned(&plan, TuningMode::ChangeFrom(start), 4, 60);
    assert_eq!(ran.output, expected(&plan));
    assert!(ran.report.workers.iter().any(|slot| slot.lost));
    assert!(ran.tuning.windows > 3, "{:?}", ran.tuning);
    let workers = ran.tuning.configuration.unwrap().workers;
    assert!((1..=SLOTS).contains(&workers), "{workers}");
}

#[test]
fn a_short_run_is_not_changed() {
    let plan = plan(200);
    let ran = tuned(&plan, TuningMode::Change, 5, 0);
    assert_eq!(ran.output, expected(&plan));
    let outcomes = ran.tuning.decisions.iter().map(|one| one.outcome);
    assert!(
        outcomes.clone().all(|one| one == Outcome::TooShort),
        "{:?}",
        ran.tuning
    );
    assert_eq!(
        ran.tuning.configuration,
        Some(configuration(SLOTS, SLOTS, 0))
    );
}

#[test]
fn a_recommendation_changes_nothing_and_is_a_configuration_of_the_plan() {
    let plan = plan(1000);
    let ran = tuned(&plan, TuningMode::Recommend, 10, 0);
    assert_eq!(ran.output, expected(&plan));
    assert!(ran.tuning.windows > 0);
    assert!(ran.tuning.decisions.is_empty());
    let found = ran.tuning.configuration.unwrap();
    assert_eq!(found, configuration(SLOTS, SLOTS, found.batch_tasks));
    let again = tuned(&plan, TuningMode::Apply(found.clone()), 0, 0);
    assert_eq!(again.output, expected(&plan));
    assert_eq!(again.tuning.configuration, Some(found));
}

#[test]
fn a_recommendation_states_how_many_tasks_a_message_should_carry() {
    // Each slot begins with single tasks in messages of 10 ms, and carries more only with time.
    let plan = plan(6000);
    let slow = tuned(&plan, TuningMode::Recommend, 10, 0);
    let found = slow.tuning.configuration.unwrap();
    assert!(
        (2..=32).contains(&found.batch_tasks),
        "{found} {:?}",
        slow.tuning.advice
    );
    let [advice] = &slow.tuning.advice[..] else {
        panic!("{:?}", slow.tuning.advice);
    };
    assert!(
        advice.starts_with(&format!("batch_tasks={} instead of ", found.batch_tasks)),
        "{advice}"
    );
    assert!(slow.tuning.predicted_gain.unwrap() >= 0.05, "{advice}");
    let applied = tuned(&plan, TuningMode::Apply(found), 10, 0);
    assert_eq!(applied.output, slow.output);
    assert!(applied.tuning.advice.is_empty());
    assert!(
        tuned(&plan, TuningMode::Measure, 0, 0)
            .tuning
            .advice
            .is_empty()
    );
}

#[test]
fn a_configuration_is_applied_from_the_start() {
    let plan = plan(1000);
    let own = tuned(&plan, TuningMode::Measure, 0, 0);
    let stated = configuration(2, SLOTS, 10);
    let ran = tuned(&plan, TuningMode::Apply(stated.clone()), 0, 0);
    assert_eq!(ran.output, own.output);
    assert_eq!(ran.tuning.configuration, Some(stated));
    let tasks = ran.report.workers.iter().map(|slot| slot.work.items);
    let used = tasks.clone().filter(|&tasks| tasks > 0).count();
    assert!(used <= 2, "{:?}", ran.report.workers);
    assert_eq!(tasks.sum::<u64>(), 1000);
    // Ten tasks a message, fewer near the end.
    assert!((100..140).contains(&ran.messages), "{}", ran.messages);
    let one = tuned(
        &plan,
        TuningMode::Apply(configuration(SLOTS, SLOTS, 1)),
        0,
        0,
    );
    assert_eq!((one.output, one.messages), (own.output, 1000));
}

#[test]
fn a_configuration_of_a_cluster_with_another_number_of_slots_is_fitted() {
    let plan = plan(300);
    for (stated, used) in [
        // All of few slots are all of many.
        (configuration(2, 2, 8), configuration(4, 4, 8)),
        (configuration(9, 9, 0), configuration(4, 4, 0)),
        (configuration(6, 9, 8), configuration(4, 4, 8)),
        (configuration(3, 9, 100), configuration(3, 4, 32)),
    ] {
        let ran = tuned(&plan, TuningMode::Apply(stated), 0, 0);
        assert_eq!(ran.tuning.configuration, Some(used));
    }
}

#[test]
fn configurations_that_a_cluster_cannot_have_are_refused_before_anything_runs() {
    let plan = plan(100);
    let of_stages = Configuration {
        replicas: vec![1, 1],
        link_bytes: vec![1 << 20],
        ..configuration(2, 2, 0)
    };
    for (refused, message) in [
        (
            of_stages,
            "the configuration has 2 stages and the plan has 1",
        ),
        (
            configuration(0, 4, 0),
            "workers=0 is refused; it must be 1 to 4",
        ),
    ] {
        let error = run(&plan, TuningMode::Apply(refused), 0, 0).err().unwrap();
        assert!(error.to_string().contains(message), "{error}");
    }
    // Threads of one machine send no messages.
    let tuning = Tuning::new(TuningMode::Apply(configuration(2, 2, 8)), false);
    let mut here: RunOptions<'_> = options();
    here.tuning = Some(&tuning);
    let error = plan.collect_with(&here).unwrap_err().to_string();
    assert!(
        error.contains("batch_tasks=8 is refused; it must be 0 to 0"),
        "{error}"
    );
}
