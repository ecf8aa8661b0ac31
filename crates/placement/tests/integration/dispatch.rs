//! Guarantees of policies, on small examples.

use isochrony_placement::{
    Change, Decision, DispatchOptions, Dispatcher, HostId, ObjectId, Policy, TaskId,
};

fn dispatcher(options: DispatchOptions, hosts: u32, slots: u32) -> Dispatcher {
    let mut dispatcher = Dispatcher::new(options).unwrap();
    for _ in 0..hosts {
        dispatcher.add_host(slots, 0).unwrap();
    }
    dispatcher
}

fn options(policy: Policy) -> DispatchOptions {
    DispatchOptions {
        max_wait: 100,
        ..DispatchOptions::for_policy(policy)
    }
}

fn hold(dispatcher: &mut Dispatcher, host: u32, number: u64, object: u32, bytes: u64) {
    let object = ObjectId(object);
    let change = Change::Added { object, bytes };
    dispatcher
        .apply_delta(HostId(host), number, &[change])
        .unwrap();
}

fn all(dispatcher: &mut Dispatcher, now: u64) -> Vec<(TaskId, u32)> {
    let next = || dispatcher.next(now);
    let pair = |decision: Decision| (decision.task, decision.host.0);
    std::iter::from_fn(next).map(pair).collect()
}

#[test]
fn first_available_is_round_robin_without_sources() {
    let mut d = dispatcher(options(Policy::FirstAvailable), 3, 2);
    hold(&mut d, 2, 0, 5, 10);
    let tasks: Vec<_> = (0..4).map(|_| d.admit(&[ObjectId(5)], 0)).collect();
    let decisions: Vec<_> = std::iter::from_fn(|| d.next(0)).collect();
    let hosts: Vec<_> = decisions.iter().map(|one| one.host.0).collect();
    assert_eq!(hosts, [0, 1, 2, 0]);
    for (decision, task) in decisions.iter().zip(tasks) {
        assert_eq!(decision.task, task);
        assert!(decision.inputs[0].sources.is_empty() && !decision.inputs[0].is_local);
    }
}

#[test]
fn first_cache_available_names_the_holders() {
    let mut d = dispatcher(options(Policy::FirstCacheAvailable), 3, 1);
    hold(&mut d, 2, 0, 5, 10);
    d.admit(&[ObjectId(5)], 0);
    let decision = d.next(0).unwrap();
    assert_eq!(decision.host, HostId(0));
    assert_eq!(decision.inputs[0].sources.as_slice(), [HostId(2)]);
    assert_eq!(decision.inputs[0].bytes, 10);
}

#[test]
fn max_cache_hit_waits_for_the_holder_but_not_for_ever() {
    let mut d = dispatcher(options(Policy::MaxCacheHit), 2, 1);
    hold(&mut d, 0, 0, 5, 10);
    let tasks: Vec<_> = (0..4).map(|_| d.admit(&[ObjectId(5)], 0)).collect();
    assert_eq!(all(&mut d, 0), [(tasks[0], 0)]);
    assert_eq!(d.next_deadline(), Some(100));
    assert_eq!(all(&mut d, 99), []);
    assert_eq!(all(&mut d, 100), [(tasks[1], 1)]);
    d.finish(tasks[0], 101).unwrap();
    assert_eq!(all(&mut d, 101), [(tasks[2], 0)]);
}

#[test]
fn a_task_passed_over_runs_after_max_wait_despite_hits() {
    for policy in [
        Policy::MaxCacheHit,
        Policy::MaxComputeUtil,
        Policy::GoodCacheCompute,
    ] {
        let mut d = dispatcher(options(policy), 1, 1);
        hold(&mut d, 0, 0, 5, 10);
        let mut hit = d.admit(&[ObjectId(5)], 0);
        assert_eq!(all(&mut d, 0), [(hit, 0)]);
        let passed_over = d.admit(&[ObjectId(6)], 0);
        for now in (10..).step_by(10) {
            let next = d.admit(&[ObjectId(5)], now);
            d.finish(hit, now).unwrap();
            let found = all(&mut d, now);
            if now >= 100 {
                assert_eq!(found, [(passed_over, 0)], "{policy:?}");
                break;
            }
            assert_eq!(found, [(next, 0)], "{policy:?} at {now}");
            hit = next;
        }
    }
}

