//! Model check of links and of the cores that stages share, under every interleaving of a few threads with at most two
//! preemptions: events come once and in order, a link never holds more than it may, no more threads compute than
//! there are cores, and all threads end. loom reports deadlocks itself.

/// `super::sync` of both files.
mod sync {
    pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

#[allow(dead_code)]
#[path = "../src/scheduler/stages/link.rs"]
mod link;

#[allow(dead_code, unreachable_pub)]
#[path = "../../runtime/src/core_limit.rs"]
mod core_limit;

use std::sync::Arc;

use loom::sync::Notify;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use core_limit::{CoreLimit, CoreUser, WaitReason};
use link::{Batch, Link, Received, Refused};

fn model(check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(check);
}

/// An event of one byte.
fn batch(event: u32) -> Batch<u32> {
    Batch {
        events: vec![event],
        bytes: 1,
        delivered: 0,
    }
}

/// Sends as a stage does; false once the link is closed.
fn send(link: &Link<u32>, core: &CoreUser, event: u32) -> bool {
    let mut next = batch(event);
    loop {
        next = match link.send(next) {
            Ok(()) => return true,
            Err(Refused::Closed) => return false,
            Err(Refused::Full(next)) => next,
        };
        core.outside(WaitReason::Output, || link.wait_for_room(1));
    }
}

/// A link, and what its reader sleeps on.
fn linked(capacity: u64) -> (Arc<Link<u32>>, Arc<Notify>) {
    let (link, arrived) = (Arc::new(Link::new(capacity)), Arc::new(Notify::new()));
    let waker = Arc::clone(&arrived);
    link.set_waker(Arc::new(move || waker.notify()));
    (link, arrived)
}

/// All that comes, each taken with a core.
fn receive(link: &Link<u32>, arrived: &Notify, core: &CoreUser, mut took: impl FnMut(u32)) {
    loop {
        match link.receive() {
            Received::Batch(batch) => batch.events.into_iter().for_each(&mut took),
            Received::Nothing => core.outside(WaitReason::Input, || arrived.wait()),
            Received::End => return,
        }
    }
}

#[test]
fn events_come_in_order_through_two_links_on_one_core() {
    model(|| {
        let limit = Arc::new(CoreLimit::new(1));
        let (first, first_arrived) = linked(1);
        let (second, second_arrived) = linked(1);
        let producer = {
            let (link, core) = (Arc::clone(&first), CoreUser::new(&limit));
            thread::spawn(move || {
                core.inside(|| {
                    for event in 0..2 {
                        assert!(send(&link, &core, event));
                        assert!(link.bytes() <= 1);
                    }
                    link.end();
                });
            })
        };
        let middle = {
            let (from, to, core) = (
                Arc::clone(&first),
                Arc::clone(&second),
                CoreUser::new(&limit),
            );
            thread::spawn(move || {
                core.inside(|| {
                    receive(&from, &first_arrived, &core, |event| {
                        assert!(send(&to, &core, event + 10));
                    });
                    to.end();
                });
            })
        };
        let mut got = Vec::new();
        let core = CoreUser::new(&limit);
        core.inside(|| receive(&second, &second_arrived, &core, |event| got.push(event)));
        assert_eq!(got, [10, 11]);
        producer.join().unwrap();
        middle.join().unwrap();
    });
}

#[test]
fn three_events_come_in_order_through_a_link_for_one() {
    for cores in [1, 2] {
        model(move || {
            let limit = Arc::new(CoreLimit::new(cores));
            let (link, arrived) = linked(1);
            let producer = {
                let (link, core) = (Arc::clone(&link), CoreUser::new(&limit));
                thread::spawn(move || {
                    core.inside(|| {
                        assert!((0..3).all(|event| send(&link, &core, event)));
                        link.end();
                    });
                })
            };
            let (mut got, core) = (Vec::new(), CoreUser::new(&limit));
            core.inside(|| receive(&link, &arrived, &core, |event| got.push(event)));
            assert_eq!(got, [0, 1, 2]);
            producer.join().unwrap();
        });
    }
}

#[test]
fn a_reader_that_closes_the_link_sets_the_writer_free() {
    model(|| {
        let limit = Arc::new(CoreLimit::new(1));
        let (link, arrived) = linked(1);
        let producer = {
            let (link, core) = (Arc::clone(&link), CoreUser::new(&limit));
            thread::spawn(move || {
                let mut sent = 0;
                core.inside(|| {
                    while send(&link, &core, sent) {
                        sent += 1
                    }
                });
                sent
            })
        };
        let core = CoreUser::new(&limit);
        core.inside(|| {
            loop {
                match link.receive() {
                    Received::Batch(batch) => break assert_eq!(batch.events, [0]),
                    _ => core.outside(WaitReason::Input, || arrived.wait()),
                }
            }
            link.close();
        });
        assert!(producer.join().unwrap() >= 1);
    });
}

#[test]
fn one_thread_at_a_time_has_all_while_the_others_are_paused() {
    model(|| {
        let limit = Arc::new(CoreLimit::new(2));
        let computing = Arc::new(AtomicUsize::new(0));
        let work = |pauses: bool| {
            let (core, computing) = (CoreUser::new(&limit), Arc::clone(&computing));
            move || {
                core.inside(|| {
                    if pauses {
                        core.pause();
                        assert_eq!(computing.load(Ordering::SeqCst), 0);
                        core.resume();
                    } else {
                        computing.fetch_add(1, Ordering::SeqCst);
                        computing.fetch_sub(1, Ordering::SeqCst);
                        core.checkpoint(|| ());
                    }
                });
            }
        };
        let others = [thread::spawn(work(true)), thread::spawn(work(false))];
        work(true)();
        for other in others {
            other.join().unwrap();
        }
    });
}
