//! Scans that meet after factory operators, which one worker calls outside of tasks.

#![allow(clippy::single_range_in_vec_init)]

use std::ops::Range;

use isochrony_expr::Expr;
use isochrony_flow::{
    Item, Next, OpError, Operator, OperatorFactory, OperatorProperties, Out, Parallelism, Plan,
    PlanError, Port, PortType, Report, RunOptions, SharedFactory, SharedRecording,
};
use proptest::prelude::*;

use crate::common::channels::channel;
use crate::common::plans::{named, settling};

struct Free;

impl OperatorFactory for Free {
    fn name(&self) -> &'static str {
        "free"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(Self))
    }

    fn parallelism(&self, _: &RunOptions<'_>) -> Parallelism {
        Parallelism::Workers("in the workers' threads".into())
    }
}

impl Operator for Free {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()))
    }

    fn process(&mut self, _: Port, _: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        Ok(Next::Forward)
    }
}

fn joined_plan(kept: &[Vec<Range<i64>>; 2], settles: bool, straight: bool) -> Plan {
    let scan = |nth: usize| Plan::scan_part(channel(nth as i64, &kept[nth], 50), None, 64);
    let [a, b] = [scan(0), scan(1)];
    let s = Expr::input();
    let low = match settles {
        true => named(&b, &settling()[0]).unwrap(),
        false => b.map(&(&s * 2)).unwrap(),
    };
    let held = a.apply_factory(SharedFactory::new(Free), &[]).unwrap();
    let first = if straight { a } else { held.clone() };
    let apart = first.map_with(&(&s - Expr::input_at(1)), &[low]).unwrap();
    apart.map_with(&(&s + Expr::input_at(1)), &[held]).unwrap()
}

fn stretches() -> impl Strategy<Value = Vec<Range<i64>>> {
    (1i64..400, 1i64..70, 1i64..400).prop_map(|(first, gap, second)| {
        let behind = first + gap;
        vec![0..first, behind..behind + second]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn where_cuts_show_they_are_those_of_one_worker_whatever_meets_behind_held_operators(
        kept in [stretches(), stretches()], settles: bool, straight: bool, task in 2u64..600, workers in 2usize..5,
    ) {
        let plan = joined_plan(&kept, settles, straight);
        let mut options = RunOptions::default();
        (options.task, options.tolerance, options.workers) = (task, 1e-8, 1);
        let (one, report) = plan.collect_with(&options).unwrap();
        prop_assert_eq!(report.workers.len(), usize::from(settles));
        options.workers = workers;
        let (many, report) = plan.collect_with(&options).unwrap();
        prop_assert_eq!(many, one);
        prop_assert_eq!(report.workers.len(), workers);
    }
}

#[test]
fn what_is_held_brings_scans_together_that_do_not_show_cuts() {
    let kept = [vec![0..5000], vec![0..5000]];
    let subgraphs = |plan: &Plan| {
        let text = plan.explain();
        text.split_once("on several workers\n")
            .unwrap()
            .1
            .to_owned()
    };
    let text = subgraphs(&joined_plan(&kept, false, false));
    assert!(
        text.contains(
            "0 scan -> 1 free, 2 scan -> 3 map, 1 and 3 -> 4 map, 4 and 1 -> 5 map in tasks of"
        ),
        "{text}"
    );
    let from_start = |report: &Report| {
        let tasks = report.tasks.iter();
        tasks.filter(|task| task.range.start == 0).count()
    };
    let mut options = RunOptions::default();
    (options.task, options.tolerance, options.workers) = (2000, 1e-8, 3);
    let (_, report) = joined_plan(&kept, true, false)
        .collect_with(&options)
        .unwrap();
    // Each scan has its own tasks: both begin with the first sample.
    assert_eq!(from_start(&report), 2);
    let (_, report) = joined_plan(&kept, true, true)
        .collect_with(&options)
        .unwrap();
    assert_eq!(from_start(&report), 1);
}
