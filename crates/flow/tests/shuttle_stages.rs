//! Random graphs of stages under random schedules: fan-ins, replicated stages, small links, early ends, failures,
//! pauses, changes, one to four threads. Every item arrives once and in the order of one thread, and all threads end.
//! shuttle reports deadlocks, and a million steps without an end; no wait times out (but see `sync`).
//!
//! `ISOCHRONY_SHUTTLE_GRAPHS` sets the number of graphs, `ISOCHRONY_SHUTTLE_SEED` the first. Rerunning the graph whose
//! number a failure prints repeats its schedules.

/// `super::sync` of the files below.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
    pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[allow(dead_code)]
#[path = "../src/scheduler/stages/block_scheduler.rs"]
mod block_scheduler;

#[allow(dead_code)]
#[path = "../src/scheduler/stages/link.rs"]
mod link;

#[allow(dead_code)]
#[path = "../src/scheduler/stages/stage_queue.rs"]
mod stage_queue;

#[path = "common/stage_model.rs"]
#[allow(dead_code)]
mod stage_model;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};

use stage_model::{Change, GraphSpec, Input, Model, Replicas, StageSpec};

const GRAPHS: u64 = 8000;
/// Per graph, random and by PCT with so many priority changes.
const SCHEDULES: usize = 6;
const PRIORITY_CHANGES: usize = 3;

/// SplitMix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.next().is_multiple_of(times)
    }
}

fn random_stage(rng: &mut Rng, inputs: &[usize]) -> StageSpec {
    let inputs = inputs.iter().map(|&from| Input {
        from,
        capacity: rng.within(1, 4),
    });
    StageSpec {
        inputs: inputs.collect(),
        items: rng.within(0, 6) as u32,
        step: rng.within(0, 3) as u32,
        burst: rng.within(1, 4) as usize,
        batch: rng.within(1, 3) as usize,
        results: [0, 0, 0, 1, 2, 3, 7][rng.within(0, 6) as usize],
        ..StageSpec::default()
    }
}

fn random_graph(seed: u64) -> GraphSpec {
    let mut rng = Rng(seed);
    let count = rng.within(2, 6) as usize;
    let mut graph = GraphSpec {
        stages: Vec::new(),
        threads: rng.within(1, 4) as usize,
        caller_source: rng.once_in(4),
        changes: Vec::new(),
    };
    let mut unread: Vec<usize> = Vec::new();
    for number in 0..count {
        let is_last = number + 1 == count;
        let mut inputs = Vec::new();
        if is_last {
            inputs.clone_from(&unread);
        } else if number > 0 && !rng.once_in(3) {
            for _ in 0..rng.within(1, 3) {
                inputs.push(rng.within(0, number as u64 - 1) as usize);
            }
        }
        inputs.sort_unstable();
        inputs.dedup();
        graph.stages.push(random_stage(&mut rng, &inputs));
        // As in a plan; see `StagePlan::could_wait_in_a_cycle`.
        while graph.waits_in_a_cycle() && !is_last {
            graph.stages[number].inputs.pop();
        }
        let own = &mut graph.stages[number];
        unread.retain(|&one| own.inputs.iter().all(|input| input.from != one));
        unread.push(number);
        if own.inputs.len() == 1 && !is_last && rng.once_in(2) {
            own.replicas = Some(Replicas {
                count: rng.within(2, 3) as usize,
                block: rng.within(1, 3) as usize,
                cell: rng.once_in(3).then(|| rng.within(2, 4) as usize),
            });
        }
        if rng.once_in(6) {
            own.pauses_at = Some(rng.within(0, 4));
        }
        let counts = graph.may_count(number);
        let own = &mut graph.stages[number];
        match rng.within(0, 11) {
            0 if counts => own.fails_at = Some(rng.within(0, 6)),
            1 if counts && own.replicas.is_none() => own.limit = Some(rng.within(0, 6)),
            _ => {}
        }
    }
    let links: usize = graph.stages.iter().map(|stage| stage.inputs.len()).sum();
    for _ in 0..rng.within(0, 3) {
        let change = match rng.once_in(2) {
            true => Change::Capacity {
                link: rng.within(0, links as u64 - 1) as usize,
                bytes: rng.within(1, 4),
            },
            false => {
                let stages = graph.stages.iter().enumerate();
                let replicated = stages.filter(|(_, stage)| stage.replicas.is_some());
                let replicated: Vec<usize> = replicated.map(|(number, _)| number).collect();
                if replicated.is_empty() {
                    continue;
                }
                Change::Replicas {
                    stage: replicated[rng.next() as usize % replicated.len()],
                    count: rng.within(1, 3) as usize,
                }
            }
        };
        graph.changes.push((rng.within(1, 8), change));
    }
    graph.changes.sort_by_key(|&(at, _)| at);
    graph
}

fn check(seed: u64, graph: &GraphSpec) {
    let run = {
        let graph = graph.clone();
        move || assert_eq!(Model::new(graph.clone()).run(), graph.expected())
    };
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    let random = RandomScheduler::new_from_seed(seed, SCHEDULES);
    Runner::new(random, config.clone()).run(run.clone());
    // PCT needs more than one thread.
    if graph.threads > 1 {
        let pct = PctScheduler::new_from_seed(seed, PRIORITY_CHANGES, SCHEDULES);
        Runner::new(pct, config).run(run);
    }
}

fn number_in(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    let number = value.parse();
    Some(number.unwrap_or_else(|_| panic!("{variable}={value} is no number; give one such as 400")))
}

#[test]
fn random_graphs_end_and_give_what_one_thread_gives() {
    let first = number_in("ISOCHRONY_SHUTTLE_SEED").unwrap_or(0);
    let graphs = number_in("ISOCHRONY_SHUTTLE_GRAPHS").unwrap_or(GRAPHS);
    for seed in first..first + graphs {
        let graph = random_graph(seed);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| check(seed, &graph))) {
            eprintln!("{graph:#?}");
            eprintln!(
                "graph {seed} failed; try it alone with ISOCHRONY_SHUTTLE_SEED={seed} ISOCHRONY_SHUTTLE_GRAPHS=1"
            );
            resume_unwind(panic);
        }
    }
}
