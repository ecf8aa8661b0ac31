//! A waiting stage is notified: runs with tiny links do not depend on polling.

use std::cell::Cell;
use std::time::{Duration, Instant};

use isochrony_flow::{Plan, RunOptions};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::common::feed_plans::{FeedPlans, feed_plans};

const CASES: u32 = 300;

/// Cost of a lost notice.
const POLL_INTERVAL: Duration = Duration::from_secs(20);

#[test]
fn no_stage_waits_for_what_is_there() {
    let given = (feed_plans(), (0u32..14, 0u32..14, 0u32..10));
    let staged = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(CASES));
    let ran = runner.run(&given, |(FeedPlans { plans, .. }, sizes)| {
        let mut options = RunOptions::default();
        options.workers = 3;
        options.stages.helpers_after_us = 0;
        options.stages.burst_bytes = 1 << sizes.0;
        options.stages.block_bytes = 1 << sizes.1;
        options.stages.link_bytes = 1 << sizes.2;
        options.stages.poll_us = POLL_INTERVAL.as_micros() as u64;
        let begun = Instant::now();
        let (_, report) = Plan::collect_all(&plans, &options).unwrap();
        prop_assert!(
            begun.elapsed() < POLL_INTERVAL / 2,
            "{}",
            plans[0].explain()
        );
        staged.set(staged.get() + u32::from(report.stages.len() > 1));
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert!(staged.get() > CASES / 2, "{} of {CASES}", staged.get());
}
