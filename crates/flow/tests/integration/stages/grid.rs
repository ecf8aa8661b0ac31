//! Within a tolerance a feed has the bits of the same samples stored: both are cut in one grid.

use isochrony_expr::Expr;
use isochrony_flow::{Plan, PlanOutput, RunOptions, Stat, json};
use proptest::prelude::*;

use super::{filters, generated_here};
use crate::common::channels::channel;
use crate::common::plans::{named, settling};

const TOLERANCE: f64 = 1e-6;

fn run(plan: &Plan, workers: usize, cell_bytes: Option<u64>, tolerance: f64) -> PlanOutput {
    let mut options = RunOptions::default();
    (options.workers, options.tolerance) = (workers, tolerance);
    options.stages.helpers_after_us = 0;
    if let Some(bytes) = cell_bytes {
        options.stages.cell_bytes = bytes;
    }
    plan.collect_with(&options).unwrap().0
}

fn steps() -> Vec<fn(&Plan) -> Plan> {
    fn twice(plan: &Plan) -> Plan {
        plan.map(&(Expr::input() * 2.0)).unwrap()
    }
    fn averaged(plan: &Plan) -> Plan {
        let taps = json!({"taps": [0.25, 0.5, 0.25], "method": "direct"});
        named(plan, &("fir", taps)).unwrap()
    }
    vec![
        |plan| filters(plan.clone(), 1),
        |plan| filters(twice(plan), 2),
        |plan| filters(averaged(&filters(plan.clone(), 1)), 1),
        |plan| {
            filters(plan.clone(), 1)
                .rewindow(100)
                .unwrap()
                .power()
                .unwrap()
        },
        |plan| {
            let windows = filters(plan.clone(), 2).rewindow(64).unwrap();
            windows.stats([Stat::Mean, Stat::Max]).unwrap()
        },
        |plan| {
            let apart = Expr::input() - Expr::input_at(1);
            plan.map_with(&apart, &[filters(plan.clone(), 1)]).unwrap()
        },
        |plan| {
            let halved = json!({"up": 1, "down": 2});
            filters(named(plan, &("resample", halved)).unwrap(), 1)
        },
    ]
}

#[test]
fn a_feed_has_the_bits_of_what_is_stored_with_any_number_of_workers() {
    let (len, mut cut) = (1_700_000, 0);
    for (nth, step) in steps().iter().enumerate() {
        let stored = step(&Plan::scan_shared(channel(0, &[0..len], 30_000)));
        let expected = run(&stored, 1, None, TOLERANCE);
        cut += usize::from(run(&stored, 1, None, 0.0) != expected);
        for workers in [1, 2, 3] {
            assert!(
                run(&stored, workers, None, TOLERANCE) == expected,
                "{nth}, stored, {workers} workers"
            );
            for segment in [7_000, 100_000] {
                let feed = step(&generated_here(0, 0..len, segment));
                assert!(
                    run(&feed, workers, None, TOLERANCE) == expected,
                    "{nth}, {segment}, {workers} workers"
                );
            }
        }
    }
    // Else it would test nothing.
    assert!(cut > 2, "{cut}");
}

#[test]
fn memory_never_changes_the_cells_of_a_feed() {
    // Some 120 kB around each cell.
    let slow = json!({"band": "lowpass", "cutoff_hz": 0.1, "order": 2});
    let step = |plan: &Plan| named(plan, &("iir", slow.clone())).unwrap();
    let (stored, feed) = (
        step(&Plan::scan_shared(channel(0, &[0..1_700_000], 30_000))),
        step(&generated_here(0, 0..1_700_000, 7_000)),
    );
    let expected = run(&stored, 1, None, TOLERANCE);
    assert!(run(&stored, 1, None, 0.0) != expected);
    let mut options = RunOptions::default();
    options.tolerance = TOLERANCE;
    options.stages.helpers_after_us = 0;
    for workers in [1, 2] {
        options.workers = workers;
        options.memory = 12 << 20;
        assert!(feed.collect_with(&options).unwrap().0 == expected);
        options.memory = 1 << 18;
        let error = feed.collect_with(&options).unwrap_err();
        assert_eq!(error.code(), "memory_cap", "{error}");
        assert!(error.to_string().contains("raise memory="), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn small_cells_of_feeds_are_those_of_tasks(
        len in 1i64..9000, first in 0i64..50, cut in 1i64..700, segment in 1u64..3000, settles in 0..settling().len(),
        which in 0..steps().len(), workers in 1usize..5, cell_bytes in 1u64..8000,
    ) {
        let whole = |source: &Plan| Some(steps()[which](&named(source, &settling()[settles]).ok()?));
        let stored = Plan::scan_part(channel(0, &[first..first + len], 900), None, segment);
        let Some(stored) = whole(&stored) else {
            return Ok(());
        };
        let feed = whole(&generated_here(0, first..first + len, cut)).unwrap();
        let expected = run(&stored, 1, Some(cell_bytes), 1e-3);
        prop_assert!(run(&stored, workers, Some(cell_bytes), 1e-3) == expected);
        prop_assert!(run(&feed, workers, Some(cell_bytes), 1e-3) == expected, "{}", feed.explain());
    }
}
