//! The desk under every interleaving of a few workers with at most two preemptions: each tasklet is run once, after what it
//! needs, within the budget, beside no other in turn if it is, and all go home. loom reports a deadlock itself.

/// What `desk` finds as `crate::sync`.
mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

/// What it finds as `crate::roster`.
mod roster {
    pub(crate) use isochrony_tasklets::{Next, Roster};
}

#[allow(dead_code)] // What only the run uses.
#[path = "../src/desk.rs"]
mod desk;

use desk::Desk;
use isochrony_tasklets::{Extent, Graph, Input, Order, Serial, SignalSpec, Spec};
use loom::sync::Arc;
use loom::thread;
use roster::Roster;

/// Two writers of scratch and who reads both, once or twice, and one that needs nobody.
fn specs(parts: i64) -> Vec<Spec> {
    let extent = |signal, start: i64| Extent {
        signal,
        range: start..start + 1,
    };
    let mut specs = Vec::new();
    for part in 0..parts {
        for signal in [0, 1] {
            specs.push(Spec {
                name: format!("write {signal} {part}"),
                outputs: vec![extent(signal, part)],
                ..Spec::default()
            });
        }
        let read = |signal| Input {
            extent: extent(signal, part),
            absent: std::iter::once(part..part + 1).collect(),
        };
        specs.push(Spec {
            name: format!("read {part}"),
            inputs: vec![read(0), read(1)],
            ..Spec::default()
        });
    }
    specs.push(Spec {
        name: "alone".into(),
        ..Spec::default()
    });
    specs
}

#[derive(Default)]
struct Seen {
    begun: Vec<usize>,
    done: Vec<usize>,
    live: u64,
    /// One of those that run in turn is running.
    turn: bool,
}

/// The same, of which all but the readers run in turn.
fn in_turn(parts: i64) -> Vec<Spec> {
    let mut specs = specs(parts);
    for spec in &mut specs {
        spec.in_turn = spec.inputs.is_empty();
    }
    specs
}

fn check(workers: usize, specs: &[Spec], fails: Option<usize>, stops: bool) {
    let scratch = |name: &str| SignalSpec {
        name: name.into(),
        scratch: Some(1),
    };
    let graph = Graph::new(&[scratch("one"), scratch("two")], specs).unwrap();
    let serial = Serial::new(&graph, &vec![false; graph.len()], Order::Disk, 2).unwrap();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let roster = Roster::new(graph.clone(), serial.clone(), 2);
        let desk = Arc::new(Desk::new(roster, Seen::default()));
        let work = |desk: Arc<Desk<Seen>>, graph: Graph| {
            move || {
                let began = |behind: &mut desk::Behind<Seen>, tasklet: usize| {
                    let seen = &mut behind.more;
                    assert!(!seen.begun.contains(&tasklet));
                    assert!(
                        graph.needs[tasklet]
                            .iter()
                            .all(|need| seen.done.contains(need))
                    );
                    seen.begun.push(tasklet);
                    seen.live += graph.scratch[tasklet];
                    assert!(seen.live <= 2);
                    assert!(!(seen.turn && graph.in_turn[tasklet]));
                    seen.turn |= graph.in_turn[tasklet];
                };
                while let Some(tasklet) = desk.take(began) {
                    if stops && tasklet == 1 {
                        desk.stop(|_| ());
                    }
                    let done = fails != Some(tasklet);
                    desk.end(tasklet, done, |behind, released| {
                        if done {
                            behind.more.done.push(tasklet);
                        }
                        behind.more.turn &= !graph.in_turn[tasklet];
                        let bytes = released.iter().map(|tasklet| graph.scratch[*tasklet]);
                        behind.more.live -= bytes.sum::<u64>();
                    });
                }
            }
        };
        let others: Vec<_> = (1..workers)
            .map(|_| thread::spawn(work(Arc::clone(&desk), graph.clone())))
            .collect();
        work(Arc::clone(&desk), graph.clone())();
        for other in others {
            other.join().expect("no worker panics");
        }
        let behind = desk.lock();
        assert_eq!(behind.roster.running(), 0);
        if !stops {
            assert_eq!(behind.more.live, 0);
            assert_eq!(behind.roster.progress().0, graph.len());
            // One that fails takes its reader along.
            let lost = if fails.is_some() { 2 } else { 0 };
            assert_eq!(behind.more.done.len(), graph.len() - lost);
        }
    });
}

#[test]
fn two_workers_do_all_and_go_home() {
    check(2, &specs(2), None, false);
}

#[test]
fn three_workers_do_all_and_go_home() {
    check(3, &specs(1), None, false);
}

#[test]
fn a_failure_leaves_nobody_waiting() {
    check(2, &specs(2), Some(0), false);
    check(3, &specs(1), Some(1), false);
}

#[test]
fn a_stop_leaves_nobody_waiting() {
    check(2, &specs(2), None, true);
    check(3, &specs(1), None, true);
}

#[test]
fn those_in_turn_leave_nobody_waiting() {
    check(2, &in_turn(2), None, false);
    check(3, &in_turn(1), None, false);
    check(2, &in_turn(2), Some(0), false);
    check(2, &in_turn(2), None, true);
}
