//! Interrupted runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use isochrony_flow::{
    Inputs, Interrupt, Item, Next, OpError, Operator, OperatorProperties, Out, Plan, PlanError,
    PlanOutput, Port, PortType, RunError, RunOptions, SharedRecording, operator,
};

use super::recording;

#[test]
fn interrupts_stop_between_items() {
    let flag = Interrupt::default();
    flag.request();
    let mut options = isochrony_flow::RunOptions::default();
    options.interrupt = Some(&flag);
    let error = Plan::scan(recording(&[(0..10, vec![])]))
        .collect_with(&options)
        .unwrap_err();
    assert!(
        matches!(error, RunError::Interrupted { items: 0 }),
        "{error}"
    );
}

#[test]
fn a_watch_looks_around_in_the_runs_own_thread_and_stops_it() {
    let (looks, own) = (Arc::new(AtomicU64::new(0)), std::thread::current().id());
    let counted = looks.clone();
    let watch = isochrony_flow::Watch::new(move || {
        assert_eq!(std::thread::current().id(), own);
        counted.fetch_add(1, Ordering::Relaxed) < 4
    });
    let mut options = RunOptions::default();
    options.watch = Some(&watch);
    // Half a minute in both places that check: windows are emitted one by one.
    let slow = |item: &Item| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(item.samples() > 0);
        Ok(())
    };
    let items = Plan::scan_part(
        SharedRecording::new(recording(&[(0..30_000, vec![])])),
        None,
        1,
    );
    let windows = Plan::scan(recording(&[(0..60_000, vec![])]));
    let odd = isochrony_expr::Expr::input().min() % 2;
    let windows = windows.rewindow(1).unwrap().filter(&odd.gt(0)).unwrap();
    for plan in [items, windows] {
        looks.store(0, Ordering::Relaxed);
        let begun = std::time::Instant::now();
        let error = plan.each(slow).unwrap().run_with(&options).unwrap_err();
        assert!(matches!(error, RunError::Interrupted { .. }), "{error}");
        assert_eq!(looks.load(Ordering::Relaxed), 5);
        assert!(begun.elapsed() > std::time::Duration::from_millis(50));
        assert!(begun.elapsed() < std::time::Duration::from_secs(20));
    }
}

/// `Stop`, a declared operator, cannot hold it.
static ASKED: OnceLock<Interrupt> = OnceLock::new();
static BLOCKS: AtomicU64 = AtomicU64::new(0);

operator! {
    /// Asks the run to stop.
    pub struct Stop = "stop" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Stop {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        BLOCKS.fetch_add(1, Ordering::Relaxed);
        ASKED.get().unwrap().request();
        Ok(Next::Consumed)
    }
}

#[test]
fn interrupts_stop_within_an_item_of_windows_that_overlap_much() {
    // One item of a hundred thousand windows: seconds of work for the next operator.
    let flag = ASKED.get_or_init(Interrupt::default);
    let mut options = RunOptions::default();
    options.interrupt = Some(flag);
    let plan = Plan::scan(recording(&[(0..120_000, vec![])]))
        .rewindow_every(20_000, 1)
        .unwrap();
    let stopped = plan.then::<Stop>(serde_json::Map::new()).unwrap();
    let error = stopped.run_with(&options).unwrap_err();
    assert!(
        matches!(error, RunError::Interrupted { items: 1 }),
        "{error}"
    );
    assert_eq!(BLOCKS.load(Ordering::Relaxed), 1);
    assert_eq!(
        plan.count().unwrap().collect().unwrap(),
        PlanOutput::Count(100_001)
    );
}
