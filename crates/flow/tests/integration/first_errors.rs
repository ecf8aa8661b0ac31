//! A run ends with the first error in what is read, on ties that of the lowest node.

#[allow(dead_code)]
use crate::common::gapped;
use isochrony_expr::Expr;
use isochrony_flow::{
    Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, Plan, PlanError, Port,
    PortType, RunOptions, operator,
};

use crate::common::fail::failing;
use crate::common::gapped::{options, windows};

fn in_order(plan: &Plan) -> Plan {
    plan.filter(&(Expr::input().max().ewm(0.5).gt(-1))).unwrap()
}

/// Each fails at a sample, in tasks or in order.
fn branches(of: &[(i64, bool)]) -> Vec<Plan> {
    let s = Expr::input();
    let windows = windows().map(&(&s * 2)).unwrap();
    let branch = |(nth, &(at, tasks)): (usize, &(i64, bool))| {
        // Each has its own predecessor, so they are not merged.
        let own = windows.map(&(&s + (nth as i64 + 1))).unwrap();
        let own = if tasks { own } else { in_order(&own) };
        failing(&own, &[at], "error").map(&s.max()).unwrap()
    };
    of.iter().enumerate().map(branch).collect()
}

fn error(plans: &[Plan], workers: usize, task: u64) -> String {
    let mut options = options(workers);
    options.task = task;
    let ran = match workers {
        1 => Plan::collect_all(plans, &RunOptions::default()),
        _ => Plan::collect_all(plans, &options),
    };
    ran.unwrap_err().to_string()
}

#[test]
fn any_number_of_workers_tells_the_first_error_of_branches() {
    for (one, other) in [
        (3_100, 3_400),
        (3_400, 3_100),
        (3_100, 5_200),
        (5_200, 3_100),
        (900, 25_000),
        (25_000, 900),
    ] {
        let first = if one / 500 <= other / 500 { one } else { other };
        for where_ in [(true, true), (true, false), (false, true), (false, false)] {
            let plans = branches(&[(one, where_.0), (other, where_.1)]);
            let expected = format!("sample {first} is bad");
            for (workers, task) in [(1, 0), (2, 2_000), (2, 20_000), (4, 2_000), (3, 60_000)] {
                let text = error(&plans, workers, task);
                assert!(
                    text.contains(&expected),
                    "{one} {other} {where_:?}, {workers} workers, tasks of {task}: {text}"
                );
            }
        }
    }
}

#[test]
fn of_an_item_that_several_branches_fail_with_the_lowest_node_tells() {
    let s = Expr::input();
    let windows = windows().map(&(&s * 2)).unwrap();
    let late = failing(&windows.map(&(&s + 1)).unwrap(), &[40], "error");
    let early = failing(&windows, &[10], "error");
    for plans in [[late.clone(), early.clone()], [early, late]] {
        let alone = error(&plans, 1, 0);
        for (workers, task) in [(2, 2_000), (4, 20_000)] {
            assert_eq!(error(&plans, workers, task), alone);
        }
    }
}

#[test]
fn where_branches_give_other_indices_the_place_that_was_read_counts() {
    let s = Expr::input();
    let scan = Plan::scan_part(gapped::recording(), None, 500);
    let thin = |down: u64| {
        let params =
            isochrony_flow::json!({"down": down, "attenuation_db": 20.0, "edges": "steady"});
        gapped::named(&scan, "resample", params)
    };
    // Index 4500 of every fourth sample lies after index 5000 of every second.
    for (fourth, second, first) in [(4_500, 5_000, 5_000), (1_000, 5_000, 1_000)] {
        let one = failing(&thin(4).map(&(&s + 1)).unwrap(), &[fourth], "error");
        let other = failing(&thin(2).map(&(&s + 1)).unwrap(), &[second], "error");
        let rest = |plan: &Plan| plan.rewindow(10).unwrap().map(&s.max()).unwrap();
        let plans = [rest(&one), rest(&other)];
        for (workers, task) in [(1, 0), (2, 2_000), (2, 20_000), (2, 80_000)] {
            let text = error(&plans, workers, task);
            assert!(
                text.contains(&format!("sample {first} is bad")),
                "{workers}: {text}"
            );
        }
    }
}

operator! {
    /// Slow on the first window of each task.
    pub struct Slow = "slow" (Inputs::Exactly(1)) {}
    state {}
}

impl Operator for Slow {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        if item.range().is_some_and(|range| range.start % 2_000 == 0) {
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        Ok(Next::Forward)
    }
}

#[test]
fn an_error_is_waited_for_by_each_of_several_ways_out_of_tasks_that_are_slow() {
    // Longer than a run waits at a time.
    let s = Expr::input();
    let slow = windows().map(&(&s * 2)).unwrap();
    let slow = slow.then::<Slow>(serde_json::Map::new()).unwrap();
    let way = |nth: i64| in_order(&slow.map(&(&s + nth)).unwrap());
    let early = failing(&way(1), &[9_100], "error").map(&s.max()).unwrap();
    let none = way(2).map(&s.max()).unwrap();
    let [late] = &scans(&[(20_000, false)], "error")[..] else {
        panic!("one scan")
    };
    for nth in 0..10 {
        let plans = match nth % 2 {
            0 => [early.clone(), none.clone(), late.clone()],
            _ => [none.clone(), early.clone(), late.clone()],
        };
        let text = error(&plans, 2, 2_000);
        assert!(text.contains("sample 9100 is bad"), "{nth}: {text}");
    }
}

/// Not read together; each fails at a sample, in tasks or in order.
fn scans(of: &[(i64, bool)], kind: &str) -> Vec<Plan> {
    let s = Expr::input();
    let one = |(nth, &(at, tasks)): (usize, &(i64, bool))| {
        let scan = Plan::scan_part(gapped::recording(), None, 500 * (nth as u64 + 1));
        let own = scan.rewindow(100).unwrap().map(&(&s * 2)).unwrap();
        let own = if tasks { own } else { in_order(&own) };
        failing(&own, &[at], kind).map(&s.max()).unwrap()
    };
    of.iter().enumerate().map(one).collect()
}

#[test]
fn of_scans_that_are_not_read_together_the_error_that_begins_first_counts() {
    for (one, other) in [
        (3_100, 26_400),
        (26_400, 3_100),
        (38_000, 9_100),
        (900, 39_900),
        (10_010, 10_020),
        (10_020, 10_010),
    ] {
        let first = if one / 500 <= other / 500 { one } else { other };
        for where_ in [(true, true), (true, false), (false, true), (false, false)] {
            let kinds = if where_.0 == where_.1 { 2 } else { 1 };
            for kind in &["error", "panic"][..kinds] {
                let plans = scans(&[(one, where_.0), (other, where_.1)], kind);
                let bad = if *kind == "error" { "bad" } else { "cursed" };
                let expected = format!("sample {first} is {bad}");
                for (workers, task) in [(1, 0), (2, 2_000), (7, 20_000)] {
                    let text = error(&plans, workers, task);
                    assert!(
                        text.contains(&expected),
                        "{one} {other} {where_:?} {kind}, {workers} workers, tasks of {task}: {text}"
                    );
                }
            }
        }
    }
}
