//! An operator of another crate is treated as an equally declared built-in one.

#![allow(clippy::single_range_in_vec_init)]

use std::sync::Mutex;

use isochrony_flow::{
    Alignment, Contract, Extent, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out,
    Plan, PlanError, Port, PortType, RowAxis, RunOptions, operator,
};

use crate::common::channels::channel;

static DECLARED: Mutex<fn(OperatorProperties) -> OperatorProperties> = Mutex::new(|bound| bound);

operator! {
    /// Forwards everything, with the declaration of a test.
    pub struct Own = "own" (Inputs::AtLeast(1)) {}
    state {}
}

impl Operator for Own {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let declare = *DECLARED.lock().unwrap();
        Ok(declare(OperatorProperties::new([inputs[0]])))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}

static TURN: Mutex<()> = Mutex::new(());

fn own(
    input: &Plan,
    others: &[Plan],
    declare: fn(OperatorProperties) -> OperatorProperties,
) -> Result<Plan, PlanError> {
    *DECLARED.lock().unwrap() = declare;
    let declaration = <Own as isochrony_flow::OperatorType>::DECLARATION;
    input.apply(&declaration, serde_json::Map::new(), others)
}

fn scan(nth: i64, samples: std::ops::Range<i64>) -> Plan {
    Plan::scan_part(channel(nth, &[samples], 1_000), None, 64)
}

/// On two workers; 0 if the plan stays in the caller's thread.
fn tasks(plan: &Plan) -> usize {
    let mut options = RunOptions::default();
    (options.workers, options.task) = (2, 4096);
    plan.collect_with(&options).unwrap().1.tasks.len()
}

#[test]
fn a_light_operator_alone_stays_in_one_thread() {
    let _turn = TURN.lock().unwrap();
    let source = scan(0, 0..100_000);
    let light = own(&source, &[], |properties| properties.cost_ns(0.0)).unwrap();
    assert_eq!(tasks(&light), 0);
    let heavy = own(&source, &[], |bound| bound).unwrap();
    assert!(tasks(&heavy) > 1);
}

#[test]
fn lookahead_is_replicated_and_sequential_is_not() {
    let _turn = TURN.lock().unwrap();
    let source = scan(0, 0..100_000);
    let ahead = |bound: OperatorProperties| bound.contract(Contract::Lookahead { after: 9 });
    let ahead = own(&source, &[], ahead).unwrap();
    assert!(tasks(&ahead) > 1);
    let behind = own(&source, &[], |bound| bound.contract(Contract::Sequential)).unwrap();
    assert_eq!(tasks(&behind), 0);
}

#[test]
fn indices_of_any_input_may_come_twice_and_a_range_may_rule_that_out() {
    let _turn = TURN.lock().unwrap();
    let any = |bound: OperatorProperties| {
        bound
            .extent(Extent::AnyInput)
            .align(Alignment::Time)
            .data_dependent()
    };
    let both = own(&scan(0, 0..100), &[scan(1, 50..150)], any).unwrap();
    assert_eq!(both.rewindow(10).unwrap_err().code(), "indices_repeat");
    let needs = own(&both, &[], OperatorProperties::contiguous).unwrap_err();
    assert_eq!(needs.code(), "indices_repeat");
    assert!(own(&both, &[], |bound| bound).is_ok());

    let within = |bound: OperatorProperties| bound.extent(Extent::Within(0..50)).data_dependent();
    let first = own(&scan(0, 0..100), &[], within).unwrap();
    let apart = own(&first, &[scan(1, 50..150)], any).unwrap();
    assert!(apart.rewindow(10).is_ok());
}

#[test]
fn frequencies_are_those_that_an_operator_declares() {
    let _turn = TURN.lock().unwrap();
    let windows = scan(0, 0..1000).rewindow(5).unwrap();
    assert_eq!(windows.frequencies(), None);
    let spectra = |bound: OperatorProperties| {
        let (nfft, complex) = (8, false);
        bound.row_axis(RowAxis::Frequencies { nfft, complex })
    };
    let rows = own(&windows, &[], spectra).unwrap();
    let rate = windows.port().stream().unwrap().rate.to_f64();
    let expected: Vec<f64> = (0..5).map(|k| f64::from(k) * rate / 8.0).collect();
    assert_eq!(rows.frequencies().unwrap(), expected);
    let kept = own(&rows, &[], |bound| bound.row_axis(RowAxis::FromInput)).unwrap();
    assert_eq!(kept.frequencies().unwrap(), expected);
    let other = own(&rows, &[], |bound| bound).unwrap();
    assert_eq!(other.frequencies(), None);
    let wrong = scan(0, 0..1000).rewindow(6).unwrap();
    assert_eq!(own(&wrong, &[], spectra).unwrap().frequencies(), None);
}
