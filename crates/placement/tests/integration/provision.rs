//! Provisioning against its definition, and the cost bound of keeping a holder.

use std::collections::BTreeSet;

use isochrony_placement::{
    Change, DispatchOptions, Dispatcher, HostId, ObjectId, Policy, ProvisionOptions, Provisioner,
};
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;

fn options() -> ProvisionOptions {
    ProvisionOptions {
        min_hosts: 1,
        max_hosts: 10,
        slots_per_host: 2,
        drain_time: 10 * SECOND,
        idle_time: 5 * SECOND,
        hot_time: 100 * SECOND,
        host_cost_per_hour: 3.6,
        read_cost_per_gb: 0.01,
        ..ProvisionOptions::default()
    }
}

#[test]
fn grows_with_queued_work() {
    let mut provisioner = Provisioner::new(options()).unwrap();
    let mut dispatcher = Dispatcher::new(DispatchOptions::default()).unwrap();
    assert_eq!(provisioner.plan(&dispatcher, 0, 0).add, 1);
    for _ in 0..8 {
        dispatcher.admit(&[], 0);
    }
    assert_eq!(provisioner.plan(&dispatcher, 0, 0).add, 4);
    assert_eq!(provisioner.plan(&dispatcher, 3, 0).add, 1);
    // Two tasks of 5 s in 10 s: four slots, two hosts.
    provisioner.note_task(5 * SECOND);
    assert_eq!(provisioner.plan(&dispatcher, 0, 0).add, 2);
    // A slot each suffices.
    provisioner.note_task(100_000 * SECOND);
    assert_eq!(provisioner.plan(&dispatcher, 0, 0).add, 4);
    for _ in 0..1000 {
        dispatcher.admit(&[], 0);
    }
    assert_eq!(provisioner.plan(&dispatcher, 0, 0).add, 10);
}

#[test]
fn keeps_the_fewest_hosts_while_others_are_starting() {
    let options = ProvisionOptions {
        min_hosts: 2,
        ..options()
    };
    let provisioner = Provisioner::new(options).unwrap();
    let mut dispatcher = Dispatcher::new(DispatchOptions::default()).unwrap();
    let hosts: Vec<_> = (0..3).map(|_| dispatcher.add_host(2, 0).unwrap()).collect();
    let now = 100 * SECOND;
    let released = |dispatcher: &Dispatcher, starting| provisioner.plan(dispatcher, starting, now);
    assert_eq!(released(&dispatcher, 0).release, hosts[..1]);
    // Starting hosts may fail.
    assert_eq!(released(&dispatcher, 4).release, hosts[..1]);
    dispatcher.set_draining(hosts[0], true).unwrap();
    for starting in [1, 4] {
        let plan = released(&dispatcher, starting);
        assert_eq!((plan.add, plan.release), (0, vec![]));
    }
    dispatcher.remove_host(hosts[1], now).unwrap();
    assert_eq!(released(&dispatcher, 0).add, 1);
}

