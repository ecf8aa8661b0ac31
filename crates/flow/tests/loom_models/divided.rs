//! Work that its owner and a helper compute in parts, under every interleaving of both threads with at most three
//! preemptions: each part is computed once, and the owner's join returns when all are, with nobody left that refers to
//! the work.

use std::sync::Arc;

use crate::fork_join::ForkJoin;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

type Counts = [AtomicUsize; 2];

/// How many parts it computed. Without order of its own: a part is seen if the join orders it.
fn compute(fork: &ForkJoin<Arc<Counts>>) -> usize {
    let mut parts = 0;
    while let Some((work, part)) = fork.take() {
        work[part].fetch_add(1, Ordering::Relaxed);
        drop(work);
        fork.complete();
        parts += 1;
    }
    parts
}

#[test]
fn each_part_is_computed_once_and_waited_for() {
    // Of executions: parts of the helper.
    let helped = Arc::new(std::sync::Mutex::new([0; 5]));
    let helps = Arc::clone(&helped);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let fork = Arc::new(ForkJoin::new(0));
        let helper = {
            let fork = Arc::clone(&fork);
            thread::spawn(move || compute(&fork))
        };
        for _ in 0..2 {
            let work: Arc<Counts> = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
            fork.open(Arc::clone(&work), work.len());
            compute(&fork);
            fork.join();
            for part in work.iter() {
                assert_eq!(part.load(Ordering::Relaxed), 1);
            }
            assert_eq!(Arc::strong_count(&work), 1);
        }
        let parts = helper.join().unwrap();
        helps.lock().unwrap()[parts] += 1;
    });
    let helped = helped.lock().unwrap();
    assert!(
        helped[0] > 0 && helped[1] > 0 && helped[2] > 0,
        "{helped:?}"
    );
}
