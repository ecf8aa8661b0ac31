//! Runs plans: one thread, depth first, a bounded burst at a time.
//!
//! A [`Run`] is a graph whose operators are laid out in topological order ([`slot`]), driven by items from its sources
//! ([`drive`]). Sources are asked in turn, the one that lags behind first, for a burst of items; then come progress
//! marks, and between bursts interrupts are looked for and whatever was asked to change is changed.

pub(crate) mod drive;
pub(crate) mod fan_in;
pub(crate) mod marks;
mod meeting;
mod options;
pub(crate) mod pool;
pub(crate) mod slot;

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use drive::{NOWHERE, Out, Shared, at, drive, fan_out};
use fan_in::{BACK, FanIn};
use marks::{Mark, mark_all};
use pool::Pool;
use slot::{Cold, FRESH, MANY, Slot, To};

pub use options::{MEMORY, Progress, RunOptions};

use crate::control::{Change, Control};
use crate::graph::{Graph, LOOP};
use crate::plan;
use crate::report::{OperatorReport, Report};
use crate::{Align, Applied, Break, OpError, OpErrorKind, Pulled, RunError, Source};

/// Samples after which a burst ends.
const BURST_SAMPLES: u64 = 1 << 18;
/// Items after which a burst ends.
const BURST_ITEMS: u64 = 64;
struct Feed {
    source: Box<dyn Source>,
    node: usize,
    /// Index up to which it has given.
    upto: i64,
    /// The same as time: index over rate, so that sources of different rates keep together.
    time: f64,
    seconds: f64,
    ended: bool,
}

pub(crate) struct Run {
    /// Of each node of the graph, sources too.
    slots: Vec<Slot>,
    feeds: Vec<Feed>,
    shared: Shared,
    names: Vec<&'static str>,
    bursts: u64,
    /// Items of the sources.
    given: u64,
    /// Their samples that had their time taken.
    timed_samples: u64,
}

impl Run {
    /// Opens what the graph reads and makes its operators.
    pub(crate) fn new(graph: &Graph, options: &RunOptions<'_>) -> Result<Self, RunError> {
        let failed = |node: usize, error: OpError| RunError::Operator {
            operator: graph.nodes[node].op.name(),
            node,
            range: None,
            time: None,
            error,
        };
        let mut edges: Vec<Vec<Vec<To>>> = graph
            .nodes
            .iter()
            .map(|node| vec![Vec::new(); node.bound.outputs.len().max(1)])
            .collect();
        for (at, node) in graph.nodes.iter().enumerate() {
            for (port, &(from, output)) in node.inputs.iter().enumerate() {
                if graph.loop_begin(at) == Some(from) && port == LOOP {
                    // Says which loop it ends, and takes nothing.
                    continue;
                }
                edges[from][usize::from(output)].push(To {
                    node: at as u32,
                    port: port as u16,
                });
            }
        }
        let (mut slots, mut cold, mut feeds) = (Vec::new(), Vec::new(), Vec::new());
        for (at, node) in graph.nodes.iter().enumerate() {
            if let Some(source) = plan::open(&node.op) {
                let rate = node.bound.outputs.first().and_then(crate::PortType::rate);
                feeds.push(Feed {
                    source: source.map_err(|error| failed(at, error))?,
                    node: at,
                    upto: i64::MIN,
                    time: f64::NEG_INFINITY,
                    seconds: rate.map_or(1.0, |rate| 1.0 / rate.to_f64()),
                    ended: false,
                });
            }
            let op: Box<dyn crate::Operator> = match node.op.make(graph.reads(at)) {
                None => Box::new(Nothing),
                Some(made) => {
                    let types: Vec<_> = node
                        .inputs
                        .iter()
                        .map(|&(n, o)| graph.nodes[n].bound.outputs[usize::from(o)])
                        .collect();
                    let made = made.and_then(|mut op| op.bind(&types).map(|_| op));
                    made.map_err(|error| failed(at, OpErrorKind::Failed(error.into()).into()))?
                }
            };
            let fan_in = node.bound.align != Align::Single;
            let from = node.inputs.iter().map(|&(n, o)| {
                let stream = graph.nodes[n].bound.outputs[usize::from(o)].stream_id();
                let name = format!("{} (node {n})", graph.nodes[n].op.name());
                (name, stream.and_then(crate::rows::clock_of))
            });
            // What is fed back comes without an edge.
            let looped = matches!(node.bound.align, Align::Loop { .. });
            let from = from.chain(looped.then(|| ("what is fed back".into(), None)));
            let queues = fan_in.then(|| Box::new(FanIn::new(node.bound.align, from)));
            // Along a chain items are counted once: sources and fan-ins begin one.
            let chained = !fan_in && !node.inputs.is_empty();
            let next = match edges[at].first().map(Vec::as_slice) {
                Some(&[To { node, .. }]) if chained && single(graph, node) => node,
                _ => MANY,
            };
            slots.push(Slot {
                op,
                expected: FRESH,
                next,
                followers: 0,
                ended: false,
                fan_in,
            });
            let edges = std::mem::take(&mut edges[at]);
            let begin = graph.loop_begin(at);
            let inputs = node.inputs.len() - usize::from(begin.is_some());
            let in_step = node.bound.in_step && chained;
            let mut one = Cold::new(node.op.name(), in_step, edges, inputs, queues);
            one.loop_begin = begin.map(|begin| begin as u32);
            cold.push(one);
        }
        slot::fall_in(&mut slots, &cold);
        for (node, slot) in slots.iter_mut().enumerate() {
            let ends = cold[node].edges.iter().all(Vec::is_empty);
            if let Some(samples) = ends.then(|| expected(graph, &feeds, node)).flatten() {
                slot.op.expect(samples);
            }
        }
        let count = slots.len();
        Ok(Self {
            slots,
            feeds,
            shared: Shared {
                cold,
                pool: Pool::new(options.memory),
                queued: 0,
                back: VecDeque::new(),
                current: 0,
                range: NOWHERE,
                interrupt: options.interrupt.cloned(),
                timed: false,
                since: Instant::now(),
                useful_ns: vec![0; count],
                ended: false,
            },
            names: graph.nodes.iter().map(|node| node.op.name()).collect(),
            bursts: 0,
            given: 0,
            timed_samples: 0,
        })
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self, options: &RunOptions<'_>) -> Result<Report, RunError> {
        let begun = Instant::now();
        if let Some(progress) = options.progress {
            let totals = self.feeds.iter().map(|feed| feed.source.total());
            let total = totals.sum::<Option<u64>>().unwrap_or(0);
            progress.total.store(total, Ordering::Relaxed);
        }
        loop {
            // The source that lags behind; the first of equals.
            let open = self
                .feeds
                .iter()
                .enumerate()
                .filter(|(_, feed)| !feed.ended);
            let Some((feed, _)) = open.min_by(|a, b| a.1.time.total_cmp(&b.1.time)) else {
                break;
            };
            // One guard a burst: what a panic needs to know is in `shared`, which is only read after it.
            let burst = catch_unwind(AssertUnwindSafe(|| self.burst(feed, options)));
            let error = match burst {
                Ok(Ok(())) => continue,
                Ok(Err(error)) if matches!(error.kind(), OpErrorKind::Interrupted) => {
                    return Err(RunError::Interrupted { items: self.given });
                }
                Ok(Err(error)) => error,
                Err(panic) => {
                    let text = panic.downcast_ref::<String>().map(String::as_str);
                    let text = text.or(panic.downcast_ref::<&str>().copied());
                    OpErrorKind::Panicked {
                        message: text.unwrap_or("no message").into(),
                    }
                    .into()
                }
            };
            return Err(self.locate(error));
        }
        match self.starved() {
            Some(error) => Err(error),
            None => Ok(self.report(begun.elapsed())),
        }
    }

