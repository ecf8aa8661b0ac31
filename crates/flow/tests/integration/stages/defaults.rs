//! What plans whose workers nobody asked for get: several only where nobody could notice.

use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

use isochrony_flow::{
    Contract, Item, Next, OpError, Operator, OperatorFactory, OperatorProperties, Out, Plan,
    PlanError, PlanOutput, Port, PortType, Recording, Report, RunOptions, SharedFactory,
    SharedRecording, Source, SourceEvent,
};
use isochrony_segment::{DType, SigSeg, Stream, StreamId};
use isochrony_time::{Rate, TimebaseId};

use super::{filters, generated, generated_here};
use crate::common::channels::channel;

/// Enough for several workers.
const LONG: i64 = 1_300_000;

fn by_default(plan: &Plan) -> (PlanOutput, Report) {
    let mut options = RunOptions::default();
    (options.workers, options.auto_workers) = (3, true);
    plan.collect_with(&options).unwrap()
}

/// A feed of short segments, which arrive at intervals and wake nobody.
struct Paced {
    stream: StreamId,
    count: i64,
    interval: Duration,
}

struct PacedSource {
    stream: StreamId,
    arrivals: Vec<Instant>,
    next: usize,
}

impl Recording for Paced {
    fn port(&self) -> PortType {
        PortType::Samples {
            dtype: DType::I16,
            stream: self.stream,
        }
    }

    fn open(&self, _: Option<Range<i64>>, _: u64) -> Result<Box<dyn Source>, OpError> {
        let begun = Instant::now();
        Ok(Box::new(PacedSource {
            stream: self.stream,
            arrivals: (1..=self.count as u32)
                .map(|nth| begun + nth * self.interval)
                .collect(),
            next: 0,
        }))
    }
}

impl Source for PacedSource {
    fn pull(&mut self) -> Result<SourceEvent, OpError> {
        let Some(arrival) = self.arrivals.get(self.next) else {
            return Ok(SourceEvent::End);
        };
        if Instant::now() < *arrival {
            return Ok(SourceEvent::Idle);
        }
        let start = 500 * self.next as i64;
        let samples: Vec<i16> = (start..start + 500).map(|at| (at % 977) as i16).collect();
        self.next += 1;
        Ok(SourceEvent::Item(
            SigSeg::from_slice(&samples, start, self.stream)?.into(),
        ))
    }
}

fn paced(count: i64, interval: Duration) -> Plan {
    let rate = Rate::new(100_000, 1).unwrap();
    let stream = Stream::new("paced", TimebaseId(0), rate).intern();
    Plan::scan(Paced {
        stream,
        count,
        interval,
    })
}

fn power(plan: &Plan) -> Plan {
    plan.rewindow(256).unwrap().power().unwrap()
}

#[test]
fn generated_samples_are_processed_in_stages_and_by_other_threads_where_one_is_busy() {
    let plan = power(&filters(generated(0, 0..LONG, 1000, &Arc::default()), 2));
    let (one, _) = plan.collect_with(&RunOptions::default()).unwrap();
    let (got, report) = by_default(&plan);
    assert_eq!(got, one);
    assert!(report.stages.len() > 3, "{}", plan.explain());
    assert!(report.threads.len() > 1, "{report}");
    let busy = "by default a worker for each core, once the caller's thread is busy";
    assert!(plan.explain().contains(busy), "{}", plan.explain());
}

#[test]
fn a_light_feed_keeps_one_thread() {
    let plan = power(&filters(paced(30, Duration::from_millis(10)), 2));
    let (_, report) = by_default(&plan);
    assert!(
        report.stages.len() > 3 && report.threads.is_empty(),
        "{report}"
    );
}