#[test]
fn max_compute_util_never_idles_and_prefers_the_host_with_most_bytes() {
    let mut d = dispatcher(options(Policy::MaxComputeUtil), 3, 1);
    hold(&mut d, 0, 0, 1, 10);
    hold(&mut d, 2, 0, 1, 10);
    hold(&mut d, 2, 1, 2, 5);
    let tasks: Vec<_> = (0..3)
        .map(|_| d.admit(&[ObjectId(1), ObjectId(2)], 0))
        .collect();
    let found = all(&mut d, 0);
    assert_eq!(found, [(tasks[0], 2), (tasks[1], 0), (tasks[2], 1)]);
}

#[test]
fn good_cache_compute_caps_copies() {
    let options = DispatchOptions {
        max_replicas: 2,
        utilization: 1.0,
        ..options(Policy::GoodCacheCompute)
    };
    let mut d = dispatcher(options, 4, 1);
    hold(&mut d, 0, 0, 5, 10);
    let tasks: Vec<_> = (0..4).map(|_| d.admit(&[ObjectId(5)], 0)).collect();
    assert_eq!(all(&mut d, 0), [(tasks[0], 0), (tasks[1], 1)]);
    assert_eq!(d.index().replicas(ObjectId(5)), 2);
    let other = d.admit(&[ObjectId(6)], 0);
    assert_eq!(all(&mut d, 0), [(other, 2)]);
}

#[test]
fn good_cache_compute_prefers_hits_when_most_slots_are_busy() {
    let options = DispatchOptions {
        utilization: 0.5,
        ..options(Policy::GoodCacheCompute)
    };
    let mut d = dispatcher(options, 2, 2);
    hold(&mut d, 0, 0, 5, 10);
    let tasks: Vec<_> = (0..4).map(|_| d.admit(&[ObjectId(5)], 0)).collect();
    // Both slots of the holder are busy; the third task waits.
    assert_eq!(all(&mut d, 0), [(tasks[0], 0), (tasks[1], 0)]);
    d.finish(tasks[0], 1).unwrap();
    assert_eq!(all(&mut d, 1), [(tasks[2], 0)]);
}

#[test]
fn good_cache_compute_takes_the_second_best_host_once_slots_are_free() {
    let options = DispatchOptions {
        utilization: 0.5,
        max_replicas: 1,
        ..options(Policy::GoodCacheCompute)
    };
    let mut d = dispatcher(options, 4, 1);
    hold(&mut d, 0, 0, 1, 10);
    hold(&mut d, 2, 0, 2, 5);
    let first = d.admit(&[ObjectId(1)], 0);
    let other = d.admit(&[ObjectId(3)], 0);
    assert_eq!(all(&mut d, 0), [(first, 0), (other, 1)]);
    let both = d.admit(&[ObjectId(1), ObjectId(2)], 1);
    assert_eq!(all(&mut d, 1), []);
    // Below half, it goes to the free host with some of it only, since object 1 has its maximum of copies.
    d.finish(other, 2).unwrap();
    assert_eq!(all(&mut d, 2), [(both, 2)]);
}

#[test]
fn the_window_hides_younger_tasks() {
    let options = DispatchOptions {
        window: 2,
        ..options(Policy::MaxComputeUtil)
    };
    let mut d = dispatcher(options, 1, 1);
    hold(&mut d, 0, 0, 5, 10);
    let cold = [d.admit(&[ObjectId(1)], 0), d.admit(&[ObjectId(2)], 0)];
    let hit = d.admit(&[ObjectId(5)], 0);
    assert_eq!((d.counts().window, d.counts().backlog), (2, 1));
    assert_eq!(all(&mut d, 0), [(cold[0], 0)]);
    d.finish(cold[0], 1).unwrap();
    assert_eq!(all(&mut d, 1), [(hit, 0)]);
}

#[test]
fn an_object_being_fetched_counts_for_locality_but_is_no_source() {
    let mut d = dispatcher(options(Policy::MaxComputeUtil), 2, 2);
    let first = d.admit(&[ObjectId(5)], 0);
    assert_eq!(all(&mut d, 0), [(first, 0)]);
    d.admit(&[ObjectId(5)], 1);
    let second = d.next(1).unwrap();
    assert_eq!(second.host, HostId(0));
    d.admit(&[ObjectId(5)], 2);
    let third = d.next(2).unwrap();
    assert_eq!((third.host, third.inputs[0].sources.len()), (HostId(1), 0));
    for task in [first, second.task, third.task] {
        d.finish(task, 3).unwrap();
    }
    assert_eq!(d.index().replicas(ObjectId(5)), 0);
}

