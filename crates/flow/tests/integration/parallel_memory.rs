//! Workers keep to little memory together, and many do not fail where one does not.

#[allow(dead_code)]
use crate::common::gapped;
use isochrony_expr::Expr;
use isochrony_flow::{
    Break, Contract, Declaration, Inputs, Item, Next, OpError, Operator, OperatorProperties,
    OperatorType, Out, Plan, PlanError, Port, PortType, RunOptions, json, operator,
};

use crate::common::gapped::{SAMPLES, options, recording, windows};

fn named_in(plan: &Plan, declaration: &Declaration, params: serde_json::Value) -> Plan {
    plan.apply(declaration, params.as_object().unwrap().clone(), &[])
        .unwrap()
}

#[test]
fn little_memory_makes_small_tasks_and_does_not_fail() {
    let s = Expr::input();
    let plan = Plan::scan_part(recording(), None, 100)
        .rewindow(10)
        .unwrap()
        .map(&(&s * 1.5))
        .unwrap();
    let mut options = options(4);
    options.memory = 512 << 10;
    let (many, report) = plan.collect_with(&options).unwrap();
    assert_eq!(many, plan.collect().unwrap());
    assert!(report.peak_bytes <= 512 << 10, "{}", report.peak_bytes);
    let samples = report.tasks.iter().map(|task| {
        let gaps = [12_345..12_346, 30_000..31_000].map(|gap| {
            let within = gap.start.max(task.range.start)..gap.end.min(task.range.end);
            (within.end - within.start).max(0)
        });
        task.range.end - task.range.start - gaps.iter().sum::<i64>()
    });
    assert!(samples.max() <= Some(800));
}