#[test]
fn refuses_options_outside_their_range() {
    let refused = |change: fn(&mut ProvisionOptions)| {
        let mut options = options();
        change(&mut options);
        Provisioner::new(options).unwrap_err().to_string()
    };
    let cases = [
        (
            refused(|o| o.min_hosts = 0),
            "min_hosts=0 must be at least 1",
        ),
        (refused(|o| o.slots_per_host = 0), "slots_per_host=0"),
        (refused(|o| o.max_step = 0), "max_step=0"),
        (
            refused(|o| o.max_hosts = 0),
            "max_hosts=0 must be at least min_hosts",
        ),
        (
            refused(|o| o.drain_time = 0),
            "drain_time=0 must be above 0",
        ),
        (
            refused(|o| o.host_cost_per_hour = -1.0),
            "host_cost_per_hour=-1 must be finite",
        ),
        (
            refused(|o| o.read_cost_per_gb = f64::NAN),
            "read_cost_per_gb=NaN",
        ),
    ];
    for (found, expected) in cases {
        assert!(found.starts_with(expected), "{found}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn releases_the_hosts_of_the_definition(
        copies in prop::collection::btree_set((0..6u32, 0..8u32), 0..30),
        sizes in prop::collection::vec(0..4u64, 8),
        read in prop::collection::vec(any::<bool>(), 8),
        draining in prop::collection::btree_set(0..6u32, 0..3),
        busy in 0..3usize,
        now in 200..400u64,
    ) {
        let now = now * SECOND;
        let options = options();
        let provisioner = Provisioner::new(options).unwrap();
        // First-available does not track tasks by object: hot means read.
        let options_of_dispatch = DispatchOptions::for_policy(Policy::FirstAvailable);
        let mut dispatcher = Dispatcher::new(options_of_dispatch).unwrap();
        let bytes = |object: u32| sizes[object as usize] * 50_000_000_000;
        for host in 0..6 {
            dispatcher.add_host(1, 0).unwrap();
            let added: Vec<_> = copies.iter().filter(|(of, _)| *of == host).map(|&(_, object)| {
                Change::Added { object: ObjectId(object), bytes: bytes(object) }
            }).collect();
            dispatcher.apply_delta(HostId(host), 0, &added).unwrap();
        }
        let mut idle_since = [0; 6];
        for object in 0..8 {
            if read[object as usize] {
                let at = (150 + u64::from(object)) * SECOND;
                dispatcher.admit(&[ObjectId(object)], at);
                let decision = dispatcher.next(at).unwrap();
                dispatcher.finish(decision.task, at).unwrap();
                idle_since[decision.host.0 as usize] = at;
            }
        }
        let mut idle: BTreeSet<u32> = (0..6).collect();
        for _ in 0..busy {
            dispatcher.admit(&[], now);
            idle.remove(&dispatcher.next(now).unwrap().host.0);
        }
        for &host in &draining {
            dispatcher.set_draining(HostId(host), true).unwrap();
        }
        let open = 6 - draining.len();
        let wanted = busy.div_ceil(2).max(1);
        let mut order: Vec<_> = idle.difference(&draining).copied().collect();
        order.sort_by_key(|&host| (idle_since[host as usize], host));
        let mut gone = draining.clone();
        let mut expected = Vec::new();
        for host in order {
            let kept = now - idle_since[host as usize];
            if expected.len() + wanted >= open || kept < options.idle_time {
                continue;
            }
            let mut sole = 0;
            for object in 0..8u32 {
                let at = (150 + u64::from(object)) * SECOND;
                let hot = read[object as usize] && now - at <= options.hot_time;
                let alone = !copies.iter().any(|&(other, of)| {
                    of == object && other != host && !gone.contains(&other)
                });
                if hot && alone && copies.contains(&(host, object)) {
                    sole += bytes(object);
                }
            }
            // An idle second costs 0.001, a gigabyte 0.01.
            if kept as f64 / 3.6e12 * 3.6 >= sole as f64 / 1e9 * 0.01 {
                gone.insert(host);
                expected.push(HostId(host));
            }
        }
        prop_assert_eq!(provisioner.plan(&dispatcher, 0, now).release, expected);
    }

    #[test]
    fn keeping_a_holder_costs_at_most_twice_the_optimum(
        gigabytes in 1..1000u64,
        next_use in 1..2000u64,
    ) {
        let options = options();
        let provisioner = Provisioner::new(options).unwrap();
        let mut dispatcher = Dispatcher::new(DispatchOptions::default()).unwrap();
        for _ in 0..2 {
            dispatcher.add_host(1, 0).unwrap();
        }
        let object = ObjectId(0);
        let added = Change::Added { object, bytes: gigabytes * 1_000_000_000 };
        dispatcher.apply_delta(HostId(0), 0, &[added]).unwrap();
        dispatcher.admit(&[object], 1);
        let decision = dispatcher.next(1).unwrap();
        prop_assert_eq!(decision.host, HostId(0));
        dispatcher.finish(decision.task, 1).unwrap();
        dispatcher.admit(&[], 1);
        prop_assert_eq!(dispatcher.next(1).unwrap().host, HostId(1));
        let read = gigabytes as f64 * 0.01;
        let mut paid = 0.0;
        let mut released = false;
        for second in 1..=next_use {
            if second > options.hot_time / SECOND {
                break;
            }
            if provisioner.plan(&dispatcher, 0, second * SECOND + 1).release.contains(&HostId(0)) {
                paid += read;
                released = true;
                break;
            }
            paid += 0.001;
        }
        let floor = options.idle_time as f64 / 3.6e12 * 3.6;
        let offline = (next_use as f64 * 0.001).min(read);
        prop_assert!(paid <= 2.0 * offline + floor + 0.001, "{paid} {offline} {released}");
    }
}