#[test]
fn refuses_unknown_hosts_and_tasks() {
    let mut d = dispatcher(options(Policy::MaxComputeUtil), 1, 1);
    assert_eq!(d.add_host(0, 0).unwrap_err().code(), "parameter");
    assert_eq!(
        d.set_draining(HostId(3), true).unwrap_err().code(),
        "unknown_host"
    );
    let task = d.admit(&[], 0);
    let refused = d.finish(task, 0).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "task 0.0 is waiting, not running; use the identifier that admit() returned, until the task ends"
    );
    assert_eq!(all(&mut d, 0), [(task, 0)]);
    assert_eq!(d.cancel(task, 0).unwrap_err().code(), "task_state");
    assert_eq!(d.remove_host(HostId(0), 1).unwrap(), [task]);
    assert_eq!(
        d.remove_host(HostId(0), 1).unwrap_err().code(),
        "unknown_host"
    );
    assert_eq!(d.counts().window, 1);
}

#[test]
fn slots_join_and_leave_a_host() {
    let mut d = dispatcher(options(Policy::MaxComputeUtil), 1, 1);
    let tasks: Vec<_> = (0..5).map(|_| d.admit(&[], 0)).collect();
    assert_eq!(all(&mut d, 0), [(tasks[0], 0)]);
    d.set_slots(HostId(0), 3).unwrap();
    assert_eq!(all(&mut d, 0), [(tasks[1], 0), (tasks[2], 0)]);
    d.set_slots(HostId(0), 2).unwrap();
    d.finish(tasks[0], 1).unwrap();
    assert_eq!(all(&mut d, 1), []);
    d.finish(tasks[1], 1).unwrap();
    assert_eq!(all(&mut d, 1), [(tasks[3], 0)]);
    assert_eq!(d.slots(HostId(0)).unwrap(), (2, 2));
    assert_eq!(d.set_slots(HostId(0), 0).unwrap_err().code(), "parameter");
    assert_eq!(
        d.set_slots(HostId(7), 1).unwrap_err().code(),
        "unknown_host"
    );
}

#[test]
fn a_draining_host_gets_no_task_and_its_copies_still_count() {
    for policy in [Policy::MaxCacheHit, Policy::GoodCacheCompute] {
        let options = DispatchOptions {
            max_replicas: 1,
            ..options(policy)
        };
        let mut d = dispatcher(options, 2, 1);
        hold(&mut d, 0, 0, 5, 10);
        d.set_draining(HostId(0), true).unwrap();
        let task = d.admit(&[ObjectId(5)], 0);
        assert_eq!(all(&mut d, 99), [], "{policy:?}");
        let decision = d.next(100).unwrap();
        assert_eq!((decision.task, decision.host), (task, HostId(1)));
        assert_eq!(decision.inputs[0].sources.as_slice(), [HostId(0)]);
    }
    let mut d = dispatcher(options(Policy::MaxComputeUtil), 2, 1);
    hold(&mut d, 0, 0, 5, 10);
    d.set_draining(HostId(0), true).unwrap();
    let task = d.admit(&[ObjectId(5)], 0);
    assert_eq!(all(&mut d, 0), [(task, 1)]);
}

#[test]
fn the_replica_cap_applies_to_hosts_without_bytes_of_a_task() {
    let options = DispatchOptions {
        max_replicas: 1,
        utilization: 1.0,
        ..options(Policy::GoodCacheCompute)
    };
    let mut d = dispatcher(options, 3, 1);
    hold(&mut d, 0, 0, 1, 10);
    hold(&mut d, 1, 0, 2, 5);
    let tasks: Vec<_> = (0..3)
        .map(|_| d.admit(&[ObjectId(1), ObjectId(2)], 0))
        .collect();
    // Host 1 copies the larger object. Host 2 has neither, and gets a task after a wait.
    assert_eq!(all(&mut d, 0), [(tasks[0], 0), (tasks[1], 1)]);
    assert_eq!(d.index().replicas(ObjectId(1)), 2);
    assert_eq!(all(&mut d, 100), [(tasks[2], 2)]);
}
