//! Threads that share cores.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use isochrony_runtime::{CoreLimit, CoreUser, WaitReason};

/// How many threads can hold a core at once, of `cores` that try: all of them, unless one was lost.
fn free(limit: &Arc<CoreLimit>, cores: usize) -> usize {
    let all = std::sync::Barrier::new(cores);
    thread::scope(|scope| {
        let holds = || CoreUser::new(limit).inside(|| all.wait());
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(holds)).collect();
        threads
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .count()
    })
}

#[test]
fn no_more_threads_compute_at_once_than_there_are_cores() {
    let limit = Arc::new(CoreLimit::new(2));
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                let user = CoreUser::new(&limit);
                user.inside(|| {
                    for _ in 0..50 {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        user.outside(WaitReason::Input, thread::yield_now);
                    }
                });
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 2);
    assert_eq!(free(&limit, 2), 2);
}

#[test]
fn a_pause_leaves_one_thread_computing() {
    let limit = Arc::new(CoreLimit::new(3));
    let computing = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let user = CoreUser::new(&limit);
                user.inside(|| {
                    for round in 0..200 {
                        computing.fetch_add(1, Ordering::SeqCst);
                        thread::yield_now();
                        computing.fetch_sub(1, Ordering::SeqCst);
                        user.checkpoint(|| ());
                        if round % 20 == 0 {
                            user.pause();
                            assert_eq!(computing.load(Ordering::SeqCst), 0);
                            user.resume();
                        }
                    }
                });
            });
        }
    });
    assert_eq!(free(&limit, 3), 3);
}

#[test]
fn a_panic_gives_the_core_back_and_times_add_up() {
    let limit = Arc::new(CoreLimit::new(1));
    let user = CoreUser::new(&limit);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        user.inside(|| user.outside(WaitReason::Output, || panic!("on purpose")))
    }));
    assert!(panicked.is_err());
    assert_eq!(free(&limit, 1), 1);
    let wait = Duration::from_millis(5);
    let begun = Instant::now();
    user.inside(|| user.outside(WaitReason::Output, || thread::sleep(wait)));
    let time = user.time();
    assert!(time.output >= wait && time.busy + time.core + time.output <= begun.elapsed());
}
