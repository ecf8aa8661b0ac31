//! Errors of invalid plans and machines.

use isochrony_tune::simulator::{
    Competitor, CostChange, SimulatedLink, SimulatedMachine, SimulatedPlan, SimulatedSource,
    TimeDistribution,
};

use super::{ITEM, constant, endless, stage};

fn plan() -> SimulatedPlan {
    SimulatedPlan::chain(
        vec![
            endless(0.001),
            stage("filter", constant(0.001)).with_replicas(2),
            stage("sink", constant(0.001)),
        ],
        ITEM,
    )
}

type Mistake<T> = (fn(&mut T), &'static str);

#[test]
fn wrong_plans_are_refused() {
    plan().check().unwrap();
    let cases: &[Mistake<SimulatedPlan>] = &[
        (
            |plan| plan.stages[1].service = constant(-1.0),
            "stages[1].service.mean_s=-1 is refused; it must be finite and at least 0",
        ),
        (
            |plan| {
                plan.stages[1].service = TimeDistribution::Lognormal {
                    mean_s: 1.0,
                    cv: 11.0,
                };
            },
            "stages[1].service.cv=11 is refused; it must be 0 to 10",
        ),
        (
            |plan| {
                plan.stages[1].service = TimeDistribution::Measured {
                    times_s: Vec::new(),
                };
            },
            "stages[1].service.times_s=an empty list is refused; it must be at least one time",
        ),
        (
            |plan| {
                plan.stages[1].service = TimeDistribution::Measured {
                    times_s: vec![1.0, f64::NAN],
                };
            },
            "stages[1].service.times_s[1]=NaN is refused; it must be finite and at least 0",
        ),
        (
            |plan| {
                plan.stages[0].source = Some(SimulatedSource::Arrivals {
                    interval: constant(0.0),
                    items: None,
                });
            },
            "stages[0].source.interval=0 is refused; it must be above 0",
        ),
        (
            |plan| plan.stages[1].burst_items = 0,
            "stages[1].burst_items=0 is refused; it must be at least 1",
        ),
        (
            |plan| plan.stages[1].memory_bytes = f64::INFINITY,
            "stages[1].memory_bytes=inf is refused; it must be finite and at least 0",
        ),
        (
            |plan| plan.stages[0].max_replicas = 2,
            "stages[0].max_replicas=2 is refused; it must be 1 for the last stage, for one with a source, and for one \
             without exactly one link in",
        ),
        (
            |plan| plan.links[1].to = 3,
            "links[1].to=3 is not a server: the graph has 3 servers, numbered from 0; add the server or change links[1].to",
        ),
        (
            |plan| plan.links[1].to = 1,
            "links[1].to=1 is refused; it must be above from=1: number stages in the order of the flow",
        ),
        (
            |plan| plan.links[0].gain = 0.0,
            "links[0].gain=0 is refused; it must be finite and above 0",
        ),
        (
            |plan| plan.links[0].item_bytes = 0,
            "links[0].item_bytes=0 is refused; it must be at least 1",
        ),
        (
            |plan| {
                plan.changes = vec![CostChange {
                    stage: 1,
                    at_s: -1.0,
                    factor: 1.0,
                }];
            },
            "changes[0].at_s=-1 is refused; it must be finite and at least 0, the time of the change before it",
        ),
        (
            |plan| {
                plan.changes = vec![CostChange {
                    stage: 1,
                    at_s: 1.0,
                    factor: 0.0,
                }];
            },
            "changes[0].factor=0 is refused; it must be finite and above 0",
        ),
        (
            |plan| plan.stages[0].source = None,
            "the graph has no sources, so nothing flows; add at least one source",
        ),
        (
            |plan| {
                plan.stages[1].max_replicas = 1;
                plan.links[0].to = 2;
            },
            "stages[1]=filter is refused; it must be a stage with a source or a link in: give it one, or remove it",
        ),
        (
            |plan| plan.links[1].from = 0,
            "stages[1]=filter is refused; it must be a stage with a link out, since it is not the last: add one, for \
             example to the last stage",
        ),
        (
            |plan| {
                for stage in &mut plan.stages {
                    stage.service = constant(0.0);
                }
            },
            "stages[0].source=endless is refused; it must be finite or arrivals where no stage that its items reach \
             takes time",
        ),
    ];
    for (mistake, message) in cases {
        let mut plan = plan();
        mistake(&mut plan);
        assert_eq!(plan.check().unwrap_err().to_string(), *message);
    }
}

#[test]
fn too_many_sources_are_refused() {
    let mut plan = plan();
    let sink = plan.stages.len() + 8;
    plan.stages.splice(0..0, (0..8).map(|_| endless(0.001)));
    plan.links = (0..sink)
        .filter(|&from| from + 1 < sink)
        .map(|from| SimulatedLink {
            from,
            to: if from < 8 { sink - 1 } else { from + 1 },
            gain: 1.0,
            item_bytes: ITEM,
        })
        .collect();
    assert_eq!(
        plan.check().unwrap_err().to_string(),
        "stages with a source=9 is refused; it must be 1 to 8"
    );
}

#[test]
fn stages_that_could_wait_for_each_other_are_refused() {
    // Stages 2 and 3 each take from both sources in step: one may wait for the source that the other holds up.
    let link = |from, to| SimulatedLink {
        from,
        to,
        gain: 1.0,
        item_bytes: ITEM,
    };
    let mut plan = SimulatedPlan {
        stages: vec![
            endless(0.001),
            endless(0.001),
            stage("join", constant(0.001)),
            stage("join", constant(0.001)),
            stage("sink", constant(0.001)),
        ],
        links: vec![
            link(0, 2),
            link(1, 2),
            link(0, 3),
            link(1, 3),
            link(2, 4),
            link(3, 4),
        ],
        changes: Vec::new(),
    };
    assert_eq!(
        plan.check().unwrap_err().to_string(),
        "stages[3]=a second place where items of the source in stage 0 meet others is refused; it must be the only one \
         for these sources, or stages could wait for each other without end: let the sources meet in one stage"
    );
    plan.links.remove(3);
    plan.check().unwrap();
}

#[test]
fn wrong_machines_are_refused() {
    let competitor = |threads, start_s, end_s| {
        vec![Competitor {
            threads,
            start_s,
            end_s,
        }]
    };
    let cases = [
        (
            SimulatedMachine::ideal(0),
            "cores=0 is refused; it must be 1 to 4096",
        ),
        (
            SimulatedMachine {
                nodes: 3,
                ..SimulatedMachine::ideal(2)
            },
            "nodes=3 is refused; it must be 1 to cores=2",
        ),
        (
            SimulatedMachine {
                wake_s: -1.0,
                ..SimulatedMachine::ideal(2)
            },
            "wake_s=-1 is refused; it must be finite and at least 0",
        ),
        (
            SimulatedMachine {
                competitors: competitor(1, f64::NAN, 1.0),
                ..SimulatedMachine::ideal(2)
            },
            "competitors[0].start_s=NaN is refused; it must be finite and at least 0",
        ),
        (
            SimulatedMachine {
                competitors: competitor(1, 2.0, 1.0),
                ..SimulatedMachine::ideal(2)
            },
            "competitors[0].end_s=1 is refused; it must be above start_s=2",
        ),
        (
            SimulatedMachine {
                competitors: competitor(5000, 0.0, 1.0),
                ..SimulatedMachine::ideal(2)
            },
            "competitors[0].threads=5000 is refused; it must be at most 4096",
        ),
    ];
    for (machine, message) in cases {
        assert_eq!(machine.check().unwrap_err().to_string(), message);
    }
}