#[test]
fn before_a_limit_a_long_stored_plan_is_cut_and_a_short_one_is_not() {
    let stored = Plan::scan_shared(channel(0, &[0..LONG], 10_000));
    let spectra = power(&filters(stored, 2));
    for (windows, staged) in [(4_500, true), (50, false)] {
        let plan = spectra.limit(windows).unwrap();
        let (one, _) = plan.collect_with(&RunOptions::default()).unwrap();
        let (got, report) = by_default(&plan);
        assert_eq!(got, one);
        assert_eq!(!report.stages.is_empty(), staged, "{}", plan.explain());
        assert!(report.workers.is_empty());
    }
    let text = spectra.limit(50).unwrap().explain();
    assert!(
        text.contains("by default one worker: it reads only 12800 samples"),
        "{text}"
    );
    let twice = spectra.limit(4_500).unwrap().limit(50).unwrap();
    assert!(
        (twice.explain()).contains("by default one worker: it reads only 12800 samples"),
        "{}",
        twice.explain()
    );
    // What others read ahead of a feed would be lost.
    let feed = power(&filters(generated(0, 0..LONG, 1000, &Arc::default()), 2));
    let text = feed.limit(4_500).unwrap().explain();
    assert!(
        text.contains("by default one worker: something may end early"),
        "{text}"
    );
}

type Calls = Arc<Mutex<Vec<(ThreadId, i64, u64)>>>;

/// Notes who calls it with which items, as a function in Python might.
#[derive(Clone)]
struct Noting(Calls);

impl OperatorFactory for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }

    fn make(&self, _: Option<&SharedRecording>) -> Result<Box<dyn Operator>, PlanError> {
        Ok(Box::new(self.clone()))
    }
}

impl Operator for Noting {
    fn bind(&mut self, inputs: &[PortType]) -> Result<OperatorProperties, PlanError> {
        let properties = OperatorProperties::new(inputs.iter().copied());
        Ok(properties.contract(Contract::Stateless).in_interpreter())
    }

    fn process(&mut self, _: Port, item: &mut Item, _: &mut Out<'_>) -> Result<Next, OpError> {
        let range = item.range().unwrap_or(0..0);
        let call = (std::thread::current().id(), range.start, item.samples());
        self.0.lock().unwrap().push(call);
        Ok(Next::Forward)
    }
}

fn noted(plan: &Plan, calls: &Calls) -> Plan {
    let factory = SharedFactory::new(Noting(Arc::clone(calls)));
    plan.apply_factory(factory, &[]).unwrap()
}

fn taken(calls: &Calls) -> Vec<(ThreadId, i64, u64)> {
    std::mem::take(&mut calls.lock().unwrap())
}

#[test]
fn a_function_is_called_in_the_callers_thread_with_the_items_of_one_thread() {
    let calls = Calls::default();
    let stored = |segment| Plan::scan_part(channel(0, &[0..LONG], segment), None, segment as u64);
    for segment in [700, 9_000, 100_000] {
        for source in [
            stored(segment),
            generated(0, 0..LONG, segment, &Arc::default()),
        ] {
            let filtered = filters(source, 2);
            for plan in [
                filtered.clone(),
                power(&filtered),
                filtered.rewindow(3000).unwrap(),
            ] {
                let plan = noted(&noted(&plan, &calls), &calls);
                let (one, _) = plan.collect_with(&RunOptions::default()).unwrap();
                let expected = taken(&calls);
                let (got, report) = by_default(&plan);
                assert!(report.stages.len() > 1, "{}", plan.explain());
                assert!(report.stages.iter().all(|stage| stage.replica.is_none()));
                assert!(report.workers.is_empty());
                assert_eq!((taken(&calls), got), (expected, one));
            }
        }
    }
}

#[test]
fn a_function_that_could_notice_keeps_one_thread() {
    let calls = Calls::default();
    let reason = |plan: &Plan| {
        let text = plan.explain();
        let line = text
            .lines()
            .find(|line| line.starts_with("by default"))
            .unwrap();
        let (_, report) = by_default(plan);
        assert!(
            report.stages.is_empty() && report.workers.is_empty(),
            "{text}"
        );
        line.to_owned()
    };
    let alternates = noted(&filters(generated_here(0, 0..LONG, 5000), 2), &calls);
    assert!(reason(&alternates).contains("would no longer alternate"));
    let [a, b] = [0, 1].map(|nth| Plan::scan_shared(channel(nth, &[0..LONG], 5000)));
    let both = filters(a, 1).zip(&[filters(b, 1)]).unwrap();
    assert!(reason(&noted(&both, &calls)).contains("blocks of other lengths"));
}
