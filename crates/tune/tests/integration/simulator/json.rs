//! Plans, machines and configurations from JSON.

use isochrony_tune::Configuration;
use isochrony_tune::simulator::{SimulatedMachine, SimulatedPlan, SimulatedRun};
use serde_json::Value;

use super::assert_close;

#[test]
fn the_documented_example_runs_as_described() {
    let source = include_str!("../../../examples/simulate_plans.rs");
    let head = source.lines().filter_map(|line| line.strip_prefix("//!"));
    let block = head
        .skip_while(|line| line.trim() != "```json")
        .skip(1)
        .take_while(|line| line.trim() != "```");
    let example: Value = serde_json::from_str(&block.collect::<String>()).unwrap();
    let field = |name: &str| example[name].clone();
    let plan: SimulatedPlan = serde_json::from_value(field("plan")).unwrap();
    let machine: SimulatedMachine = serde_json::from_value(field("machine")).unwrap();
    let start: Configuration = serde_json::from_value(field("configuration")).unwrap();
    assert_eq!(machine.hand_over_s, 1e-6);
    let mut run = SimulatedRun::new(plan.clone(), machine, start, 0).unwrap();
    // Three replicas of the filter, and two stages, take 5.25 s on four cores.
    assert_close(run.run_to_end(), 4.0 / 3.0, 0.05);
    let written = serde_json::to_value(&plan).unwrap();
    assert_eq!(
        serde_json::from_value::<SimulatedPlan>(written).unwrap(),
        plan
    );
}

#[test]
fn fields_that_do_not_exist_are_refused_and_those_left_out_cost_nothing() {
    let machine = |text| serde_json::from_str::<SimulatedMachine>(text);
    let given =
        machine(r#"{"cores": 8, "competitors": [{"threads": 1, "start_s": 2.0}]}"#).unwrap();
    assert_eq!(given.competitors[0].end_s, f64::INFINITY);
    let expected = SimulatedMachine {
        competitors: given.competitors.clone(),
        ..SimulatedMachine::ideal(8)
    };
    assert_eq!(given, expected);
    let error = machine(r#"{"cores": 8, "wakeup_s": 1.0}"#).unwrap_err();
    assert!(
        error.to_string().contains("unknown field `wakeup_s`"),
        "{error}"
    );
}
