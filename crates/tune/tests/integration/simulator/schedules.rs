//! The three schedules compute the same.

use isochrony_tune::simulator::{
    SimulatedMachine, SimulatedPlan, SimulatedRun, SimulatedSource, StageSchedule, random_plan,
};

use super::{ITEM, assert_close, constant, finite, rate, run, stage};

const STEALING: StageSchedule = StageSchedule::CacheWeightedStealing { threshold: 1 };

const ALL: [StageSchedule; 3] = [
    StageSchedule::NearestToEnd,
    StageSchedule::ThreadPerStage,
    STEALING,
];

#[test]
fn every_schedule_computes_every_item() {
    for seed in 0..30 {
        let mut plan = random_plan(seed, 4);
        plan.stages[0].source = Some(SimulatedSource::Finite { items: 300 });
        let computed = ALL.map(|schedule| {
            let machine = SimulatedMachine {
                schedule,
                ..SimulatedMachine::typical(4)
            };
            let mut start = plan.configuration(4, 1 << 20);
            let replicas = start.replicas.iter_mut().zip(&plan.stages);
            replicas.for_each(|(replicas, stage)| *replicas = stage.max_replicas);
            let mut run = SimulatedRun::new(plan.clone(), machine, start, seed).unwrap();
            assert!(run.run_to_end().is_finite(), "seed {seed}, {schedule:?}");
            run.totals().computed
        });
        assert!(computed.iter().all(|one| *one == computed[0]));
    }
}

#[test]
fn a_thread_per_stage_takes_turns_on_one_core() {
    let plan = SimulatedPlan::chain(
        vec![finite(2000, 0.001), stage("sink", constant(0.001))],
        ITEM,
    );
    let machine = |cores| SimulatedMachine {
        schedule: StageSchedule::ThreadPerStage,
        time_slice_s: 0.003,
        ..SimulatedMachine::ideal(cores)
    };
    let start = plan.configuration(1, 64 * ITEM);
    assert_close(run(&plan, &machine(1), &start).run_to_end(), 4.0, 0.01);
    assert_close(run(&plan, &machine(2), &start).run_to_end(), 2.0, 0.01);
}

#[test]
fn a_stage_that_no_thread_steals_holds_its_pipeline_up() {
    // Two threads own two stages each; the first two are heavy.
    let heavy = SimulatedPlan::chain(
        vec![
            super::endless(0.001),
            stage("heavy", constant(0.001)),
            stage("light", constant(0.0009)),
            stage("light", constant(0.0009)),
        ],
        ITEM,
    );
    let found = |threshold| {
        let machine = SimulatedMachine {
            schedule: StageSchedule::CacheWeightedStealing { threshold },
            ..SimulatedMachine::ideal(3)
        };
        rate(
            &heavy,
            &machine,
            &heavy.configuration(3, 16 * ITEM),
            1.0,
            10.0,
        )
    };
    let (stealing, never) = (found(0), found(100));
    assert!(never <= 1.0 / 0.0018 + 1.0, "{never}");
    assert!(stealing > 1.1 * never, "{stealing}, {never}");
}

#[test]
fn only_the_callers_thread_computes_the_last_stage() {
    // Only the caller's thread can: a second thread helps with the first stage only.
    let stealing = StageSchedule::CacheWeightedStealing { threshold: 0 };
    for schedule in [StageSchedule::NearestToEnd, stealing] {
        let plan = SimulatedPlan::chain(
            vec![finite(1000, 0.0001), stage("sink", constant(0.002))],
            ITEM,
        );
        let machine = SimulatedMachine {
            schedule,
            ..SimulatedMachine::ideal(8)
        };
        let makespan = run(&plan, &machine, &plan.configuration(8, 64 * ITEM)).run_to_end();
        assert_close(makespan, 2.0, 0.01);
    }
}
