//! The simulator against manual calculations and the paper.

use isochrony_placement::simulation::{ClusterModel, SimulationReport, Workload, simulate};
use isochrony_placement::{DispatchOptions, EvictionPolicy, ObjectId, Policy, ProvisionOptions};

fn run(cluster: &ClusterModel, policy: Policy, workload: &Workload) -> SimulationReport {
    simulate(cluster, DispatchOptions::for_policy(policy), workload).unwrap()
}

/// Only what a test sets takes time.
fn free(hosts: usize, slots: u32) -> ClusterModel {
    ClusterModel {
        hosts,
        slots,
        processors: slots,
        shared_cores: None,
        cache_bytes: 1 << 40,
        disk_rate: 1e18,
        link_rate: 1e18,
        max_transfers: 4,
        storage_rate: 1e18,
        storage_reader_rate: 1e18,
        storage_latency: 0,
        network_latency: 0,
        decision_time: 0,
        report_time: 0,
        passes_on: false,
        always_caches: false,
        eviction: EvictionPolicy::Lru,
        provision: None,
    }
}

fn work(tasks: Vec<Vec<ObjectId>>) -> Workload {
    Workload {
        tasks,
        stored_bytes: 1_000_000,
        cached_bytes: 1_000_000,
        unpack_time: 0,
        compute_time: 0,
        interval: 0,
    }
}

#[track_caller]
fn near(found: f64, expected: f64) {
    assert!(
        (found - expected).abs() <= 1e-3 * expected,
        "{found} is not {expected}"
    );
}

#[test]
fn each_cost_equals_manual_arithmetic() {
    let distinct = || Workload::scan(100, 1);
    // 100 tasks of 10 ms on 5 slots.
    let mut workload = work(distinct());
    workload.compute_time = 10_000_000;
    near(
        run(&free(5, 1), Policy::MaxComputeUtil, &workload).makespan_s,
        0.2,
    );
    // 100 MB from storage at 10 MB/s in total.
    let mut cluster = free(5, 1);
    cluster.storage_rate = 10e6;
    let report = run(&cluster, Policy::MaxComputeUtil, &work(distinct()));
    near(report.makespan_s, 10.0);
    assert_eq!(
        (report.inputs.storage, report.bytes.storage),
        (100, 100_000_000)
    );
    cluster.storage_reader_rate = 1e6;
    near(
        run(&cluster, Policy::MaxComputeUtil, &work(distinct())).makespan_s,
        20.0,
    );
    // 2 slots share a disk of 4 MB/s: 25 s for 100 MB.
    let mut cluster = free(1, 2);
    cluster.disk_rate = 4e6;
    near(
        run(&cluster, Policy::MaxComputeUtil, &work(distinct())).makespan_s,
        25.0,
    );
    // 2 ms per decision and 1 ms per report.
    let mut cluster = free(50, 1);
    (cluster.decision_time, cluster.report_time) = (2_000_000, 1_000_000);
    let report = run(&cluster, Policy::MaxComputeUtil, &work(distinct()));
    near(report.makespan_s, 0.299);
    assert!(report.scheduler_busy > 0.99);
    let mut cluster = free(1, 1);
    (cluster.storage_latency, cluster.network_latency) = (3_000_000, 500_000);
    let mut workload = work(Workload::scan(1, 1));
    workload.unpack_time = 7_000_000;
    near(
        run(&cluster, Policy::MaxComputeUtil, &workload).makespan_s,
        0.011,
    );
}

#[test]
fn hosts_may_share_cores() {
    let mut workload = work(Workload::scan(100, 1));
    workload.compute_time = 100_000_000;
    let mut cluster = free(5, 1);
    cluster.shared_cores = Some(2.0);
    near(
        run(&cluster, Policy::MaxComputeUtil, &workload).makespan_s,
        5.0,
    );
    cluster.shared_cores = Some(64.0);
    near(
        run(&cluster, Policy::MaxComputeUtil, &workload).makespan_s,
        2.0,
    );
}

