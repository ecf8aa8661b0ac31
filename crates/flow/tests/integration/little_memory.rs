//! Minimum memory of joined channels: one's items wait for the others.

#[allow(dead_code)]
use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanOutput, Report, RunError, RunOptions, Stat};

use crate::common::channels::{channel, value};

const SAMPLES: i64 = 600_000;
const WHOLE: std::ops::Range<i64> = 0..SAMPLES;
const SEGMENT: u64 = 1_000;

fn scans(count: i64) -> Vec<Plan> {
    let all = std::slice::from_ref(&WHOLE);
    let scan = |number| Plan::scan_part(channel(number, all, 50_000), None, SEGMENT);
    (0..count).map(scan).collect()
}

fn sum(count: i64) -> Plan {
    let scans = scans(count);
    let all = (1..count as u8).map(Expr::input_at);
    let sum = all.fold(Expr::input() * 1.0, |sum, one| sum + one);
    scans[0].map_with(&sum, &scans[1..]).unwrap()
}

fn expected(count: i64) -> Vec<f64> {
    let sum = |index| {
        (0..count)
            .map(|number| f64::from(value(number, index)))
            .sum()
    };
    (0..SAMPLES).map(sum).collect()
}

fn run(plan: &Plan, workers: usize, memory: u64) -> Result<(PlanOutput, Report), RunError> {
    let mut options = RunOptions::default();
    (options.workers, options.memory) = (workers, memory);
    plan.collect_with(&options)
}

#[test]
fn channels_that_meet_need_memory_for_some_segments_and_not_for_a_burst_of_each() {
    for (count, kib) in [(2, 64), (4, 128)] {
        let (plan, expected) = (sum(count), expected(count));
        for workers in [1, 2, 3] {
            // A burst of 262,144 samples of one channel would take 512 KiB.
            for memory in [kib << 10, 512 << 10, 1 << 30] {
                let ran = run(&plan, workers, memory);
                let (gathered, report) =
                    ran.unwrap_or_else(|error| panic!("{count}, {workers}, {memory}: {error}"));
                let found = gathered.array().unwrap().to_vec::<f64>().unwrap();
                assert!(found == expected, "{count}, {workers}, {memory}");
                assert!(report.peak_bytes <= memory, "{}", report.peak_bytes);
            }
        }
    }
}

#[test]
fn what_meets_in_turn_or_of_windows_needs_no_more_either() {
    let scans = scans(4);
    let merged = scans[0].merge(&scans[1..]).unwrap();
    let windows: Vec<Plan> = (scans.iter())
        .map(|scan| scan.rewindow_every(2_000, 500).unwrap())
        .collect();
    let zipped = windows[0].zip(&windows[1..]).unwrap().output(3).unwrap();
    let stats = zipped.stats([Stat::Min, Stat::Mean]).unwrap();
    for plan in [merged, stats] {
        let all = run(&plan, 1, 1 << 30).unwrap().0;
        for workers in [1, 3] {
            let little = run(&plan, workers, 384 << 10);
            let little = little.unwrap_or_else(|error| panic!("{plan}, {workers}: {error}"));
            assert_eq!(little.0, all);
        }
    }
}

#[test]
fn too_little_is_an_error_that_names_the_channels() {
    let error = run(&sum(2), 1, 2 << 10).unwrap_err();
    let code = error.code();
    assert!(code == "fan_in_starved" || code == "memory_cap", "{error}");
}
