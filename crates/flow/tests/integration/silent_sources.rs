//! A live source that falls silent and reports progress by its clock does not block fan-ins.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use isochrony_expr::Expr;
use isochrony_flow::{
    Break, Catalog, Cause, Clock, Item, OpError, Plan, PortType, RangeOrigin, Recording,
    RunOptions, Source, SourceEvent, Stat, json,
};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};
use serde_json::Value;

/// Ten seconds of a talking source.
const TALKED: i64 = 1000;
/// Interval of the marks, and how many come.
const STEP: Duration = Duration::from_millis(15);
const MAX_IDLE: u64 = 200;

#[derive(Default)]
struct Outcome {
    out: AtomicU64,
    wanted: AtomicU64,
    starved: AtomicBool,
}

impl Outcome {
    fn is_complete(&self) -> bool {
        self.out.load(Ordering::Acquire) >= self.wanted.load(Ordering::Acquire)
    }
}

struct Linear(i64);

impl Clock for Linear {
    fn times(&self, indices: &[i64], out: &mut [i64]) -> Result<(), Cause> {
        let pairs = out.iter_mut().zip(indices);
        pairs.for_each(|(out, index)| *out = index.saturating_mul(self.0));
        Ok(())
    }
}

/// They count modulo 20, up to an index; then only marks follow.
#[derive(Clone)]
struct Feed {
    stream: StreamId,
    upto: i64,
    clock: Option<Arc<Linear>>,
    outcome: Arc<Outcome>,
}

impl Recording for Feed {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: DType::I16,
            stream: self.stream,
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let mut events = Vec::new();
        events.push(SourceEvent::RangeStart {
            origin: RangeOrigin::at(0),
            why: None,
        });
        for from in (0..self.upto).step_by(10) {
            let samples: Vec<i16> = (from..from + 10).map(|at| (at % 20) as i16).collect();
            events.push(Item::from(SigSeg::from_slice(&samples, from, self.stream)?).into_event());
        }
        events.push(SourceEvent::Idle);
        events.push(SourceEvent::RangeStart {
            origin: RangeOrigin::at(self.upto + 1),
            why: Some(Break::Dropped(self.upto..self.upto + 1)),
        });
        events.reverse();
        Ok(Box::new(FeedSource {
            events,
            idle: 0,
            stepped: Instant::now(),
            mark: self.upto,
            step: (self.stream.get().rate.to_f64() / 2.0) as i64,
            outcome: self.outcome.clone(),
        }))
    }

    fn clock(&self) -> Option<Arc<dyn Clock>> {
        let clock = self.clock.clone()?;
        Some(clock)
    }
}

trait IntoEvent {
    fn into_event(self) -> SourceEvent;
}

impl IntoEvent for Item {
    fn into_event(self) -> SourceEvent {
        SourceEvent::Item(self)
    }
}

struct FeedSource {
    events: Vec<SourceEvent>,
    idle: u64,
    stepped: Instant,
    mark: i64,
    step: i64,
    outcome: Arc<Outcome>,
}

impl Source for FeedSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        if let Some(event) = self.events.pop() {
            return Ok(event);
        }
        if self.outcome.is_complete() {
            return Ok(SourceEvent::End);
        }
        if self.stepped.elapsed() < STEP {
            return Ok(SourceEvent::Idle);
        }
        self.stepped = Instant::now();
        self.idle += 1;
        if self.idle > MAX_IDLE {
            self.outcome.starved.store(true, Ordering::Release);
            return Ok(SourceEvent::End);
        }
        // Half a second each time; between marks all sources are idle.
        self.mark += self.step;
        Ok(SourceEvent::ProgressMark(self.mark))
    }
}

#[derive(Debug, Clone, Copy)]
enum SharedAxis {
    Indices,
    Time,
    TwoRates,
}

struct Feeds {
    talking: Plan,
    silent: Plan,
    outcome: Arc<Outcome>,
}

fn feeds(shared: SharedAxis) -> Feeds {
    named_feeds(shared, ["talking", "silent"])
}