#[test]
fn slots_without_a_processor_fetch_ahead() {
    // 0.1 s to fetch or compute.
    let mut workload = work(Workload::scan(100, 1));
    workload.compute_time = 100_000_000;
    let mut cluster = free(1, 1);
    cluster.storage_rate = 10e6;
    near(
        run(&cluster, Policy::MaxComputeUtil, &workload).makespan_s,
        20.0,
    );
    // After 0.2 s for two objects, fetching and computing overlap.
    cluster.slots = 2;
    near(
        run(&cluster, Policy::MaxComputeUtil, &workload).makespan_s,
        10.2,
    );
    cluster.processors = 0;
    let refused = simulate(&cluster, DispatchOptions::default(), &workload).unwrap_err();
    assert_eq!(refused.code(), "parameter");
}

#[test]
fn objects_in_transfer_are_passed_on() {
    let workload = work(vec![vec![ObjectId(0)]; 3]);
    let mut cluster = free(3, 1);
    (cluster.storage_rate, cluster.link_rate) = (1e6, 1e6);
    let report = run(&cluster, Policy::FirstCacheAvailable, &workload);
    assert_eq!((report.inputs.storage, report.inputs.peer), (3, 0));
    near(report.makespan_s, 3.0);
    // Storage delivers it once; two share the first host's link.
    cluster.passes_on = true;
    let report = run(&cluster, Policy::FirstCacheAvailable, &workload);
    assert_eq!((report.inputs.storage, report.inputs.peer), (1, 2));
    near(report.makespan_s, 3.0);
    let report = run(&cluster, Policy::FirstAvailable, &workload);
    assert_eq!((report.inputs.storage, report.inputs.peer), (3, 0));
    cluster.cache_bytes = 10;
    let report = run(&cluster, Policy::FirstCacheAvailable, &workload);
    assert_eq!((report.inputs.storage, report.inputs.peer), (3, 0));
}

#[test]
fn hosts_may_cache_under_any_policy() {
    let workload = work(vec![vec![ObjectId(0)]; 4]);
    let mut cluster = free(1, 1);
    let report = run(&cluster, Policy::FirstAvailable, &workload);
    assert_eq!((report.inputs.storage, report.inputs.local), (4, 0));
    cluster.always_caches = true;
    let report = run(&cluster, Policy::FirstAvailable, &workload);
    assert_eq!((report.inputs.storage, report.inputs.local), (1, 3));
}

#[test]
fn peers_serve_what_they_hold() {
    let mut cluster = free(2, 1);
    cluster.link_rate = 1e6;
    let mut workload = work(vec![
        vec![ObjectId(0)],
        vec![ObjectId(0)],
        vec![ObjectId(0)],
    ]);
    workload.compute_time = 10_000_000_000;
    workload.interval = 1_000_000_000;
    let report = run(&cluster, Policy::FirstCacheAvailable, &workload);
    assert_eq!(report.inputs.storage, 2);
    assert_eq!(report.inputs.local, 1);
    let report = run(&cluster, Policy::MaxCacheHit, &workload);
    assert_eq!(
        report.inputs.storage + report.inputs.peer + report.inputs.local,
        3
    );
}

#[test]
fn same_input_same_report() {
    let cluster = ClusterModel::data_diffusion_2008(8);
    let workload = Workload::stacking(Workload::zipf(200, 2000, 1.0, 3), true);
    for policy in Policy::ALL {
        let first = run(&cluster, policy, &workload);
        assert_eq!(first, run(&cluster, policy, &workload));
        let inputs = first.inputs.local + first.inputs.peer + first.inputs.storage;
        assert_eq!(inputs, 2000, "{policy:?}");
        assert!(first.inputs.storage >= 200 - 60);
    }
}

