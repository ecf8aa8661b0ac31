//! In-step operators get the same calls as others, and are held to their declaration.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use isochrony_expr::Expr;
use isochrony_flow::{
    Break, Control, Inputs, Item, Next, OpError, Operator, OperatorProperties, Out, Plan,
    PlanError, Port, PortType, RunError, RunOptions, Segments, SharedRecording, json, operator,
};
use isochrony_segment::{SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use proptest::prelude::*;

static TOLD: LazyLock<Mutex<HashMap<u64, Vec<String>>>> = LazyLock::new(Mutex::default);

fn tell(id: u64, what: String) {
    TOLD.lock().unwrap().entry(id).or_default().push(what);
}

fn told(ids: impl Iterator<Item = u64>) -> Vec<Vec<String>> {
    let mut all = TOLD.lock().unwrap();
    ids.map(|id| all.remove(&id).unwrap_or_default()).collect()
}

operator! {
    /// Records its calls, and violates its declaration on request.
    pub struct Told = "told" (Inputs::Exactly(1)) {
        /// Unique number.
        id: u64 = "integer" {},
        /// Whether it declares in-step.
        in_step: bool = "bool" {},
        /// Fault at the item that begins at `at`.
        fault: String = "text" { default: || json!("none"), adjustable: true },
        /// Index of the fault.
        at: i64 = "integer" { default: || json!(0) },
    }
    state {
        /// Items since the last break.
        since: u64,
    }
}

impl Operator for Told {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let bound = OperatorProperties::new(inputs.iter().copied());
        Ok(if self.in_step { bound.in_step() } else { bound })
    }

    fn process(&mut self, _: Port, item: &mut Item, out: &mut Out<'_>) -> Result<Next, OpError> {
        let range = item.range().unwrap();
        self.since += 1;
        tell(
            self.id,
            format!("{range:?} {} from {}", self.since, out.anchor()),
        );
        if self.fault == "none" || range.start != self.at {
            return Ok(Next::Forward);
        }
        match self.fault.as_str() {
            "emit" => {
                out.emit(0, item)?;
                Ok(Next::Consumed)
            }
            "take" => {
                let _ = item.take();
                Ok(Next::Consumed)
            }
            "end" => Ok(Next::Done),
            "panic" => panic!("as it was asked to"),
            _ => {
                if let Item::Samples(samples) = &*item {
                    *item = samples.subseg(range.start..range.end - 1)?.into();
                }
                Ok(Next::Forward)
            }
        }
    }

    fn on_break(&mut self, _: Port, why: &Break, _: &mut Out<'_>) -> Result<(), OpError> {
        self.since = 0;
        tell(self.id, format!("{why:?}"));
        Ok(())
    }

    fn finish(&mut self, _: Port, _: &mut Out<'_>) -> Result<(), OpError> {
        tell(self.id, "end".into());
        Ok(())
    }
}

fn stream() -> StreamId {
    Stream::new("stn/p", TimebaseId(0), Rate::new(2000, 1).unwrap()).intern()
}

/// 0, 1, 2, ... in segments of 4; one is missing after every `gap` samples.
fn scan(samples: i64, gap: i64) -> Plan {
    let pieces = (0..samples).step_by(gap as usize).map(|start| {
        let values: Vec<i16> = (start..(start + gap - 1).min(samples).max(start + 1))
            .map(|i| i as i16)
            .collect();
        SigSeg::from_slice(&values, start, stream()).unwrap()
    });
    Plan::scan_part(
        SharedRecording::new(Segments::new(pieces.collect::<Vec<_>>()).unwrap()),
        None,
        4,
    )
}

fn watch(plan: &Plan, id: u64, in_step: bool, fault: &str, at: i64) -> Plan {
    let serde_json::Value::Object(params) =
        json!({"id": id, "in_step": in_step, "fault": fault, "at": at})
    else {
        unreachable!()
    };
    plan.then::<Told>(params).unwrap()
}