    /// What waits in a loop for what will not come.
    fn starved(&mut self) -> Option<RunError> {
        let waits = |cold: &Cold| cold.queues.as_ref()?.waits();
        let waiting = self.shared.cold.iter().enumerate();
        let mut waiting = waiting.filter(|(at, cold)| cold.is_loop() && !self.slots[*at].ended);
        let (node, range) = waiting.find_map(|(node, cold)| Some((node, waits(cold)?)))?;
        self.shared.current = node as u32;
        self.shared.range = (range.start, range.end);
        Some(self.locate(OpErrorKind::LoopStarved { waiting: range }.into()))
    }

    /// Adds where it happened to an error.
    fn locate(&self, error: OpError) -> RunError {
        let node = self.shared.current as usize;
        let (start, end) = self.shared.range;
        let range = (self.shared.range != NOWHERE).then_some(start..end);
        let time = range.as_ref().and_then(|range| {
            self.feeds
                .iter()
                .find_map(|feed| feed.source.time_of(range.start))
        });
        RunError::Operator {
            operator: self.names.get(node).copied().unwrap_or("scan"),
            node,
            range,
            time,
            error,
        }
    }

    /// Gives an operator other parameters, or the place of one that has them.
    fn change(&mut self, change: Change) -> Result<(), OpError> {
        let node = change.node as u32;
        self.shared.switch(node);
        self.shared.range = NOWHERE;
        let (slot, later) = at(&mut self.slots, 0, node);
        if slot.ended || slot.op.set(&change.params)? == Applied::Changed {
            return Ok(());
        }
        slot.op.on_break(
            0,
            &Break::Removed,
            &mut Out::of(node, later, &mut self.shared),
        )?;
        slot.op = change.fresh;
        go_round(&mut self.slots, &mut self.shared)
    }