#[test]
fn a_small_cache_evicts_and_reads_again() {
    let mut cluster = free(1, 1);
    cluster.cache_bytes = 5_000_000;
    // Ten objects cyclically through a cache of five: LRU always misses.
    let mut options = DispatchOptions::for_policy(Policy::MaxComputeUtil);
    options.window = 1;
    let workload = work(Workload::scan(10, 3));
    let report = simulate(&cluster, options, &workload).unwrap();
    assert_eq!((report.inputs.storage, report.evicted), (30, 25));
    // Tasks with cached objects come first.
    options.window = 30;
    let report = simulate(&cluster, options, &workload).unwrap();
    assert_eq!(report.inputs.storage, 10);
    cluster.cache_bytes = 10;
    let report = simulate(&cluster, options, &workload).unwrap();
    assert_eq!((report.tasks, report.evicted), (30, 0));
}

#[test]
fn a_cluster_grows_with_the_queue_and_shrinks() {
    let provision = ProvisionOptions {
        min_hosts: 1,
        max_hosts: 8,
        drain_time: 10_000_000_000,
        idle_time: 2_000_000_000,
        read_cost_per_gb: 0.0,
        ..ProvisionOptions::default()
    };
    let mut cluster = free(1, 1);
    cluster.provision = Some((provision, 3_000_000_000));
    let mut workload = work(Workload::scan(400, 1));
    workload.compute_time = 1_000_000_000;
    let report = run(&cluster, Policy::MaxComputeUtil, &workload);
    assert_eq!(report.most_hosts, 8);
    // 400 s of work on 8 hosts, of which 7 start 3 s late.
    assert!((50.0..60.0).contains(&report.makespan_s), "{report:?}");
    workload.tasks.truncate(60);
    workload.interval = 5_000_000_000;
    let report = run(&cluster, Policy::MaxComputeUtil, &workload);
    assert!(report.host_seconds < 2.0 * report.makespan_s, "{report:?}");
}

#[test]
fn refuses_rates_and_clusters_that_cannot_work() {
    let mut cluster = free(0, 1);
    let workload = work(Workload::scan(2, 1));
    let refused = simulate(&cluster, DispatchOptions::default(), &workload).unwrap_err();
    assert_eq!(refused.code(), "stalled");
    cluster.disk_rate = 0.0;
    let refused = simulate(&cluster, DispatchOptions::default(), &workload).unwrap_err();
    assert!(
        refused
            .to_string()
            .starts_with("disk_rate=0 must be finite and above 0")
    );
}

/// Three rows of table 2: locality, objects, files.
const TABLE_2: [(f64, usize, u32); 3] = [
    (1.38, 154_345, 111_699),
    (10.0, 46_480, 4650),
    (30.0, 23_695, 790),
];

#[test]
fn the_shapes_of_figures_8_to_13() {
    let cluster = ClusterModel::data_diffusion_2008(64);
    for (locality, tasks, files) in TABLE_2 {
        let workload = Workload::stacking(Workload::sample(files, tasks, 5), false);
        let diffusion = run(&cluster, Policy::MaxComputeUtil, &workload);
        let gpfs = run(&cluster, Policy::FirstAvailable, &workload);
        // Figure 10: at least 90 % of the ideal hit ratio.
        let ideal = workload.ideal_hit_rate();
        assert!(
            diffusion.hit_rate() >= 0.9 * ideal,
            "{locality}: {diffusion:?}"
        );
        // Figures 8, 9, 11: never slower than GPFS, bound by 3.4 Gb/s.
        assert!(diffusion.makespan_s < 1.05 * gpfs.makespan_s, "{locality}");
        assert!((3.0..3.5).contains(&gpfs.throughput_gbps()), "{gpfs:?}");
        // Figure 13: a stacking reads one object in `locality` from storage.
        let each = diffusion.bytes.storage as f64 / tasks as f64;
        assert!(each < 6e6 / locality * 1.3, "{locality}: {each}");
        if locality == 30.0 {
            assert!(gpfs.makespan_s > 4.0 * diffusion.makespan_s);
        }
    }
}