fn run(plan: &Plan, control: Option<&Control>) -> Result<isochrony_flow::Report, RunError> {
    let mut options = RunOptions::default();
    options.control = control;
    plan.run_with(&options)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_mix_is_told_the_same(
        in_step in prop::collection::vec(prop::bool::weighted(0.8), 1..9),
        base in any::<u32>(),
        samples in 1i64..900,
        gap in 2i64..200,
        wanted in prop::option::of((1i64..5, 0i64..5)),
    ) {
        let source = scan(samples, gap);
        let source = match wanted {
            Some((by, rest)) => source
                .rewindow(2)
                .unwrap()
                .filter(&(Expr::input().min() % by).gt(rest % by))
                .unwrap(),
            None => source,
        };
        let ids = |set: u64| (0..in_step.len() as u64).map(move |k| u64::from(base) * 1000 + set * 100 + k);
        let chain = |set: u64, promised: &dyn Fn(bool) -> bool| {
            let each = ids(set).zip(&in_step);
            each.fold(source.clone(), |plan, (id, &one)| watch(&plan, id, promised(one), "none", 0))
        };
        let some = run(&chain(0, &|one| one), None).unwrap();
        let none = run(&chain(1, &|_| false), None).unwrap();
        let what = told(ids(1));
        prop_assert_eq!(&what, &told(ids(0)));
        prop_assert!(what.iter().all(|one| *one == what[0]));
        let figures = |report: &isochrony_flow::Report| -> Vec<_> {
            report.operators.iter().map(|one| (one.items, one.samples, one.gaps)).collect()
        };
        prop_assert_eq!(figures(&some), figures(&none));
    }
}

#[test]
fn a_broken_promise_ends_the_run() {
    for at in [0, 40] {
        for (fault, says) in [
            ("emit", "emitted"),
            ("take", "took an item"),
            ("end", "ended early"),
            ("cut", "changed the indices of an item"),
        ] {
            for place in 0..3 {
                let ids = 50..53u64;
                let plan = ids.fold(scan(64, 1000), |plan, id| {
                    let faulty = id == 50 + place;
                    watch(&plan, id, true, if faulty { fault } else { "none" }, at)
                });
                let error = run(&plan, None).unwrap_err();
                assert_eq!(error.code(), "out_of_step", "{fault} {place} {at}: {error}");
                let text = error.to_string();
                assert!(text.contains(says), "{text}");
                let RunError::Operator { node, range, .. } = error else {
                    panic!("{text}")
                };
                let place = place as usize + 1;
                assert!(node == place || (fault == "cut" && node >= place), "{text}");
                assert_eq!(range, Some(at..at + 4), "{text}");
            }
        }
    }
    told(50..53);
}

#[test]
fn a_panic_names_the_one_of_a_chain_that_panicked() {
    for at in [0, 40] {
        for place in 0..3 {
            let ids = 70..73u64;
            let plan = ids.fold(scan(64, 1000), |plan, id| {
                let faulty = id == 70 + place;
                watch(&plan, id, true, if faulty { "panic" } else { "none" }, at)
            });
            let error = run(&plan, None).unwrap_err();
            let RunError::Operator { node, range, .. } = &error else {
                panic!("{error}")
            };
            assert_eq!(error.code(), "operator_panicked", "{error}");
            assert_eq!(*node, place as usize + 1, "{error}");
            assert_eq!(*range, Some(at..at + 4), "{error}");
        }
    }
    told(70..73);
}

#[test]
fn progress_goes_past_what_keeps_step() {
    // One branch is empty, so progress alone releases the other.
    let windows = scan(30_000, 1 << 40).rewindow(2).unwrap();
    let none = windows.filter(&Expr::input().min().lt(-1)).unwrap();
    let chain = (80..84).fold(none, |plan, id| watch(&plan, id, true, "none", 0));
    let mut options = RunOptions::default();
    options.memory = 1 << 14;
    let both = chain.zip(&[windows]).unwrap();
    both.run_with(&options).unwrap();
    told(80..84);
}

#[test]
fn one_that_was_replaced_hears_of_breaks_too() {
    let control = Arc::new(Control::default());
    let changed: Arc<Mutex<Option<Plan>>> = Arc::default();
    let (asked, named) = (control.clone(), changed.clone());
    let source = scan(400, 1000).each(move |item| {
        if item.range() == Some(0..4) {
            let plan = named.lock().unwrap().clone().expect("built");
            asked
                .set(&plan, [("fault", json!("nothing"))])
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    });
    let kept = Expr::input().min().lt(256) | Expr::input().min().ge(280);
    let windows = source.unwrap().rewindow(2).unwrap().filter(&kept).unwrap();
    let first = watch(&windows, 60, true, "none", 0);
    let second = watch(&first, 61, true, "none", 0);
    *changed.lock().unwrap() = Some(second.clone());
    let plan = watch(&second, 62, true, "none", 0);
    run(&plan, Some(&control)).unwrap();
    let all = told(60..63);
    assert_eq!(all[0].iter().filter(|one| *one == "Removed").count(), 1);
    assert_eq!(all[2], all[0]);
    // The old one gets a break when it goes, the new one that in the data.
    let at = all[0].iter().position(|one| one == "Removed").unwrap();
    let mut both = all[0].clone();
    both.insert(at, "Removed".into());
    assert_eq!(all[1], both);
}