#[test]
fn where_cuts_show_too_little_memory_is_an_error_and_never_other_cuts() {
    // After a settling filter: 64 KiB per task, wherever segments end: feeds are cut in the same places.
    let scan = Plan::scan_part(recording(), None, 100);
    let low = json!({"band": "lowpass", "cutoff_hz": 500.0});
    let plan = gapped::named(&scan, "iir", low);
    let collect = |workers, memory| {
        let mut options = options(workers);
        (options.memory, options.task, options.tolerance) = (memory, 64 << 10, 1e-9);
        // Workers give back cells that they reserved.
        options.stages.shuffle = (workers > 2).then_some(memory);
        plan.collect_with(&options)
    };
    let (expected, report) = collect(1, isochrony_flow::DEFAULT_MEMORY).unwrap();
    assert_eq!(report.tasks[0].range.end, 8192);
    let mut refused = 0;
    for memory in (14..22).map(|bits| 1u64 << bits) {
        let ended = [1, 2, 5].map(|workers| collect(workers, memory));
        for got in ended {
            match got {
                Ok((got, report)) => {
                    assert!(got == expected, "{memory}");
                    assert!(report.peak_bytes <= memory);
                    assert_eq!(report.tasks[0].range.end, 8192);
                }
                Err(error) => {
                    assert_eq!(error.code(), "memory_cap", "{error}");
                    assert!(memory < 1 << 20, "{memory}: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0);
}

operator! {
    /// Needs memory for a stretch, or for an item.
    pub struct Hungry = "hungry" (Inputs::Exactly(1)) {
        /// Bytes; memory comes in powers of two.
        bytes: f64 = "number" { default: || json!(0) },
        /// "task" (gets one at a time), "run" (stateful) or "item" (stateless).
        how: String = "text" { choices: &["task", "run", "item"], default: || json!("task") },
    }
    state {
        held: Vec<isochrony_segment::Buffer>,
    }
}

impl Operator for Hungry {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let bound = OperatorProperties::new(inputs.iter().copied());
        Ok(match self.how.as_str() {
            "task" => bound,
            _ => bound.contract(Contract::Sequential),
        })
    }

    fn process(&mut self, _: Port, _: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        if self.held.is_empty() {
            let block = out.alloc(isochrony_segment::DType::U8, self.bytes as usize)?;
            self.held.push(out.seal(block));
        }
        std::thread::sleep(std::time::Duration::from_micros(200));
        if self.how == "item" {
            self.held.clear();
        }
        Ok(Next::Forward)
    }

    fn on_break(&mut self, _: Port, _: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        if self.how == "task" {
            self.held.clear();
        }
        Ok(())
    }
}

#[test]
fn memory_bounds_all_workers_together_and_many_do_not_fail_where_one_does_not() {
    let s = Expr::input();
    let hungry = |plan: &Plan, bytes: u64, how: &str| {
        named_in(
            plan,
            &Hungry::DECLARATION,
            json!({"bytes": bytes, "how": how}),
        )
    };
    const MEMORY: u64 = 1 << 20;
    // More than half of it, in tasks; the run needs more than half, or some for all of its time.
    for (task, how, run) in [
        (512, "run", 1),
        (512, "item", 256),
        (256, "run", 512),
        (256, "item", 512),
    ] {
        let branch = hungry(&windows().map(&(&s * 2)).unwrap(), task << 10, "task");
        let plan = hungry(&branch.map(&s.max()).unwrap(), run << 10, how);
        let plans = [plan, branch.map(&s.min()).unwrap()];
        let one = Plan::collect_all(&plans, &RunOptions::default()).unwrap().0;
        for workers in [1, 2, 4, 7] {
            let mut options = options(workers);
            options.memory = MEMORY;
            let (many, report) = Plan::collect_all(&plans, &options)
                .unwrap_or_else(|error| panic!("{workers}: {error}"));
            assert_eq!(many, one);
            assert!(report.peak_bytes <= MEMORY, "{}", report.peak_bytes);
            let covered: i64 = report
                .tasks
                .iter()
                .map(|task| task.range.end - task.range.start)
                .sum();
            assert!(workers == 1 || covered == SAMPLES, "{covered}");
        }
    }
}

#[test]
fn what_not_even_one_task_has_memory_for_is_an_error_that_says_so() {
    let plan = named_in(&windows(), &Hungry::DECLARATION, json!({"bytes": 3 << 20}));
    for workers in [1, 4] {
        let mut options = options(workers);
        options.memory = 1 << 20;
        let error = plan.run_with(&options).unwrap_err();
        assert_eq!(error.code(), "memory_cap", "{error}");
        assert!(error.to_string().starts_with("hungry (node 2"), "{error}");
    }
}

operator! {
    /// Keeps all its input, and then needs memory.
    pub struct Keeper = "keeper" (Inputs::Exactly(1)) {
        /// Bytes.
        bytes: f64 = "number" {},
        /// Milliseconds of delay.
        wait: f64 = "number" {},
    }
    state {
        kept: Vec<Item>,
    }
}

impl Operator for Keeper {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        Ok(OperatorProperties::new(inputs.iter().copied()).contract(Contract::Sequential))
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        self.kept.push(item.clone());
        Ok(Next::Forward)
    }

    fn finish(&mut self, _: Port, out: &mut Out<'_>) -> Result<(), OpError> {
        std::thread::sleep(std::time::Duration::from_millis(self.wait as u64));
        out.alloc(isochrony_segment::DType::U8, self.bytes as usize)?;
        Ok(())
    }
}

#[test]
fn what_is_kept_of_tasks_counts_whether_their_workers_have_ended_or_not() {
    let s = Expr::input();
    let made = windows().map(&(&s * 1.5)).unwrap();
    // About 320 kB are kept: with 512 KiB more than 768 KiB, with 256 not.
    for wait in [0, 1, 100] {
        for (bytes, fits) in [(512 << 10, false), (256 << 10, true)] {
            let keeper = json!({"bytes": bytes, "wait": wait});
            let plan = named_in(&made, &Keeper::DECLARATION, keeper)
                .count()
                .unwrap();
            for workers in [1, 2, 4] {
                let mut options = options(workers);
                options.memory = 768 << 10;
                let ran = plan.collect_with(&options);
                let outcome = ran
                    .map(|(count, _)| count.count())
                    .map_err(|error| error.code());
                let expected = if fits {
                    Ok(Some(389))
                } else {
                    Err("memory_cap")
                };
                assert_eq!(outcome, expected, "{workers} workers, {wait} ms");
            }
        }
    }
}