    /// A bounded number of items of one source, and the marks that follow them.
    fn burst(&mut self, feed: usize, options: &RunOptions<'_>) -> Result<(), OpError> {
        let changes = options.control.map(Control::take).unwrap_or_default();
        for change in changes {
            self.change(change)?;
        }
        let Self {
            slots,
            feeds,
            shared,
            bursts,
            given,
            timed_samples,
            ..
        } = self;
        let feed = &mut feeds[feed];
        // The first item of a burst has its time taken: of 64 small items one, so that the clock is not seen.
        shared.timed = true;
        shared.since = Instant::now();
        shared.current = feed.node as u32;
        *bursts += 1;
        let node = feed.node as u32;
        let behind = feed.node + 1;
        let (mut samples, mut items) = (0, 0);
        while samples < BURST_SAMPLES && items < BURST_ITEMS && !feed.ended {
            shared.go_on()?;
            shared.switch(node);
            match feed.source.pull()? {
                Pulled::Item(mut item) => {
                    let count = item.samples();
                    (samples, items, *given) = (samples + count, items + 1, *given + 1);
                    feed.upto = item.extent().map_or(feed.upto, |(_, next)| next);
                    shared.cold[feed.node].count(count);
                    fan_out(&mut slots[behind..], node, 0, &mut item, shared)?;
                    go_round(slots, shared)?;
                    if shared.timed {
                        shared.switch(node);
                        shared.timed = false;
                        *timed_samples += count;
                    }
                }
                Pulled::Stretch { anchor, why } => {
                    let mark = Mark::Stretch { anchor, why };
                    mark_all(&mut slots[behind..], node, &mark, shared)?;
                    go_round(slots, shared)?;
                }
                Pulled::Idle => break,
                Pulled::End => feed.ended = true,
            }
            if shared.ended {
                shared.ended = false;
                slot::end_upstream(slots, &shared.cold);
                feed.ended |= slots[feed.node].ended;
            }
        }
        if let Some(progress) = options.progress {
            progress.done.fetch_add(samples, Ordering::Relaxed);
        }
        feed.time = feed.upto as f64 * feed.seconds;
        let progress = (feed.upto > i64::MIN).then_some(Mark::Progress(feed.upto));
        let end = feed.ended.then_some(Mark::End);
        for mark in progress.into_iter().chain(end) {
            mark_all(&mut slots[behind..], node, &mark, shared)?;
            go_round(slots, shared)?;
        }
        shared.switch(node);
        Ok(())
    }

    /// What the sink at a node gathered.
    pub(crate) fn result(&mut self, node: usize) -> Option<crate::Gathered> {
        self.slots[node].op.result()
    }

    fn report(&self, elapsed: Duration) -> Report {
        let counts = slot::counts(&self.slots, &self.shared.cold);
        let given: u64 = self.feeds.iter().map(|feed| counts[feed.node].1).sum();
        let share = given as f64 / self.timed_samples.max(1) as f64;
        let each = self
            .shared
            .cold
            .iter()
            .zip(counts)
            .zip(&self.shared.useful_ns);
        let operators = each.map(|((cold, (items, samples)), &useful)| OperatorReport {
            name: cold.name,
            items,
            samples,
            gaps: cold.gaps,
            useful: Duration::from_nanos((useful as f64 * share) as u64),
        });
        Report {
            operators: operators.collect(),
            bursts: self.bursts,
            elapsed,
            peak_bytes: self.shared.pool.peak,
        }
    }
}

/// Drives what was fed back, and what comes of it, until nothing more is.
fn go_round(slots: &mut [Slot], shared: &mut Shared) -> Result<(), OpError> {
    while let Some((begin, mut item)) = shared.back.pop_front() {
        shared.go_on()?;
        let to = To {
            node: begin,
            port: BACK,
        };
        drive(&mut slots[begin as usize..], begin, to, &mut item, shared)?;
    }
    Ok(())
}

/// Samples that will reach a sink, if it is at the end of a chain that leaves none out.
fn expected(graph: &Graph, feeds: &[Feed], node: usize) -> Option<u64> {
    let mut now = node;
    while let [(from, _)] = graph.nodes[now].inputs[..] {
        if now != node && graph.nodes[now].bound.ratio != Some((1, 1)) {
            return None;
        }
        now = from;
    }
    let feed = feeds.iter().find(|feed| feed.node == now)?;
    (now != node).then(|| feed.source.total()).flatten()
}

/// Whether a node takes items from one edge only.
fn single(graph: &Graph, node: u32) -> bool {
    let node = &graph.nodes[node as usize];
    node.bound.align == Align::Single && node.inputs.len() == 1
}

/// Stands in the place of a source, which is not an operator.
struct Nothing;

impl crate::Operator for Nothing {
    fn bind(&mut self, _: &[crate::PortType]) -> Result<crate::Bound, crate::PlanError> {
        Ok(crate::Bound::new([]))
    }

    fn process(
        &mut self,
        _: u16,
        _: &mut crate::Item,
        _: &mut drive::Out<'_>,
    ) -> Result<crate::Next, OpError> {
        Ok(crate::Next::Taken)
    }
}
