//! Random tasklets, workers and failures, compared with the declarations.

use isochrony_tasklets::{
    Assignment, DependencyGraph, OrderPolicy, SerialOrder, SignalExtent, TaskletError,
    TaskletScheduler, TaskletSpec, TaskletState,
};
use proptest::prelude::*;

use crate::{extent, signals, spec, stored, written};

fn any_specs() -> impl Strategy<Value = Vec<TaskletSpec>> {
    let one = (
        0usize..5,
        0usize..3,
        0i64..40,
        1i64..12,
        prop::collection::vec(any::<prop::sample::Index>(), 0..3),
        prop::option::of(any::<prop::sample::Index>()),
        prop::bool::weighted(0.3),
    );
    prop::collection::vec(one, 1..40).prop_flat_map(|made| {
        let mut specs: Vec<TaskletSpec> = Vec::new();
        for (at, (to, from, start, length, reads, after, in_turn)) in made.into_iter().enumerate() {
            let own = at as i64 * 12..at as i64 * 12 + length;
            let mut inputs = Vec::new();
            if from < 2 {
                inputs.push(stored(from, start..start + length));
            }
            for read in reads {
                if at > 0
                    && let Some(output) = specs[read.index(at)].outputs.first().cloned()
                {
                    inputs.push(written(output.signal, output.range.start..output.range.end));
                }
            }
            let outputs = if to >= 2 {
                vec![extent(to, own)]
            } else {
                vec![]
            };
            let mut spec = spec(&format!("t{at}"), inputs, outputs);
            spec.exclusive = in_turn;
            if at > 0
                && let Some(after) = after
            {
                spec.after.push(format!("t{}", after.index(at)));
            }
            specs.push(spec);
        }
        Just(specs).prop_shuffle()
    })
}

fn needs(specs: &[TaskletSpec], at: usize) -> Vec<usize> {
    (0..specs.len())
        .filter(|other| {
            let reads = specs[at].inputs.iter().any(|input| {
                specs[*other].outputs.iter().any(|output| {
                    let (a, b) = (&input.extent.range, &output.range);
                    input.extent.signal == output.signal && a.start < b.end && b.start < a.end
                })
            });
            reads || specs[at].after.contains(&specs[*other].name)
        })
        .collect()
}

fn scratch_bytes(spec: &TaskletSpec) -> u64 {
    let bytes = |output: &SignalExtent| {
        signals()[output.signal].scratch_sample_bytes.unwrap_or(0)
            * (output.range.end - output.range.start) as u64
    };
    spec.outputs.iter().map(bytes).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn every_tasklet_runs_once_after_its_dependencies_within_the_budget(
        specs in any_specs(), workers in 1usize..6, given in any::<bool>(), spare in 0u64..200,
        choices in prop::collection::vec(any::<prop::sample::Index>(), 1..80),
        fails in prop::collection::vec(0usize..12, 40),
        kept in prop::collection::vec(0usize..4, 40), failing in any::<bool>(),
    ) {
        let how = if given { OrderPolicy::Given } else { OrderPolicy::Disk };
        let graph = DependencyGraph::new(&signals(), &specs).unwrap();
        let all: Vec<Vec<usize>> = (0..specs.len()).map(|at| needs(&specs, at)).collect();
        prop_assert_eq!(&graph.dependencies, &all);
        // Kept: without scratch, and not dependent on others that run again.
        let mut keep = vec![false; specs.len()];
        for at in 0..specs.len() {
            keep[at] = kept[at] == 0 && scratch_bytes(&specs[at]) == 0 && all[at].is_empty();
        }
        // The minimum, and a little more.
        let mut budget = spare;
        if let Err(TaskletError::ScratchTooSmall { needed, .. }) = SerialOrder::new(&graph, &keep, how, 0) {
            budget += needed;
        }
        let serial = SerialOrder::new(&graph, &keep, how, budget).unwrap();
        let mut listed = serial.tasklets.clone();
        listed.sort_unstable();
        prop_assert_eq!(listed, (0..specs.len()).filter(|at| !keep[*at]).collect::<Vec<_>>());
        let mut scheduler = TaskletScheduler::new(graph, serial, budget);
        let (mut running, mut finished): (Vec<usize>, Vec<usize>) = (vec![], vec![]);
        let mut begun = vec![0; specs.len()];
        let (mut live, mut peak) = (0, 0);
        let mut choices = choices.iter().cycle();
        loop {
            while running.len() < workers {
                match scheduler.assign() {
                    Assignment::Run(at) => {
                        begun[at] += 1;
                        prop_assert!(all[at].iter().all(|need| keep[*need] || finished.contains(need)));
                        live += scratch_bytes(&specs[at]);
                        peak = u64::max(peak, live);
                        prop_assert!(live <= budget, "{live} of {budget}");
                        let in_turn = running.iter().any(|other| specs[*other].exclusive);
                        prop_assert!(!(in_turn && specs[at].exclusive), "two in turn at once");
                        running.push(at);
                    }
                    Assignment::Wait => {
                        prop_assert!(!running.is_empty(), "blocked");
                        // Others do not wait.
                        let turn = running.iter().any(|other| specs[*other].exclusive);
                        let waits = (0..specs.len()).find(|&at| {
                            let ready = all[at].iter().all(|need| keep[*need] || finished.contains(need));
                            let waiting = scheduler.state(at) == TaskletState::Waiting;
                            let free = scratch_bytes(&specs[at]) == 0 && !(turn && specs[at].exclusive);
                            waiting && ready && free
                        });
                        prop_assert_eq!(waits, None, "a free worker waits");
                        break;
                    }
                    Assignment::Finished => break,
                }
            }
            if running.is_empty() {
                break;
            }
            let at = running.swap_remove(choices.next().unwrap().index(running.len()));
            let released = if failing && fails[at] == 0 {
                scheduler.fail(at)
            } else {
                finished.push(at);
                scheduler.complete(at)
            };
            live -= released.iter().map(|at| scratch_bytes(&specs[*at])).sum::<u64>();
        }
        prop_assert_eq!((scheduler.assign(), live), (Assignment::Finished, 0));
        prop_assert_eq!(scheduler.peak_scratch(), peak);
        for at in 0..specs.len() {
            // All except failed ones and their dependents.
            let mut lost = failing && fails[at] == 0 && !keep[at];
            let (mut before, mut seen) = (all[at].clone(), vec![]);
            let mut cut_off = false;
            while let Some(need) = before.pop() {
                if !seen.contains(&need) {
                    seen.push(need);
                    cut_off |= failing && fails[need] == 0 && !keep[need];
                    before.extend(&all[need]);
                }
            }
            lost &= !cut_off;
            prop_assert_eq!(begun[at], usize::from(!keep[at] && !cut_off));
            match scheduler.state(at) {
                TaskletState::Kept => prop_assert!(keep[at]),
                TaskletState::Done => prop_assert!(!lost && !cut_off),
                TaskletState::Failed => prop_assert!(lost),
                TaskletState::NotRun(_) => prop_assert!(cut_off),
                other => prop_assert!(false, "left {other:?}"),
            }
        }
    }
}