fn named_feeds(shared: SharedAxis, [talking, silent]: [&'static str; 2]) -> Feeds {
    let outcome = Arc::new(Outcome::default());
    let feed = |name: &str, id: u32, rate: u64, upto: i64| {
        let stream = Stream::new(name, TimebaseId(id), Rate::new(rate, 1).unwrap());
        let clock = match shared {
            SharedAxis::Indices => None,
            _ => Some(Arc::new(Linear(1_000_000_000 / rate as i64))),
        };
        let stream = stream.intern();
        let outcome = outcome.clone();
        Plan::scan(Feed {
            stream,
            upto,
            clock,
            outcome,
        })
    };
    let (id, rate) = match shared {
        SharedAxis::Indices => (31, 100),
        SharedAxis::Time => (33, 100),
        SharedAxis::TwoRates => (34, 50),
    };
    Feeds {
        talking: feed(talking, if id == 31 { 31 } else { 32 }, 100, TALKED),
        silent: feed(silent, id, rate, rate as i64),
        outcome,
    }
}

fn named(plan: &Plan, name: &str, params: Value, others: &[Plan]) -> Plan {
    let catalog = Catalog::standard();
    let operator = catalog.get(name).unwrap();
    let params = params.as_object().unwrap().clone();
    plan.apply(operator, params, others).unwrap()
}

fn rows(plan: &Plan) -> Plan {
    let rate = plan.port().rate().unwrap().to_f64();
    let windows = match plan.port() {
        PortType::Samples { .. } => plan.rewindow((rate / 10.0) as u64).unwrap(),
        _ => plan.clone(),
    };
    windows.stats([Stat::Min, Stat::Max]).unwrap()
}

fn join(a: &Plan, b: &Plan, how: &str) -> Plan {
    named(a, "join", json!({"how": how}), std::slice::from_ref(b))
}

fn check(name: &str, of: Feeds, plan: &Plan, wanted: u64, workers: usize) {
    let outcome = of.outcome;
    outcome.wanted.store(wanted, Ordering::Release);
    outcome.out.store(0, Ordering::Release);
    let counted = outcome.clone();
    let count = Mutex::new(0_u64);
    let each = plan.each(move |item| {
        let mut count = count.lock().unwrap();
        *count += match item {
            Item::Rows(rows) => rows.count(),
            other => other.samples(),
        };
        counted.out.store(*count, Ordering::Release);
        Ok(())
    });
    let mut options = RunOptions::default();
    options.workers = workers;
    each.unwrap().collect_with(&options).unwrap();
    let out = outcome.out.load(Ordering::Acquire);
    let starved = outcome.starved.load(Ordering::Acquire);
    assert!(
        !starved && out == wanted,
        "{name}, {workers} workers: {out} of {wanted}, starved: {starved}"
    );
}

#[test]
fn joins_go_on_by_index_by_civil_time_and_at_two_rates() {
    for shared in [SharedAxis::Indices, SharedAxis::Time, SharedAxis::TwoRates] {
        for (how, wanted) in [("inner", 10), ("left", 100), ("outer", 100)] {
            for workers in [1, 3] {
                let of = feeds(shared);
                let plan = join(&rows(&of.talking), &rows(&of.silent), how);
                check(&format!("{how} {shared:?}"), of, &plan, wanted, workers);
                let of = feeds(shared);
                let plan = join(&rows(&of.silent), &rows(&of.talking), how);
                let wanted = if how == "outer" { 100 } else { 10 };
                check(
                    &format!("{how} of a silent one, {shared:?}"),
                    of,
                    &plan,
                    wanted,
                    workers,
                );
            }
        }
    }
}

#[test]
fn a_join_behind_a_join_whose_left_side_is_silent_goes_on() {
    for shared in [SharedAxis::Indices, SharedAxis::Time, SharedAxis::TwoRates] {
        let of = feeds(shared);
        let talking = rows(&of.talking).select(&["start", "end"], []).unwrap();
        let first = join(&rows(&of.silent), &rows(&of.talking), "inner");
        let first = first.select(&["start", "end"], []).unwrap();
        let plan = join(&talking, &first, "left");
        check(&format!("{shared:?}"), of, &plan, 100, 1);
    }
}

#[test]
fn merges_and_matched_inputs_go_on() {
    for workers in [1, 3] {
        let of = feeds(SharedAxis::Indices);
        let plan = rows(&of.talking);
        let others = rows(&of.silent);
        let aligned = join(&plan, &others, "left")
            .select(&["start", "end", "min"], [])
            .unwrap();
        let merged = aligned.merge(&[plan.select(&["start", "end", "min"], []).unwrap()]);
        if let Ok(merged) = merged {
            check("merge behind a join", of, &merged, 200, workers);
        }
        let of = feeds(SharedAxis::Indices);
        let difference = of.talking.map_with(
            &(Expr::input() - Expr::input_at(1)),
            std::slice::from_ref(&of.silent),
        );
        let plan = join(&rows(&of.talking), &rows(&difference.unwrap()), "left");
        check("map of both", of, &plan, 100, workers);
        let of = feeds(SharedAxis::Indices);
        let windows = |plan: &Plan| plan.rewindow(10).unwrap();
        let kept = windows(&of.talking).filter_with(
            &Expr::input().max().gt(Expr::input_at(1).max() - 1),
            &[windows(&of.silent)],
        );
        let plan = join(&rows(&of.talking), &rows(&kept.unwrap()), "left");
        check("filter by both", of, &plan, 100, workers);
        let of = feeds(SharedAxis::Indices);
        let both = windows(&of.talking).zip(&[windows(&of.silent)]).unwrap();
        let plan = join(&rows(&of.talking), &rows(&both.output(1).unwrap()), "left");
        check("zip", of, &plan, 100, workers);
    }
}

#[test]
fn ranges_that_select_from_a_silent_signal_go_on() {
    let of = feeds(SharedAxis::Indices);
    let second = of.talking.rewindow(10).unwrap();
    let second = second.filter(&Expr::input().max().gt(15)).unwrap();
    let ranges = named(&second, "ranges", json!({}), &[]);
    let cut = of.silent.sync(&[ranges]).unwrap();
    let plan = join(&rows(&of.talking), &rows(&cut), "left");
    check("sync", of, &plan, 100, 1);
}

/// Values of cubic interpolation begin at the second sample, so the last ones are no whole window. Both feeds have one
/// name, by which the clock is found.
#[test]
fn windows_of_aligned_samples_go_on_whichever_is_silent() {
    for shared in [SharedAxis::Time, SharedAxis::TwoRates] {
        for method in ["linear", "cubic"] {
            for workers in [1, 3] {
                let align = |plan: &Plan, to: &Plan| {
                    named(
                        plan,
                        "align",
                        json!({"method": method}),
                        std::slice::from_ref(to),
                    )
                };
                let of = named_feeds(shared, ["feed"; 2]);
                let aligned = align(&of.silent, &of.talking);
                let plan = join(&rows(&of.talking), &rows(&aligned), "left");
                let name = format!("{method} of a silent one, {shared:?}");
                check(&name, of, &plan, 100, workers);
                let of = named_feeds(shared, ["feed"; 2]);
                let aligned = align(&of.talking, &of.silent);
                let plan = join(&rows(&of.talking), &rows(&aligned), "left");
                let name = format!("{method} to a silent one, {shared:?}");
                check(&name, of, &plan, 100, workers);
            }
        }
    }
}
