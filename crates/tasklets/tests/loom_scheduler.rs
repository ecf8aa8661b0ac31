//! `SharedScheduler` under every interleaving with at most two preemptions: each tasklet runs once, after its
//! dependencies, within the scratch budget, and alone if exclusive; all workers end.

/// Replaces `crate::sync` of `shared_scheduler`.
mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

/// Replaces `crate::scheduler`.
mod scheduler {
    pub(crate) use isochrony_tasklets::{Assignment, TaskletScheduler};
}

#[allow(dead_code)] // What only the run uses.
#[path = "../src/shared_scheduler.rs"]
mod shared_scheduler;

use isochrony_tasklets::{
    DependencyGraph, InputSpec, OrderPolicy, SerialOrder, SignalExtent, SignalSpec, TaskletSpec,
};
use loom::sync::Arc;
use loom::thread;
use scheduler::TaskletScheduler;
use shared_scheduler::SharedScheduler;

/// Two writers of scratch and a reader of both, and an independent tasklet.
fn specs(parts: i64) -> Vec<TaskletSpec> {
    let extent = |signal, start: i64| SignalExtent {
        signal,
        range: start..start + 1,
    };
    let mut specs = Vec::new();
    for part in 0..parts {
        for signal in [0, 1] {
            specs.push(TaskletSpec {
                name: format!("write {signal} {part}"),
                outputs: vec![extent(signal, part)],
                ..TaskletSpec::default()
            });
        }
        let read = |signal| InputSpec {
            extent: extent(signal, part),
            missing: std::iter::once(part..part + 1).collect(),
        };
        specs.push(TaskletSpec {
            name: format!("read {part}"),
            inputs: vec![read(0), read(1)],
            ..TaskletSpec::default()
        });
    }
    specs.push(TaskletSpec {
        name: "alone".into(),
        ..TaskletSpec::default()
    });
    specs
}

#[derive(Default)]
struct ExecutionTrace {
    begun: Vec<usize>,
    done: Vec<usize>,
    live: u64,
    /// An exclusive tasklet is running.
    turn: bool,
}

/// The same, with all but the readers exclusive.
fn in_turn(parts: i64) -> Vec<TaskletSpec> {
    let mut specs = specs(parts);
    for spec in &mut specs {
        spec.exclusive = spec.inputs.is_empty();
    }
    specs
}

fn check(workers: usize, specs: &[TaskletSpec], fails: Option<usize>, stops: bool) {
    let scratch = |name: &str| SignalSpec {
        name: name.into(),
        scratch_sample_bytes: Some(1),
    };
    let graph = DependencyGraph::new(&[scratch("one"), scratch("two")], specs).unwrap();
    let serial = SerialOrder::new(&graph, &vec![false; graph.len()], OrderPolicy::Disk, 2).unwrap();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let scheduler = TaskletScheduler::new(graph.clone(), serial.clone(), 2);
        let shared = Arc::new(SharedScheduler::new(scheduler, ExecutionTrace::default()));
        let work = |shared: Arc<SharedScheduler<ExecutionTrace>>, graph: DependencyGraph| {
            move || {
                let began = |state: &mut shared_scheduler::SharedState<ExecutionTrace>,
                             tasklet: usize| {
                    let seen = &mut state.extra;
                    assert!(!seen.begun.contains(&tasklet));
                    assert!(
                        graph.dependencies[tasklet]
                            .iter()
                            .all(|need| seen.done.contains(need))
                    );
                    seen.begun.push(tasklet);
                    seen.live += graph.scratch_bytes[tasklet];
                    assert!(seen.live <= 2);
                    assert!(!(seen.turn && graph.exclusive[tasklet]));
                    seen.turn |= graph.exclusive[tasklet];
                };
                while let Some(tasklet) = shared.wait_for_tasklet(began) {
                    if stops && tasklet == 1 {
                        shared.stop(|_| ());
                    }
                    let done = fails != Some(tasklet);
                    shared.finish(tasklet, done, |state, released| {
                        if done {
                            state.extra.done.push(tasklet);
                        }
                        state.extra.turn &= !graph.exclusive[tasklet];
                        let bytes = released.iter().map(|tasklet| graph.scratch_bytes[*tasklet]);
                        state.extra.live -= bytes.sum::<u64>();
                    });
                }
            }
        };
        let others: Vec<_> = (1..workers)
            .map(|_| thread::spawn(work(Arc::clone(&shared), graph.clone())))
            .collect();
        work(Arc::clone(&shared), graph.clone())();
        for other in others {
            other.join().expect("no worker panics");
        }
        let state = shared.lock();
        assert_eq!(state.scheduler.running(), 0);
        if !stops {
            assert_eq!(state.extra.live, 0);
            assert_eq!(state.scheduler.progress().0, graph.len());
            // A failed one takes its reader along.
            let lost = if fails.is_some() { 2 } else { 0 };
            assert_eq!(state.extra.done.len(), graph.len() - lost);
        }
    });
}

#[test]
fn two_workers_complete_all_and_end() {
    check(2, &specs(2), None, false);
}

#[test]
fn three_workers_complete_all_and_end() {
    check(3, &specs(1), None, false);
}

#[test]
fn a_failure_blocks_no_worker() {
    check(2, &specs(2), Some(0), false);
    check(3, &specs(1), Some(1), false);
}

#[test]
fn a_stop_blocks_no_worker() {
    check(2, &specs(2), None, true);
    check(3, &specs(1), None, true);
}

#[test]
fn exclusive_tasklets_block_no_worker() {
    check(2, &in_turn(2), None, false);
    check(3, &in_turn(1), None, false);
    check(2, &in_turn(2), Some(0), false);
    check(2, &in_turn(2), None, true);
}
