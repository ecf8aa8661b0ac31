//! Latencies of executions in one thread, in tasks, in stages and on a cluster.

#![allow(clippy::single_range_in_vec_init)]

use std::sync::Arc;
use std::time::Duration;

use isochrony_flow::{Plan, Report, RunOptions};

use crate::common::feed::{Feed, JoinGate};
use crate::common::loopback::{collect_feed_on_loopback, collect_on_loopback};
use crate::common::noise::recording;
use crate::common::plans::{named, settling};

/// Items are so old whenever the feed is asked; links and replicas take far less.
const AGE: Duration = Duration::from_secs(1000);
const MAX_DELAY: Duration = Duration::from_secs(60);

fn feed() -> (Plan, Arc<JoinGate>) {
    let mut feed = Feed::new(vec![5..60_000], 100, 7);
    feed.age = AGE;
    let gate = Arc::clone(&feed.gate);
    (Plan::scan(feed), gate)
}

fn spectra(plan: &Plan) -> Plan {
    plan.rewindow(64).unwrap().power().unwrap()
}

fn filtered(plan: &Plan) -> Plan {
    named(plan, &settling()[0]).unwrap()
}

fn options(workers: usize) -> RunOptions<'static> {
    let mut options = RunOptions::default();
    options.workers = workers;
    options.stages.helpers_after_us = 0;
    options
}

fn run(plan: &Plan, options: &RunOptions<'_>) -> Report {
    let (_, report) = Plan::collect_all(std::slice::from_ref(plan), options).unwrap();
    report
}

fn check(report: &Report) {
    let latency = report.latency.unwrap();
    assert!(latency.count > 0, "{report}");
    assert!(latency.median >= AGE, "{report}");
    assert!(latency.max < AGE + MAX_DELAY, "{report}");
    let share = report.engine_share().unwrap();
    assert!((0.0..=1.0).contains(&share), "{report}");
}

fn has_replicas(report: &Report) -> bool {
    report.stages.iter().any(|one| one.replica.is_some())
}

#[test]
fn a_latency_begins_with_the_arrival_at_the_source() {
    let (feed, _) = feed();
    for plan in [&feed, &spectra(&feed), &filtered(&feed)] {
        check(&run(plan, &options(1)));
    }
}

#[test]
fn links_and_replicas_keep_the_time_of_arrival() {
    let (feed, _) = feed();
    let rows = spectra(&filtered(&feed));
    // Large and small batches and blocks, down to those of one item.
    for bytes in [1 << 20, 1 << 14, 1 << 12] {
        let mut options = options(2);
        options.stages.block_bytes = bytes;
        options.stages.burst_bytes = bytes;
        options.stages.link_bytes = 4 * bytes;
        let report = run(&rows, &options);
        assert!(has_replicas(&report), "{}", rows.explain());
        check(&report);
    }
}

#[test]
fn cells_keep_the_time_of_arrival() {
    let (feed, _) = feed();
    let plan = filtered(&feed);
    for workers in [1, 2] {
        let mut options = options(workers);
        options.tolerance = 1e-3;
        options.stages.cell_bytes = 1 << 14;
        let report = run(&plan, &options);
        assert!(has_replicas(&report), "{}", plan.explain());
        check(&report);
    }
}

#[test]
fn blocks_of_a_cluster_keep_the_time_of_arrival() {
    let (feed, gate) = feed();
    let plans = [spectra(&filtered(&feed))];
    let mut options = options(2);
    options.stages.block_bytes = 1 << 12;
    options.stages.burst_bytes = 1 << 12;
    gate.close();
    let on_ask = move |is_last| gate.ask(is_last);
    let (_, report, calls) =
        collect_feed_on_loopback(&plans, &plans, on_ask, options, 2, 0).unwrap();
    assert!(calls > 0);
    assert!(!report.workers.is_empty());
    check(&report);
}

#[test]
fn a_latency_of_tasks_is_at_most_the_time_of_the_execution() {
    let plan = spectra(&Plan::scan_part(recording(&[5..200_000], 130), None, 64));
    let mut options = options(2);
    options.task = 20_000;
    let (_, of_cluster, calls) =
        collect_on_loopback(std::slice::from_ref(&plan), options, 2, 0).unwrap();
    assert!(calls > 0);
    for report in [run(&plan, &options), of_cluster] {
        assert!(report.tasks.len() > 2 && report.stages.is_empty());
        let latency = report.latency.unwrap();
        assert!(
            0 < latency.count && latency.count <= report.bursts,
            "{report}"
        );
        // A task begins before the caller's thread does.
        assert!(latency.max <= report.elapsed + MAX_DELAY, "{report}");
        let shortest = report.tasks.iter().map(|task| task.elapsed).min();
        assert!(Some(latency.median) >= shortest, "{report}");
        let share = report.engine_share().unwrap();
        assert!((0.0..=1.0).contains(&share), "{report}");
    }
}

#[test]
fn nothing_is_measured_on_request() {
    let (feed, _) = feed();
    let stored = Plan::scan_part(recording(&[5..200_000], 130), None, 64);
    for plan in [spectra(&filtered(&feed)), spectra(&stored)] {
        for workers in [1, 2] {
            let mut options = options(workers);
            options.measure = false;
            let report = run(&plan, &options);
            assert_eq!((report.latency, report.engine_share()), (None, None));
        }
    }
}
